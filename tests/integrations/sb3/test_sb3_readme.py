"""The README's three lines, and what a user without SB3 is told."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from readme_blocks import README, code_below

from sibling_replay.microscope.transitions import Reading, read_transitions

MODULES = ("sb3", "sb3_buffer", "sb3_contrib")
PYTHON = re.compile(r"^```python[^\n]*\n(.*?)^```", re.M | re.S)


def run(code, tmp_path):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_snippet_runs(tmp_path):
    """As printed, but for fewer steps; and the correction has something to correct there."""
    code = code_below("Stable-Baselines3")
    assert code.count("100_000") == 1
    code = code.replace("100_000", "2_000") + (
        "\nassert model.num_timesteps == 2_000"
        "\nfound = model.replay_buffer.storage.draw_statistics()"
        "\nassert found['draws_with_siblings'] > 0.9 and found['group_size'] > 20, found\n"
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert read_transitions(tmp_path / "lake.npz", Reading()).targets.size == 2_000


def test_the_key_of_the_readme_makes_siblings_in_cartpole(tmp_path):
    first, second, _ = PYTHON.findall(README.read_text().split("### CleanRL")[0])[-3:]
    code = (
        "import numpy as np\n"
        + first.split("env =")[0]
        + second
        + (
            "\nmodel.learn(2_000)"
            "\nfound = model.replay_buffer.storage.draw_statistics()"
            "\nassert found['draws_with_siblings'] > 0.8, found\n"
        )
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_continuous_actions_and_quantiles_of_the_readme(tmp_path):
    first, second, third = PYTHON.findall(README.read_text().split("### CleanRL")[0])[-3:]
    assert third.count("10_000") == 2
    imports = first.split("env =")[0] + second.split("model =")[0]
    done = run(
        imports
        + third.replace("10_000", "2_300").replace("key=Auto())", "key=Auto(), train_freq=50)")
        + "\nassert model.num_timesteps >= 2_300 and model.replay_buffer.storage.key_choices\n",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "missing"),
    [
        *[(module, each) for module in MODULES for each in ("stable_baselines3", "torch")],
        ("sb3_contrib", "sb3_contrib"),
    ],
)
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
