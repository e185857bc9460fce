"""The arrows of the design: imports point down, heavy libraries stay where they are allowed.

Read from the sources with `ast`, so an import inside a function counts as well.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "sibling_replay"
NAME = "sibling_replay"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the bottom up. Parts in one row are neighbours that do not import each other, unless the row
# is a single composition (the buffer and its helpers).
ROWS: list[set[str]] = [
    {"files", "terminal"},
    {"rng", "kernel_cache", "first_use"},
    {"replay"},
    {"envs", "strategies"},
    {"checkpoint"},
    {"grouping"},  # what a buffer's `key` is, so below it; its maps have files, so above those
    {"diagnostics"},
    {
        "schema",
        "staging",
        "keying",
        "cells",
        "draw_statistics",
        "strategy_sampler",
        "n_step",
        "saved_buffer",
        "buffer",
        "slot_sampler",
        "slot_values",
    },
    {"testing"},  # the public kit for strategies
    {"training"},
    {"integrations", "running"},
    {"artefacts"},  # what studies hand to readers: figures and tables as data
    {"studies"},
    {"report", "microscope"},
    {"cli", "__main__"},
]
COMPOSITION = next(row for row in ROWS if "buffer" in row) | ROWS[-1]
ROW_OF = {part: row for row, parts in enumerate(ROWS) for part in parts}

# Where a library may be imported; path prefixes inside the package.
ALLOWED = {
    "torch": (
        *("replay/batch", "training/torch/", "training/minatar/", "integrations/"),
        *(f"grouping/vqvae/{part}" for part in ("model", "training", "adam_state")),
    ),
    "polars": ("running/", "artefacts/", "studies/", "report/", "microscope/", "cli/"),
    "matplotlib": ("report/matplotlib_ink",),
    "plotly": ("report/",),
    "ray": ("running/ray_cluster", "integrations/rllib"),
    "jinja2": ("report/page", "microscope/page"),
    "tyro": ("cli/",),
    "rich": (
        "terminal",
        "running/display",
        "artefacts/on_terminal",
        "studies/",
        "microscope/",
        "cli/",
    ),
    "pickle": ("testing/states",),  # of its own buffers, to see that they can be
    "random": (),
    "pandas": (),
}


def part_of(path: Path) -> str:
    """The part of the design a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def public_names() -> dict[str, str]:
    """Public name -> the module the package takes it from."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    return {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if not (alias.asname or alias.name).startswith("_")
    }


PUBLIC = public_names()


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module a file imports, absolute, with its line, and every package of which it reads
    resources by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("files", "Loader")):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith(NAME):
                    yield argument.value, node.lineno
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:  # `from .tables import x` in envs/frozen_lake.py
                parents = [NAME, *path.relative_to(PACKAGE).parts[: -node.level]]
                module = ".".join(parents + ([module] if module else []))
            if module == NAME:  # a public name stands for the module that defines it
                for alias in node.names:
                    yield PUBLIC.get(alias.name, f"{NAME}.{alias.name}"), node.lineno
            else:
                yield module, node.lineno


def inside(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_there_are_files_to_check() -> None:
    assert len(FILES) > 30
    assert {"buffer", "replay", "strategies", "rng"} <= {part_of(path) for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_imports_point_down(path: Path) -> None:
    part = part_of(path)
    if part == "__init__":
        return
    assert part in ROW_OF, f"{part} has no place in the layers"
    for module, line in imports(path):
        top, _, rest = module.partition(".")
        if top != NAME:
            continue
        target = rest.split(".")[0]
        where = f"{inside(path)}:{line} imports {module}"
        assert target in ROW_OF, f"{where}: not a part of the design"
        if target == part:
            continue
        if ROW_OF[target] == ROW_OF[part]:
            assert {target, part} <= COMPOSITION, f"{where}: neighbours do not import each other"
        else:
            assert ROW_OF[target] < ROW_OF[part], f"{where}: upwards"


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_libraries_stay_where_they_are_allowed(path: Path) -> None:
    for module, line in imports(path):
        top = module.split(".")[0]
        allowed = ALLOWED.get(top)
        assert allowed is None or inside(path).startswith(allowed), (
            f"{inside(path)}:{line} imports {module}"
        )


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """Every call by its dotted name, with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


