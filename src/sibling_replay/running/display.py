"""What a person sees of runs under way: a live bar on a terminal, elsewhere a line a run."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from sibling_replay.running.runner import Progress

NEWS_EVERY = 600.0  # seconds without a word, where no bar is shown


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class StudyDisplay:
    """Shows the progress of one study; `observe` is the callback `run_study` wants."""

    def __init__(self, console: Console, title: str) -> None:
        self.console = console
        self.title = title
        self.live = console.is_terminal
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[runs]}"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not self.live,
        )
        self.task = self.bar.add_task(title, total=None, runs="", rate="", left="")
        self._begun = self._explained = False
        self._said = time.monotonic()

    def __enter__(self) -> StudyDisplay:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def observe(self, now: Progress) -> None:
        ended = now.already + now.done + now.failed
        rate = f"{now.steps_per_second:,.0f} steps/s"
        left = f"{duration(now.seconds_left)} left"
        failed = f", {now.failed} failed" if now.failed else ""
        self.bar.update(
            self.task,
            total=now.total,
            completed=ended + now.underway,
            runs=f"{ended}/{now.total} runs{failed}",
            rate=rate,
            left=left,
        )
        if not self._begun:
            self._begun = True
            todo = now.total - now.already
            self._say(f"{self.title}: {now.total} runs, {now.already} already done, {todo} to do")
        if now.preparing and not self._explained:
            self._explained = True
            self._say("starting (the first time, kernels are compiled: a minute or two)")
        if now.last is None:
            quiet = time.monotonic() - self._said
            if not self.live and quiet > NEWS_EVERY and now.underway:
                share = (ended + now.underway) / now.total
                self._say(f"[{ended}/{now.total}] {share:.1%} of all  {rate}  {left}")
            return
        name, took = now.last.run.id, duration(now.last.seconds)
        if now.last.result is None:
            self._say(f"[{ended}/{now.total}] FAILED {name}")
        elif not self.live:
            self._say(f"[{ended}/{now.total}] {name}  {took}  {rate}  {left}")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
