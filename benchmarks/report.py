"""What the benchmark's raw figures say: the tables of `replay.md`, and each requirement met or not.

Pure functions of the results; nothing is measured here.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

PARTS = ("add", "sample", "update", "cycle")
OURS, SIBLING = "ours-per", "ours-sample"
LABELS = {
    OURS: "ours, PER",
    SIBLING: "ours, SAMPLE",
    "cpprb": "cpprb",
    "tianshou": "Tianshou",
    "torchrl": "TorchRL",
}

# The requirements (issue 2, points 6 to 8); the first two by batch size.
SPEEDUP = {32: 6.0, 256: 4.0}
SIBLING_RATIO = {32: 1.3, 256: 1.6}
GROWTH = 3.0  # of a cycle's cost, from the smallest capacity to the largest
OVERHEAD_BYTES = 48.0
READY_SECONDS = 3.0
IMPORT_SECONDS = 1.5
REQUIRED_STRATEGY = "SiblingSample"


class Check(NamedTuple):
    """One requirement against one measurement."""

    what: str
    value: float
    bound: float
    at_least: bool

    @property
    def passed(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "pass" if self.passed else "FAIL"
        return f"{verdict}  {self.what}: {self.value:.2f} ({sign} {self.bound:g})"


def medians(cell: dict) -> dict[str, dict[str, float]]:
    """{contestant: {part: microseconds}} of the median round."""
    return {
        name: {part: statistics.median(parts[part]) for part in PARTS}
        for name, parts in cell["rounds"].items()
    }


def ratio(cell: dict, above: str, below: str) -> float:
    """Cycle of one contestant over another's: the median of the ratios within a round. When the
    machine changes its speed between two rounds, medians of each alone may be of different
    halves."""
    pairs = zip(cell["rounds"][above]["cycle"], cell["rounds"][below]["cycle"], strict=True)
    return statistics.median(one / other for one, other in pairs)


def fastest_peer(figures: dict[str, dict[str, float]]) -> str | None:
    peers = [name for name in figures if name not in (OURS, SIBLING)]
    return min(peers, key=lambda name: figures[name]["cycle"], default=None)


def growths(results: dict) -> Iterator[tuple[str, str, int, float]]:
    """(contestant, payload, batch size, cycle at the largest capacity over the smallest)."""
    cases = dict.fromkeys((cell["payload"], cell["batch_size"]) for cell in results["cells"])
    for payload, batch_size in cases:
        cells = [
            cell
            for cell in results["cells"]
            if (cell["payload"], cell["batch_size"]) == (payload, batch_size)
        ]
        small = min(cells, key=lambda cell: cell["capacity"])
        large = max(cells, key=lambda cell: cell["capacity"])
        if small is large:
            continue
        first, last = medians(small), medians(large)
        for name in first:
            yield name, payload, batch_size, last[name]["cycle"] / first[name]["cycle"]


def checks(results: dict) -> list[Check]:
    """Every requirement that this run measured something for."""
    found = []
    for cell in results["cells"]:
        figures, batch = medians(cell), cell["batch_size"]
        where = f"{cell['capacity']}/{batch}/{cell['payload']}"
        peer = fastest_peer(figures)
        if OURS in figures and peer:
            times = ratio(cell, peer, OURS)
            found.append(Check(f"{where} {peer} / our PER", times, SPEEDUP[batch], True))
        if OURS in figures and SIBLING in figures:
            times = ratio(cell, SIBLING, OURS)
            found.append(Check(f"{where} SAMPLE / PER", times, SIBLING_RATIO[batch], False))
    for name, payload, batch, growth in growths(results):
        if name in (OURS, SIBLING):
            what = f"growth with capacity, {LABELS[name]}, {payload}, batch {batch}"
            found.append(Check(what, growth, GROWTH, False))
    for case in results.get("memory", ()):
        if case["strategy"] == REQUIRED_STRATEGY:
            what = f"bytes per entry beyond payload, {case['payload']}, {case['groups']}"
            found.append(Check(what, case["overhead"], OVERHEAD_BYTES, False))
    if startup := results.get("startup"):
        found.append(Check("seconds to first cycle", startup["ready"], READY_SECONDS, False))
        found.append(Check("seconds to import", startup["import"], IMPORT_SECONDS, False))
        found.append(Check("torch loaded by import", float(startup["torch_loaded"]), 0, False))
    return found


def check_lines(results: dict) -> list[str]:
    found = checks(results)
    if not found:
        return ["this run measured nothing that is required"]
    failed = sum(not check.passed for check in found)
    verdict = f"{len(found) - failed} of {len(found)} requirements measured here are met"
    return [*(str(check) for check in found), verdict]


def one_line(name: str, figures: dict[str, float]) -> str:
    parts = "  ".join(f"{part} {figures[part]:7.1f}" for part in PARTS)
    return f"{LABELS[name]:13} {parts}  us"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Markdown, the first column left, the others right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def cell_name(cell: dict) -> str:
    return f"{cell['payload']}, {cell['capacity']:,}, batch {cell['batch_size']}"


def headline(results: dict) -> str:
    """A row per cell: whole cycles, how far the fastest peer is behind, and what groups cost."""
    names = list(results["versions"])
    header = ["payload, capacity, batch", *(LABELS[name] for name in names)]
    header += [f"{LABELS[name]} / PER" for name in names if name not in (OURS, SIBLING)]
    header += ["SAMPLE / PER"]
    rows = []
    for cell in results["cells"]:
        figures = medians(cell)
        row = [cell_name(cell), *(f"{figures[name]['cycle']:.1f}" for name in names)]
        for name in [*(n for n in names if n not in (OURS, SIBLING)), SIBLING]:
            known = OURS in figures and name in figures
            row.append(f"{ratio(cell, name, OURS):.2f}" if known else "")
        rows.append(row)
    return table(header, rows)


def details(results: dict) -> str:
    """A row per cell and contestant: the three parts and the cycle."""
    rows = [
        [cell_name(cell), LABELS[name], *(f"{figures[part]:.1f}" for part in PARTS)]
        for cell in results["cells"]
        for name, figures in medians(cell).items()
    ]
    return table(["payload, capacity, batch", "buffer", *PARTS], rows)


def growth_table(results: dict) -> str:
    names = list(results["versions"])
    by_case: dict[str, dict[str, float]] = {}
    for name, payload, batch_size, growth in growths(results):
        by_case.setdefault(f"{payload}, batch {batch_size}", {})[name] = growth
    rows = [[case, *(f"{g[name]:.2f}" for name in names)] for case, g in by_case.items()]
    return table(["payload, batch", *(LABELS[name] for name in names)], rows)


def memory_table(results: dict) -> str:
    header = ["strategy, payload, groups", "resident MB", "payload B", "beyond payload B"]
    rows = [
        [
            f"{case['strategy']}, {case['payload']}, {case['groups']}",
            f"{case['resident'] / 1e6:.0f}",
            f"{case['payload_bytes']}",
            f"{case['overhead']:.1f}",
        ]
        for case in results["memory"]
    ]
    return table(header, rows)


def markdown(results: dict) -> str:
    """The whole of `replay.md`."""
    box = results["machine"]
    versions = "\n".join(
        f"* {LABELS[name]}: " + ", ".join(f"{package} {v}" for package, v in found.items())
        for name, found in results["versions"].items()
    )
    sections = [
        "# Prioritized replay buffers, side by side",
        f"{results['date']}; {box['cpu']}, {box['cores']} cores, {box['memory_gib']} GiB, "
        f"{box['system']}; `{results['command']}`",
        f"CPU microseconds on one pinned core, median of {results['rounds']} interleaved rounds of "
        f"{results['seconds_per_round']} s, each after a quarter as many untimed; every library in "
        "its own environment. Ratios are medians of the ratios within a round. Full buffers, "
        "alpha 0.6, beta 0.4. A cycle is 1 add + 1 sample + 1 update, timed whole; the parts are "
        "timed in loops of their own, with warmer caches, so they need not add up to it. Tabular: "
        "an integer observation; minatar: 10x10x6 booleans.",
        versions,
        "## Whole cycles",
        headline(results),
        "## Parts",
        details(results),
    ]
    if any(growths(results)):
        sections += [
            "## Growth of a cycle's cost, largest over smallest capacity",
            growth_table(results),
        ]
    if "memory" in results:
        sections += [
            "## Memory of a full buffer with groups on",
            "A million entries; growth of the resident process less the fields' own bytes. "
            "Singletons: every entry is its own group. Churned: after singletons, groups of a few "
            "and pairs, when most of what a buffer may touch has been touched.",
            memory_table(results),
        ]
    if startup := results.get("startup"):
        loaded = "torch is loaded" if startup["torch_loaded"] else "no torch is loaded"
        sections += [
            "## Start-up with a warm kernel cache",
            f"`import sibling_replay` {startup['import']:.2f} s ({loaded}); from process start to "
            f"the first whole cycle {startup['ready']:.2f} s.",
        ]
    sections += ["## Requirements", "\n".join(f"    {line}" for line in check_lines(results))]
    return "\n\n".join(sections) + "\n"
