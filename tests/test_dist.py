"""Wheel and sdist (`make dist`): what is inside, and that the wheel alone is enough."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from support.pages import README, ROOT, blocks_of, script_of

pytestmark = pytest.mark.dist

DIST = ROOT / "dist"
BUILD = ROOT / ".venv-dist" / "bin" / "python"
LARGEST = 2.0  # megabytes; nearly one of them is the five encoders


def the(pattern: str) -> Path:
    (found,) = DIST.glob(pattern)  # none: run make dist
    return found


def run(*command: object, cwd: Path) -> str:
    """What a command prints, with nothing of this environment or checkout on the path."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd, env=clean, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_only_the_package_is_inside() -> None:
    names = zipfile.ZipFile(the("*.whl")).namelist()
    sources = {path.relative_to(ROOT / "src").as_posix() for path in tracked("src")}
    inside = {name for name in names if ".dist-info/" not in name}
    assert inside == sources
    assert the("*.whl").stat().st_size < LARGEST * 1e6
    with tarfile.open(the("*.tar.gz")) as archive:
        files = {member.name.split("/", 1)[1] for member in archive if member.isfile()}
    beside = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml"}
    assert files - {f"src/{name}" for name in sources} == beside | {"PKG-INFO", ".gitignore"}
    assert the("*.tar.gz").stat().st_size < LARGEST * 1e6


def tracked(folder: str) -> list[Path]:
    listed = run("git", "ls-files", folder, cwd=ROOT)
    return [ROOT / name for name in listed.splitlines()]


def test_the_metadata_are_complete() -> None:
    with zipfile.ZipFile(the("*.whl")) as wheel:
        (name,) = (each for each in wheel.namelist() if each.endswith("/METADATA"))
        text = wheel.read(name).decode()
    head, _, readme = text.partition("\n\n")
    for field in ("Name: sibling-replay", "License-Expression: MIT", "Requires-Python: >=3.10",
                  "Project-URL: ", "Keywords: ", "Summary: ", "Author: "):  # fmt: skip
        assert re.search(rf"^{re.escape(field)}", head, re.M), field
    pythons = re.findall(r"^Classifier: Programming Language :: Python :: (3\.\d+)$", head, re.M)
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert pythons == re.findall(r'"(3\.\d+)"', re.search(r"matrix: \{python: (.*)\}", workflow)[1])
    assert readme.strip() == README.read_text().strip()


def test_the_sdist_builds_the_same_wheel(tmp_path: Path) -> None:
    """`make dist` builds the wheel from the sdist; this one is of the checkout."""
    run(BUILD, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (other,) = tmp_path.glob("*.whl")
    contents = [
        {each.filename: each.CRC for each in zipfile.ZipFile(path).infolist()}
        for path in (the("*.whl"), other)
    ]
    assert contents[0] == contents[1]


def test_the_wheel_alone_is_enough(tmp_path: Path) -> None:
    """README's snippet, the command's help, a study, and a diagnosis of the README's buffer."""
    home = tmp_path / "venv"
    run(sys.executable, "-m", "venv", home, cwd=tmp_path)
    run(home / "bin" / "pip", "install", "--quiet", f"{the('*.whl')}[experiments]", cwd=tmp_path)
    python, command = home / "bin" / "python", home / "bin" / "sibling-replay"
    where = run(python, "-c", "import sibling_replay; print(sibling_replay.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(home)
    assert any(block.runs for block in blocks_of(README.read_text()))
    (tmp_path / "readme.py").write_text(script_of(README) + "\nbuffer.save('lake.npz')\n")
    run(python, "-W", "error", "readme.py", cwd=tmp_path)
    assert "reproduce" in run(command, "--help", cwd=tmp_path)
    run(command, "reproduce", "testing", cwd=tmp_path)
    assert len(list((tmp_path / "runs").rglob("*.parquet"))) == 12
    assert "2,000" in run(command, "diagnose", "lake.npz", cwd=tmp_path)
