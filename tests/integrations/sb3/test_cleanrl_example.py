"""examples/cleanrl_dqn.py, run for real in the SB3 environment, which has all it needs."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sibling_replay import ReplayBuffer
from support.pages import DOCS

EXAMPLE = Path(__file__).parents[3] / "examples" / "cleanrl_dqn.py"
MARK = "# sibling-replay"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the file as a program, and gives the scalars that it wrote, by name."""

    def scalars(*flags):
        words = [EXAMPLE, "--log-dir", tmp_path, "--no-cuda", *flags]
        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        (log,) = tmp_path.iterdir()
        events = EventAccumulator(str(log)).Reload()
        return {name: events.Scalars(name) for name in events.Tags()["scalars"]}

    return scalars


@pytest.mark.parametrize("strategy", ["uniform", "per", "sample", "model", "average"])
def test_every_strategy_runs(strategy, run):
    scalars = run(
        "--strategy", strategy, "--total-timesteps", 900, "--learning-starts", 300,
        "--env-id", "CartPole-v1" if strategy == "per" else "FrozenLake-v1",
        "--num-envs", 3 if strategy == "sample" else 1,
    )  # fmt: skip
    assert len(scalars["charts/episodic_return"]) > 5
    for name in (
        "losses/td_loss", "losses/q_values", "replay/ess", "replay/beta", "replay/group_size",
    ):  # fmt: skip
        values = [point.value for point in scalars[name]]
        assert len(values) >= 2 and np.isfinite(values).all(), name
    assert 0.4 < scalars["replay/beta"][-1].value <= 1.0


@pytest.mark.parametrize(("key", "least", "most"), [("auto", 8, 60), ("grid:3", 40, 162)])
def test_a_key_makes_siblings_where_observations_do_not_repeat(key, least, most, run, monkeypatch):
    """CartPole: the map is fitted at 2,000 entries; G / N is far from 1, and more than two actions'
    groups are there."""
    buffers, make = [], ReplayBuffer.for_env

    def kept(*args, **options):
        buffers.append(make(*args, **options))
        return buffers[-1]

    monkeypatch.setattr(ReplayBuffer, "for_env", kept)
    scalars = run(
        "--env-id", "CartPole-v1", "--key", key, "--num-envs", 2,
        "--total-timesteps", 2_600, "--learning-starts", 600,
    )  # fmt: skip
    support = buffers[0].support()
    assert support.entries == 2_600 and least <= support.groups <= most
    assert scalars["replay/group_size"][-1].value > 10


def test_a_key_that_there_is_not_is_named(run):
    with pytest.raises(ValueError, match=r"unknown key 'hash'.*auto, exact, grid"):
        run("--key", "hash")


@pytest.mark.parametrize(("num_envs", "frequency"), [(1, 4), (4, 1), (4, 10), (3, 7)])
def test_frequencies_count_environment_steps(num_envs, frequency, run, monkeypatch):
    """Whatever the number of environments: an update in every `--train-frequency` of their steps,
    a copy to the target network in every `--target-network-frequency`."""
    updates, copies = [], []
    refresh, load = ReplayBuffer.update_priorities, torch.nn.Module.load_state_dict
    monkeypatch.setattr(
        ReplayBuffer, "update_priorities", lambda *args: updates.append(1) or refresh(*args)
    )
    monkeypatch.setattr(
        torch.nn.Module, "load_state_dict", lambda *args: copies.append(1) or load(*args)
    )
    run(
        "--total-timesteps", 840, "--learning-starts", 420, "--num-envs", num_envs,
        "--train-frequency", frequency, "--target-network-frequency", 70,
    )  # fmt: skip
    assert len(updates) == len(range(420, 840)) // frequency + (420 % frequency > 0)
    assert len(copies) == 1 + 840 // 70


def test_progress_is_printed(run, capsys):
    run("--total-timesteps", 700, "--learning-starts", 300, "--print-frequency", 200)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "global_step=200", "global_step=400", "global_step=600",
    ]  # fmt: skip
    for line in lines:
        assert re.search(r"episodic_return=0\.\d+ \(mean of \d+\), SPS=[1-9]\d*$", line), line


def test_it_learns_the_safe_arm(run):
    """OutlierBandit with SAMPLE: the last episodes pay the safe arm's 2."""
    scalars = run(
        "--env-id", "sibling_replay/OutlierBandit-v0", "--strategy", "sample",
        "--total-timesteps", 3000, "--learning-starts", 300, "--gamma", 0,
    )  # fmt: skip
    returns = [point.value for point in scalars["charts/episodic_return"]]
    assert np.median(returns[-300:]) == 2.0 and np.mean(np.array(returns[-300:]) == 2.0) > 0.85


@pytest.mark.parametrize("env", ["FrozenLake-v1", "CartPole-v1"])
def test_the_commands_of_the_page_run(env, run):
    """As printed, but for fewer steps."""
    lines = [
        x
        for x in (DOCS / "use" / "cleanrl.md").read_text().splitlines()
        if "python examples/cleanrl_dqn.py --" in x
    ]
    (line,) = (x for x in lines if env in x)
    assert len(lines) == 2
    assert run(*line.split()[2:], "--total-timesteps", 300)["charts/episodic_return"]


def test_the_changed_lines_are_marked():
    marked = [line for line in EXAMPLE.read_text().splitlines() if MARK in line]
    assert 8 <= len(marked) <= 16
    for call in (
        "rb.sample(",
        "rb.update_priorities(",
        "batch.weights",
        "batch.average(",
        "rb.extend(",
    ):
        assert any(call in line for line in marked), call
