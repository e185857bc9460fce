"""Kernels on disk are those of the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sibling_replay.kernel_cache import drop_stale_kernels

PACKAGE = Path(__file__).parent.parent / "src" / "sibling_replay"

TOTAL = """
import numpy as np
from sibling_replay.replay.index import insert, new_index
index = new_index(8, 0, grouped=False)
insert(index, 0, 0, 1.0)
print(index.tree[-1])
"""


FILES = {
    "__init__.py": "",
    "low/__init__.py": "",
    "low/tree.py": "x = 1",
    "low/index.py": "from package.low.tree import x",
    "high/__init__.py": "from .memory import x",
    "high/memory.py": "from ..low import index",
    "high/user.py": "import package.high",
    "page.py": "y = 1",
}
KERNELS = ("low/tree", "low/index", "high/memory", "high/user", "page")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a compiled kernel (two files) in most of its modules."""
    for name, text in FILES.items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "package"


def compile_all(package: Path) -> None:
    for name in KERNELS:
        folder = (package / name).parent / "__pycache__"
        folder.mkdir(exist_ok=True)
        for suffix in ("nbi", "1.nbc"):
            (folder / f"{Path(name).name}.kernel-1.py311.{suffix}").touch()


def compiled(package: Path) -> set[str]:
    found = package.rglob("__pycache__/*.nbi")
    return {
        f"{p.parent.parent.relative_to(package) / p.name.split('.')[0]}".removeprefix("./")
        for p in found
    }


def rewrite(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, ns=(1, 1))  # a file system's clock may be coarse


def test_kernels_of_unknown_sources_are_dropped_once(package: Path) -> None:
    compile_all(package)
    assert drop_stale_kernels(package) == 2 * len(KERNELS)
    compile_all(package)
    assert drop_stale_kernels(package) == 0
    assert compiled(package) == set(KERNELS)


@pytest.mark.parametrize(
    "changed, stale",
    [
        ("low/tree.py", {"low/tree", "low/index", "high/memory", "high/user"}),
        ("high/memory.py", {"high/memory", "high/user"}),
        ("high/__init__.py", {"high/user"}),
        ("page.py", {"page"}),
    ],
)
def test_a_change_drops_kernels_that_import_it_at_any_remove(
    package: Path, changed: str, stale: set[str]
) -> None:
    drop_stale_kernels(package)
    compile_all(package)
    rewrite(package / changed, FILES[changed] + "\n# changed")
    assert drop_stale_kernels(package) == 2 * len(stale)
    assert compiled(package) == set(KERNELS) - stale
    assert drop_stale_kernels(package) == 0


def test_new_removed_and_unreadable_sources(package: Path) -> None:
    drop_stale_kernels(package)
    compile_all(package)
    rewrite(package / "page.py", "from package.extra import z")
    rewrite(package / "extra.py", "z = 1")
    assert drop_stale_kernels(package) == 2
    compile_all(package)
    rewrite(package / "extra.py", "z = 2  # now it is followed")
    assert drop_stale_kernels(package) == 2
    compile_all(package)
    (package / "page.py").unlink()
    assert drop_stale_kernels(package) == 2
    rewrite(package / "low/index.py", "from (")  # imports anything, for all one can tell
    drop_stale_kernels(package)
    compile_all(package)
    rewrite(package / "extra.py", "z = 3")
    assert drop_stale_kernels(package) >= 6
    assert "low/index" not in compiled(package)


def test_a_damaged_note_is_as_good_as_none(package: Path) -> None:
    drop_stale_kernels(package)
    compile_all(package)
    (package / "__pycache__" / "kernel_sources.json").write_text("{")
    assert drop_stale_kernels(package) == 2 * len(KERNELS)


def test_where_nothing_may_be_written_nothing_happens(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").write_text("no directory")
    assert drop_stale_kernels(tmp_path) == 0


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
