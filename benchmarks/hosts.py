"""What a training step costs in each host library, with its own replay and with ours.

    python benchmarks/hosts.py sb3 torchrl tianshou rllib

Runs `benchmarks/hosts/<host>.py` and `<host>_*.py` in the environment `.venv-<host>` (`make
bench-hosts` builds them), one after the other, and writes `hosts.md`. A host that has no benchmark
or no environment is said to be missing; one whose benchmark fails ends the run. The raw figures
stay in `hosts/*.json`, so hosts can be measured one at a time: the page has all that were ever
measured here.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RAW = HERE / "hosts"
PAGE = HERE / "hosts.md"

UNIFORM, OWN_PER = "its uniform replay", "its own PER"  # what a host's own variants end in
OURS = "ours, PER"
MOST = 1.1  # issue 6, point 8: ours over the host's step with its uniform replay; else beat its PER


def measure(host: str) -> bool:
    """Run one host's benchmark. False if it is not there to run."""
    first, python = RAW / f"{host}.py", ROOT / f".venv-{host}" / "bin" / "python"
    if not first.exists() or not python.exists():
        print(f"{host}: {(first if not first.exists() else python).relative_to(ROOT)} is missing")
        return False
    for script in (first, *sorted(RAW.glob(f"{host}_*.py"))):
        print(f"{script.stem}: measuring", flush=True)
        out = script.with_suffix(".json")
        subprocess.run([python, script, "--out", out], cwd=ROOT, check=True)
    return True


def own(rows: dict[str, float], ending: str) -> float | None:
    """The host's own variant with this ending."""
    found = [value for name, value in rows.items() if name.endswith(ending)]
    if len(found) > 1:
        raise ValueError(f"several variants end in {ending!r}: {', '.join(rows)}")
    return found[0] if found else None


def verdict(host: str, rows: dict[str, float]) -> str:
    """Whether the requirement holds, with the figures that decide it."""
    ours, uniform, per = rows.get(OURS), own(rows, UNIFORM), own(rows, OWN_PER)
    if ours is None or uniform is None:
        return f"FAIL: {host} lacks {OURS!r} or a variant of its own with uniform replay"
    against = [f"{ours / uniform:.2f} of its uniform step (<= {MOST})"]
    if per is not None:
        against.append(f"{ours / per:.2f} of its own PER's (< 1)")
    passed = ours <= MOST * uniform or (per is not None and ours < per)
    return f"{'pass' if passed else 'FAIL'}: {host}, {OURS}: {', or '.join(against)}"


def table(result: dict) -> list[str]:
    rows = {row["variant"]: float(row["us_per_step"]) for row in result["rows"]}
    uniform, per = own(rows, UNIFORM), own(rows, OWN_PER)
    lines = [
        f"## {result['host']} {result['version']}",
        "",
        "| variant | us per step | of its uniform step | of its own PER's |",
        "|---|---:|---:|---:|",
    ]
    for name, value in rows.items():
        ratios = ["" if base is None else f"{value / base:.2f}" for base in (uniform, per)]
        lines.append(f"| {name} | {value:.0f} | {ratios[0]} | {ratios[1]} |")
    return [*lines, "", result["note"], ""]


def page(results: list[dict]) -> str:
    verdicts = [
        verdict(
            result["host"], {row["variant"]: float(row["us_per_step"]) for row in result["rows"]}
        )
        for result in results
    ]
    head = [
        "# Training steps in other libraries, with their replay and with ours",
        "",
        f"CPU microseconds of whole training steps, one pinned core ({platform.machine()}), one "
        "process a host, variants interleaved, median piece.",
        "Written by `make bench-hosts`.",
        "",
        "Required: a step with our PER costs at most 1.1 times the host's own with uniform replay, "
        "or less than with the host's own PER.",
        "",
        *(f"* {line}" for line in verdicts),
        "",
    ]
    return (
        "\n".join([*head, *(line for result in results for line in table(result))]).rstrip() + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hosts", nargs="+")
    hosts = parser.parse_args().hosts
    measured = [measure(host) for host in hosts]
    if not any(measured):
        parser.error("nothing to measure")
    # The hosts named now in their order, then those measured before.
    order = {host: place for place, host in enumerate(hosts)}

    def place(file: Path) -> tuple[int, Path]:
        return order.get(file.stem.split("_")[0], len(hosts)), file

    found = [json.loads(file.read_text()) for file in sorted(RAW.glob("*.json"), key=place)]
    PAGE.write_text(page([each for one in found for each in (one if type(one) is list else [one])]))
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