# A host's own stream, drawn from as the host does, so that its stock runs stay as they are.
HOST_STREAMS = {"integrations/sb3_buffer.py": {"randint"}}
GENERATORS = {"default_rng", "Generator", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937", "Philox",
              "SFC64", "BitGenerator"}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_no_global_randomness(path: Path) -> None:
    """Generators are owned; NumPy's module functions would draw from a hidden, shared one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in (
            "np.random", "numpy.random",
        ):  # fmt: skip
            allowed = GENERATORS | HOST_STREAMS.get(inside(path), set())
            assert node.attr in allowed, f"{inside(path)}:{node.lineno}: np.random.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "numpy.random":
            assert {alias.name for alias in node.names} <= GENERATORS
    for name, line in calls(path):
        assert name not in ("torch.manual_seed", "torch.seed", "random.seed"), f"{path}:{line}"


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_the_library_does_not_print(path: Path) -> None:
    if part_of(path) in ("cli", "__main__"):
        return
    streams = ("sys.stdout", "sys.stderr")
    # one line on stderr when kernels compile, and a bar for those who ask for one
    if inside(path) in ("first_use.py", "training/reporting.py"):
        streams = ("sys.stdout",)
    for name, line in calls(path):
        assert name != "print" and not name.startswith(streams), f"{inside(path)}:{line}"


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_files_are_opened_only_by_storage_code(path: Path) -> None:
    allowed = (
        "files.py",
        "checkpoint.py",
        "kernel_cache.py",
        "running/",
        "report/",
        "microscope/",
        "cli/",
    )
    for name, line in calls(path):
        touches = name in ("open", "np.save", "np.savez", "np.load") or name.endswith(
            (".write_text", ".write_bytes", ".mkdir", ".unlink")
        )
        assert not touches or inside(path).startswith(allowed), f"{inside(path)}:{line}: {name}"


def test_importing_the_package_is_light_and_silent() -> None:
    """No torch, no plotting, no data frames, no warnings, no output."""
    heavy = ["torch", "matplotlib", "plotly", "jinja2", "polars", "pandas", "tyro", "rich", "ray"]
    code = (
        f"import sys, sibling_replay\n"
        f"print([name for name in {heavy!r} if name in sys.modules])\n"
        f"print(all(hasattr(sibling_replay, name) for name in sibling_replay.__all__))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[]", "True"]
    assert done.stderr == ""


def test_the_public_names_are_listed() -> None:
    import sibling_replay

    assert set(PUBLIC) == set(sibling_replay.__all__)
    assert (PACKAGE / "py.typed").exists()


TREE = PACKAGE.parents[1] / "docs" / "extend" / "tree.md"


def listed_files(text: str) -> set[str]:
    """Paths of the tree, from the root: names before a clause, a folder's files indented below."""
    found: set[str] = set()
    folders: list[tuple[int, str]] = []  # indent and path of those that are open
    for line in text.splitlines():
        names, _, _ = line.strip().partition("  ")
        indent = len(line) - len(line.lstrip())
        while folders and folders[-1][0] >= indent:
            folders.pop()
        above = folders[-1][1] if folders else ""
        for name in filter(None, names.split(", ")):
            found.add(above + name)
            if name.endswith("/"):
                folders.append((indent, above + name))
    return found


def test_the_tree_is_read() -> None:
    text = "a.py, b.py      two\nfolder/   some\n  c.py    three\n  in/\n    d.py  four\ne.py  5\n"
    assert listed_files(text) == {
        "a.py", "b.py", "folder/", "folder/c.py", "folder/in/", "folder/in/d.py", "e.py",
    }  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_every_file_has_a_clause_in_the_tree(path: Path) -> None:
    if path.name == "__init__.py":
        return
    tree = TREE.read_text().split("```")[1]
    assert f"src/sibling_replay/{inside(path)}" in listed_files(tree), f"add it to {TREE.name}"


def test_the_tree_names_only_what_is_there() -> None:
    root = PACKAGE.parents[1]
    ours = [x for x in listed_files(TREE.read_text().split("```")[1]) if x.startswith("src/")]
    assert len(ours) > 200
    assert [name for name in ours if not (root / name).exists()] == []
