"""The README's three lines, and what a user without SB3 is told."""

from __future__ import annotations

import subprocess
import sys

import pytest
from readme_blocks import code_below


def run(code, tmp_path):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_snippet_runs(tmp_path):
    """As printed, but for fewer steps."""
    code = code_below("Stable-Baselines3")
    assert code.count("100_000") == 1
    done = run(
        code.replace("100_000", "2_000") + "\nassert model.num_timesteps == 2_000\n", tmp_path
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["sb3", "sb3_buffer"])
@pytest.mark.parametrize("missing", ["stable_baselines3", "torch"])
def test_a_missing_host_is_named_with_its_extra(module, missing, tmp_path):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\nimport sibling_replay.integrations.{module}"
    )
    done = run(code, tmp_path)
    assert "ImportError" in done.stderr and "pip install 'sibling-replay[sb3]'" in done.stderr


def test_blocks_are_found_by_their_heading():
    text = "## Use\n### A\ntext\n```python\na = 1\n```\n### B\nnone\n## C\n```python\nc\n```\n"
    assert code_below("A", text) == "a = 1\n"
    for heading in ("B", "D"):
        with pytest.raises(LookupError, match=heading):
            code_below(heading, text)
