"""A MinAtar run is the beginning of a longer one, and only one process works at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minatar_kit import SMALL, bytes_of, encoder_of, small

import sibling_replay.checkpoint
from sibling_replay.checkpoint import RollingCheckpoint, StateError, StateInUse
from sibling_replay.training.minatar.config import MINATAR_METHODS, MinAtarConfig
from sibling_replay.training.results import RunResult

torch = pytest.importorskip("torch")
from sibling_replay.training.minatar.session import Session, train_game, trained_network  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def session(config: MinAtarConfig) -> Session:
    return Session(config, encoder_of(config))


ENDS = [(method, end) for method in MINATAR_METHODS for end in (180, 200, 240)]
IN_SHORT = {("SAMPLE", 200), ("PER", 240)}


@pytest.mark.parametrize(("method", "end"), [
    pytest.param(*case, marks=[] if case in IN_SHORT else pytest.mark.long) for case in ENDS
])  # fmt: skip
def test_a_longer_run_goes_on_from_a_shorter_one_bit_for_bit(
    tmp_path: Path, method: str, end: int
) -> None:
    """Wherever the shorter one ends: at an evaluation, in the middle of a window, at its end."""
    whole = session(small(method))
    whole.advance(SMALL["steps"])
    short = small(method, steps=end)
    first = RollingCheckpoint(tmp_path / "short")
    ended = train_game(short, encoder_of(short), checkpoint=first)
    assert ended.eval_step.tolist() == sorted({90, 180, end})
    assert ended.diagnostics["step"].tolist() == sorted({120, end} | ({240} & {end}))

    long, begun = small(method), []
    second = RollingCheckpoint(tmp_path / "long")
    result = train_game(
        long,
        encoder_of(long),
        checkpoint=second,
        earlier=first.newest,
        observe=lambda running: begun.append(running.position.number),
    )
    assert begun[0] == min(end + 100, SMALL["steps"])
    state = second.load()
    assert state is not None
    resumed = session(long)
    resumed.load_state(*state)
    assert bytes_of(resumed) == bytes_of(whole)
    same_result(result, whole.result())


def same_result(ours: RunResult, theirs: RunResult) -> None:
    for name in ("eval_step", "eval_return", "eval_episode"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.diagnostics.keys() == theirs.diagnostics.keys()
    for name, column in ours.diagnostics.items():
        np.testing.assert_array_equal(column, theirs.diagnostics[name], err_msg=name)
    assert (ours.config, ours.episodes, ours.updates) == (
        theirs.config, theirs.episodes, theirs.updates
    )  # fmt: skip


def test_a_longer_run_begins_with_the_evaluations_of_a_shorter_one() -> None:
    short, long = (session(small("DDQN", steps=steps)) for steps in (200, 1_000_000))
    np.testing.assert_array_equal(long.eval_seeds[:3], short.eval_seeds)


def test_states_of_other_settings_and_of_later_steps_are_refused() -> None:
    part = session(small("PER"))
    part.advance(150)
    header, arrays = part.state()
    with pytest.raises(StateError, match="at step 150, beyond the end of this run"):
        session(small("PER", steps=149)).load_state(header, arrays)
    with pytest.raises(StateError, match="another config"):
        session(small("PER", steps=400, gamma=0.9)).load_state(header, arrays)
    session(small("PER", steps=150)).load_state(header, arrays)


def test_a_state_whose_run_an_older_version_has_ended() -> None:
    """Older versions put the last evaluation and window of a run into its last checkpoint. The run
    itself goes on from that with the same result; a longer one must not."""
    run = session(small("SAMPLE", steps=200))
    run.advance(200)
    result = run.result()
    header, arrays = run.state()
    old = {**header, "curve": [*header["curve"], (200, run.episodes, result.eval_return[-1])]}
    rows = np.stack(list(result.diagnostics.values()), axis=1)
    sums = np.zeros_like(arrays["windows/sums"])
    old_arrays = {**arrays, "windows/rows": rows, "windows/sums": sums}
    again = session(small("SAMPLE", steps=200))
    again.load_state(old, old_arrays)
    again.advance(200)
    same_result(again.result(), result)
    for changed in ({"header": old}, {"arrays": old_arrays}):
        longer = session(small("SAMPLE"))
        with pytest.raises(StateError, match="of step 200 was written by an older version"):
            longer.load_state(**{"header": header, "arrays": arrays, **changed})  # type: ignore
        assert len(longer.buffer) == 0


def test_a_state_with_other_diagnostics_is_refused_and_changes_nothing() -> None:
    run = session(small("SAMPLE", steps=200))
    run.advance(100)
    header, arrays = run.state()
    fewer = {**arrays, "windows/rows": arrays["windows/rows"][:, :6]}
    again = session(small("SAMPLE", steps=200))
    with pytest.raises(StateError, match="older version, with other diagnostics"):
        again.load_state(header, fewer)
    assert len(again.buffer) == 0 and again.position.number == 0


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_the_trained_network_is_in_the_state(tmp_path: Path, device: str) -> None:
    config, checkpoint, last = small("PER", steps=100), RollingCheckpoint(tmp_path), []
    train_game(config, checkpoint=checkpoint, device=device, observe=last.append)
    network = trained_network(checkpoint.newest)
    obs = torch.from_numpy(np.random.default_rng(0).random((20, 10, 10, 4)) < 0.2).float()
    torch.testing.assert_close(network(obs), last[-1].learner.network(obs), rtol=0, atol=0)


def test_two_at_once_on_one_checkpoint_the_second_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They shared the name of the coming checkpoint, and one of them failed in the middle."""
    monkeypatch.setattr(sibling_replay.checkpoint, "PATIENCE", 0.1)
    config = small("PER", steps=200)
    refused: list[str] = []

    def second(running: Session) -> None:
        with pytest.raises(StateInUse, match="in use by process") as error:
            train_game(config, checkpoint=RollingCheckpoint(tmp_path))
        refused.append(str(error.value))

    checkpoint = RollingCheckpoint(tmp_path)
    result = train_game(config, checkpoint=checkpoint, checkpoint_seconds=0, observe=second)
    assert len(refused) == 2
    whole = session(config)
    whole.advance(200)
    same_result(result, whole.result())
