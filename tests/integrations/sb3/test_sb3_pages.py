"""The README's three lines, the page of SB3, and what a user without SB3 is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sibling_replay.microscope.transitions import Reading, read_transitions
from support.pages import README, blocks_of, python_of

MODULES = ("sb3", "sb3_buffer", "sb3_contrib")
PAGE = [block.code for block in python_of("use/sb3.md")]


def run(code, tmp_path):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_lines_of_the_readme_run(tmp_path):
    (block,) = (each for each in blocks_of(README.read_text()) if each.mark == "no-run")
    assert len(block.code.split("\n")) <= 5 and block.code.count("100_000") == 1
    done = run(
        block.code.replace("100_000", "2_000") + "assert model.num_timesteps == 2_000\n", tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_the_snippet_runs(tmp_path):
    """As printed, but for fewer steps; and the correction has something to correct there."""
    code = PAGE[0]
    assert code.count("100_000") == 1
    code = code.replace("100_000", "2_000") + (
        "\nassert model.num_timesteps == 2_000"
        "\nfound = model.replay_buffer.storage.draw_statistics()"
        "\nassert found['draws_with_siblings'] > 0.9 and found['group_size'] > 20, found\n"
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert read_transitions(tmp_path / "lake.npz", Reading()).targets.size == 2_000


def test_the_key_of_the_page_makes_siblings_in_cartpole(tmp_path):
    first, second, _ = PAGE
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


def test_continuous_actions_and_quantiles_of_the_page(tmp_path):
    first, second, third = PAGE
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
