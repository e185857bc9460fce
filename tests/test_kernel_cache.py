"""Kernels on disk are those of the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from sibling_replay.kernel_cache import drop_stale_kernels

PACKAGE = Path(__file__).parent.parent / "src" / "sibling_replay"

TOTAL = """
import numpy as np
from sibling_replay.replay.index import insert, new_index
index = new_index(8, 0, grouped=False)
insert(index, 0, 0, 1.0)
print(index.tree[-1])
"""


def test_kernels_are_dropped_when_any_source_changes(tmp_path: Path) -> None:
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    for folder in (lower, upper):
        (folder / "__pycache__").mkdir(parents=True)
        (folder / "code.py").write_text("x = 1")

    def compile_one() -> None:
        (upper / "__pycache__" / "kernel.nbi").touch()
        (upper / "__pycache__" / "kernel.nbc").touch()

    compile_one()
    assert drop_stale_kernels(tmp_path, tmp_path) == 2  # nobody knows what they were made from
    compile_one()
    assert drop_stale_kernels(tmp_path, tmp_path) == 0
    (lower / "code.py").write_text("x = 2")
    os.utime(lower / "code.py", ns=(1, 1))
    assert drop_stale_kernels(tmp_path, tmp_path) == 2
    assert drop_stale_kernels(tmp_path, tmp_path) == 0


def test_where_nothing_may_be_written_nothing_happens(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").write_text("no directory")
    assert drop_stale_kernels(tmp_path, tmp_path) == 0


def test_a_changed_source_changes_what_kernels_that_inline_it_do(tmp_path: Path) -> None:
    """With the real package: a sum of the tree, used by a kernel two files further up."""
    copy = tmp_path / "sibling_replay"
    skipped = shutil.ignore_patterns("__pycache__", "encoders", "paper", "templates")
    shutil.copytree(PACKAGE, copy, ignore=skipped)

    def total() -> float:
        own = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
        command = [sys.executable, "-c", TOTAL]
        done = subprocess.run(
            command, env={**own, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path, check=True,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return float(done.stdout)

    assert total() == 1.0
    tree = copy / "replay" / "tree.py"
    source = tree.read_text()
    tree.write_text(source.replace("        tree[first]\n", "        2.0 * tree[first]\n", 1))
    assert tree.read_text() != source
    assert total() == 2.0
