"""Race our buffer against cpprb, Tianshou and TorchRL, and write `replay.md` and `replay.json`.

One worker process per contestant stays alive, each in its library's own environment, all pinned to
one core; rounds are interleaved and only one worker is busy at a time, so that a slow minute of the
machine is everybody's. A figure is the median round. Run `setup_peers.py` first (`make bench` does
both).

Usage: python benchmarks/replay.py [--quick] [--only 5000/32/tabular ...] [--contestants ...]
A run of chosen cells or contestants writes to `.venv-bench/` unless told otherwise with --output.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import report
from contestants import CONTESTANTS
from setup_peers import ENVIRONMENTS, RECIPES, ROOT, python_of

HERE = Path(__file__).resolve().parent
CAPACITIES = (5_000, 100_000, 1_000_000)
BATCH_SIZES = (32, 256)
PAYLOADS = ("tabular", "minatar")
CALIBRATION = 100  # cycles timed to decide how many make a round
MEMORY_STRATEGIES = ("SiblingSample", "SiblingAverage", "SiblingModel")
STARTUPS = 3  # after one that fills the cache


class Worker:
    """A contestant's process, spoken to in lines of JSON."""

    def __init__(self, name: str, core: int) -> None:
        self.name = name
        self.log = ENVIRONMENTS / f"{name}.log"
        self.process = subprocess.Popen(
            [interpreter(name), HERE / "worker.py", name, str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log.open("w"),
            text=True,
        )

    def do(self, command: str, **arguments: object) -> dict:
        self.process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} died:\n{self.log.read_text()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {command} failed\n{answer['error']}")
        return answer

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def interpreter(name: str) -> Path:
    """A peer's own Python; for ours the project's, or the one running this if there is none."""
    if name in RECIPES:
        return python_of(name)
    project = ROOT / ".venv" / "bin" / "python"
    return project if project.exists() else Path(sys.executable)


def race(workers: list[Worker], cell: dict, rounds: int, seconds: float) -> dict:
    """One cell: {contestant: {"cycle" | "add" | "sample" | "update": microseconds by round}}."""
    counts = {}
    for worker in workers:
        built = worker.do("build", **cell)
        per_cycle = worker.do("cycles", n=CALIBRATION)["cycle"]
        counts[worker.name] = max(CALIBRATION, int(seconds * 1e6 / per_cycle))
        print(f"    {worker.name}: filled in {built['seconds']:.1f} s", flush=True)
    figures = {w.name: {"cycle": [], "add": [], "sample": [], "update": []} for w in workers}
    for turn in range(rounds):
        shift = turn % len(workers)  # nobody always follows the same neighbour
        for worker in workers[shift:] + workers[:shift]:
            n = counts[worker.name]
            for part, value in (worker.do("cycles", n=n) | worker.do("parts", n=n)).items():
                figures[worker.name][part].append(value)
    for name, parts in figures.items():
        medians = {part: statistics.median(values) for part, values in parts.items()}
        print("    " + report.one_line(name, medians), flush=True)
    return figures


def measure_memory(quick: bool) -> list[dict]:
    """Overhead of grouped buffers of a million entries, each case in a fresh process."""
    cases = []
    for strategy in MEMORY_STRATEGIES[: 1 if quick else None]:
        for payload in PAYLOADS:
            for groups in ("singletons", "grouped", "churned"):
                case = run_ours("memory.py", strategy, payload, groups)
                print(f"    {strategy} {payload} {groups}: {case['overhead']:.1f} B", flush=True)
                cases.append(case)
    return cases


def measure_startup() -> dict:
    """Seconds to import, and from process start to the first whole cycle, with a warm cache."""
    run_ours("startup.py")
    runs = []
    for _ in range(STARTUPS):
        started = time.monotonic()
        run = run_ours("startup.py")
        runs.append({**run, "ready": run["ready"] - started})
    middle = {key: statistics.median(run[key] for run in runs) for key in ("import", "ready")}
    return {**middle, "torch_loaded": any(run["torch_loaded"] for run in runs), "runs": runs}


def run_ours(script: str, *arguments: str) -> dict:
    """Run one of our scripts in a fresh process; its last line of output is its answer."""
    command = [interpreter("ours"), HERE / script, *arguments]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[-1])


def machine(core: int) -> dict:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = models[0].split(":")[1].strip() if models else cpu
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.system()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "pinned_to": core,
        "memory_gib": round(memory, 1),
        "system": system,
    }


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3 short rounds, one memory strategy")
    parser.add_argument(
        "--only", nargs="+", metavar="CELL", help="such as 5000/32/tabular, */256/*"
    )
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--rounds", type=int, help="default 11, with --quick 3")
    parser.add_argument("--seconds", type=float, help="CPU time of a round, default 0.2, quick 0.1")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--no-extras", action="store_true", help="skip memory and start-up")
    parser.add_argument("--output", type=Path, help="where to write, without the .md and .json")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (3 if options.quick else 11)
    options.seconds = options.seconds or (0.1 if options.quick else 0.2)
    whole = not (options.only or options.quick or options.no_extras)
    whole = whole and len(options.contestants) == len(CONTESTANTS)
    options.output = options.output or (HERE if whole else ENVIRONMENTS) / "replay"
    return options


def chosen_cells(only: list[str] | None) -> list[dict]:
    cells = []
    for payload in PAYLOADS:
        for batch_size in BATCH_SIZES:
            for capacity in CAPACITIES:
                name = f"{capacity}/{batch_size}/{payload}"
                if not only or any(fnmatch.fnmatch(name, pattern) for pattern in only):
                    cells.append(
                        {"capacity": capacity, "batch_size": batch_size, "payload": payload}
                    )
    return cells


def main() -> None:
    options = parse()
    command = " ".join(["python benchmarks/replay.py", *sys.argv[1:]])
    ENVIRONMENTS.mkdir(exist_ok=True)
    results = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command,
        "machine": machine(options.core),
        "rounds": options.rounds,
        "seconds_per_round": options.seconds,
        "versions": {},
        "cells": [],
    }
    workers = [Worker(name, options.core) for name in options.contestants]
    try:
        for worker in workers:
            results["versions"][worker.name] = worker.do("versions")
        for cell in chosen_cells(options.only):
            print("{capacity}/{batch_size}/{payload}".format(**cell), flush=True)
            figures = race(workers, cell, options.rounds, options.seconds)
            results["cells"].append({**cell, "rounds": figures})
    finally:
        for worker in workers:
            worker.close()
    if not options.no_extras:
        print("start-up and memory", flush=True)
        results["startup"] = measure_startup()
        results["memory"] = measure_memory(options.quick)
    options.output.parent.mkdir(exist_ok=True)
    options.output.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    options.output.with_suffix(".md").write_text(report.markdown(results))
    print("\n".join(report.check_lines(results)))


if __name__ == "__main__":
    main()
