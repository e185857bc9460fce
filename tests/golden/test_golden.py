"""Draws, weights, values and tables are what they were when the golden files were written."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import record

from sibling_replay.cli import main
from sibling_replay.running import store

GOLDEN = json.loads(record.FILE.read_text())
CASES = dict(record.cases())
# One environment and the integer observations; `make golden` compares everything.
QUICK = [
    name
    for name in CASES
    if name.startswith(("trainer/TwoChains", "slots")) or name.endswith(("/int", "/key"))
]
TABLES = Path(__file__).with_name("tables")
RESULTS = Path(__file__).parent.parent.parent / "results"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The runs that the golden tables were written from: `results/` grows, and they do not."""
    kept = tmp_path / "results"
    kept.mkdir()
    shutil.copy(RESULTS / "vqvae.csv", kept)
    for path in sorted(RESULTS.glob("*.parquet")):
        rows = pl.read_parquet(path).filter(pl.col("schema") == 1)
        if rows.height:
            (kept / path.name).write_bytes(store.as_bytes(rows, path.suffix))
    return kept


def test_every_case_is_recorded() -> None:
    assert set(CASES) == set(GOLDEN["records"])


@pytest.mark.parametrize("name", QUICK)
def test_a_record_is_what_it_was(name: str) -> None:
    """Bit for bit on the kind of processor that wrote it. On another one rounding parts two runs
    sooner or later, so of a run's result only what was measured first is compared there."""
    made = CASES[name]()
    same = GOLDEN["processor"] == record.processor()
    compared = slice(None if same or not name.endswith("/result") else 1)
    for part, old, new in record.parts(GOLDEN["records"][name], made):
        if same:
            assert new["digests"] == old["digests"], part
        for then, now in zip(old["shown"], new["shown"], strict=True):
            assert then.keys() == now.keys()
            for column in then:
                np.testing.assert_allclose(
                    now[column][compared], then[column][compared], rtol=1e-4, atol=1e-5
                )


@pytest.mark.long
def test_tables_of_the_report_are_what_they_were(results: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", "--results", str(results), "--out", str(tmp_path)])
    assert ended.value.code == 0
    golden = sorted(TABLES.glob("*.md"))
    assert len(golden) == 13
    for path in golden:
        assert (tmp_path / "tables" / path.name).read_text() == path.read_text(), path.name
    page = (tmp_path / "index.html").read_text()
    then, now = (TABLES / "page.txt").read_text().splitlines(), text_of(page).splitlines()
    changes = difflib.SequenceMatcher(a=then, b=now, autojunk=False).get_opcodes()
    assert {kind for kind, *_ in changes} <= {"equal", "insert"}, "chapters may come, none changes"
    assert plots_of(page) == (TABLES / "plots.sha256").read_text().strip()


def text_of(page: str) -> str:
    """What a reader of the page reads, a line a piece."""
    without = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    pieces = (" ".join(piece.split()) for piece in re.split(r"<[^>]+>", without))
    return "\n".join(piece for piece in pieces if piece) + "\n"


def plots_of(page: str) -> str:
    """A digest of every plot's data."""
    (plots,) = re.findall(r'<script type="application/json" id="plot-data">(.*?)</script>', page)
    return hashlib.sha256(plots.encode()).hexdigest()


@pytest.mark.parametrize("study", ["exact", "grid", "minatar"])
def test_tables_on_the_terminal_are_what_they_were(
    study: str, results: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["table", study, "--runs", str(results / f"{study}.parquet")])
    assert capsys.readouterr().out == (TABLES / f"table-{study}.txt").read_text()
