"""Compiled kernels on disk that match the sources.

Numba keys a cached kernel by the time stamp of the one file it is written in. A kernel that calls
functions of another file (replay/index.py from replay/memory.py, say) is therefore not compiled
again when only that file changes, as by a `git pull` under an editable installation: the stale
machine code then reads arrays of the old form, gives wrong numbers or crashes. So before a kernel
is imported, those are deleted whose file has changed or imports, at any remove, one that has. A
change elsewhere (a page of the report, say) costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sibling_replay.files import write_whole

_MARK = "kernel_sources.json"


def drop_stale_kernels(package: Path) -> int:
    """Delete the cached kernels of a package that are not of its sources as they are now, by their
    names, sizes and times. Returns how many files went.

    Processes may do this side by side: at worst one deletes what another has just compiled, which
    is then compiled once more. Read-only installs are safe: pip replaces all files together, and
    Numba notices that.
    """
    stamps = {}
    for path in package.rglob("*.py"):
        stat = path.stat()
        stamps[path.relative_to(package).as_posix()] = [stat.st_size, stat.st_mtime_ns]
    mark = package / "__pycache__" / _MARK
    try:
        before, imports = _read(mark)
        if before == stamps:
            return 0
        changed = {name for name in {*stamps, *before} if stamps.get(name) != before.get(name)}
        for name in changed:
            imports.pop(name, None)
        imports |= {name: _imported(package, name) for name in stamps if name not in imports}
        stale = _reaching(changed, imports)
        gone = 0
        for kernel in package.rglob("__pycache__/*.nb[ic]"):
            source = kernel.parent.parent / f"{kernel.name.partition('.')[0]}.py"
            if source.relative_to(package).as_posix() in stale or not source.exists():
                kernel.unlink(missing_ok=True)
                gone += 1
        mark.parent.mkdir(exist_ok=True)
        # last and in one step: killed half way, kernels stay stale
        write_whole(mark, json.dumps({"stamps": stamps, "imports": imports}).encode())
        return gone
    except OSError:
        return 0


def _read(mark: Path) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Stamps and imports as last noted; nothing, if that cannot be read."""
    try:
        saved = json.loads(mark.read_text())
        return dict(saved["stamps"]), dict(saved["imports"])
    except (OSError, ValueError, TypeError, KeyError):
        return {}, {}


def _imported(package: Path, name: str) -> list[str]:
    """The files of the package that a file imports from, by name; every file if it cannot tell."""
    import ast  # slow to import, and only needed after a change

    path = package / name
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return [p.relative_to(package).as_posix() for p in package.rglob("*.py")]
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = path.relative_to(package.parent).parts[: -node.level] if node.level else ()
            module = ".".join((*parents, *([node.module] if node.module else [])))
            # a name may be a module of its own: `from sibling_replay.running import store`
            modules.update([module, *(f"{module}.{alias.name}" for alias in node.names)])
    found = []
    for module in sorted(modules):
        top, _, rest = module.partition(".")
        if top == package.name:
            inside = rest.replace(".", "/")
            files = (f"{inside}.py", f"{inside}/__init__.py".lstrip("/"))
            found += [file for file in files if (package / file).is_file()]
    return found


def _reaching(changed: Iterable[str], imports: dict[str, list[str]]) -> set[str]:
    """The changed files and all that import them, at any remove."""
    importers: dict[str, list[str]] = {}
    for name, imported in imports.items():
        for file in imported:
            importers.setdefault(file, []).append(name)
    reached: set[str] = set()
    waiting = list(changed)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += importers.get(name, [])
    return reached
