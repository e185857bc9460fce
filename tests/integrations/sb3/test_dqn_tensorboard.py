"""What `DQN` writes for TensorBoard has SB3's names. (Here, since TensorBoard comes with SB3.)"""

from __future__ import annotations

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sibling_replay import SiblingSample
from sibling_replay.training import DQN


def test_scalars_have_the_names_of_sb3(tmp_path: Path) -> None:
    model = DQN("CartPole-v1", strategy=SiblingSample(), key="grid:3", seed=0, learning_starts=100)
    model.learn(3_050, tensorboard=tmp_path, eval_every=1_500, eval_episodes=2)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    found = {tag: events.Tensors(tag) for tag in events.Tags()["tensors"]}
    wanted = {
        "rollout/ep_rew_mean",
        "rollout/ep_len_mean",
        "rollout/exploration_rate",
        "time/fps",
        "train/loss",
        "train/learning_rate",
        "train/n_updates",
        "eval/mean_reward",
        "replay/beta",
        "replay/groups_per_entry",
    }
    assert wanted <= set(found)
    assert [event.step for event in found["train/n_updates"]] == [1_000, 2_000, 3_000, 3_050]
    assert [event.step for event in found["eval/mean_reward"]] == [1_500, 3_000]
    last = found["train/n_updates"][-1].tensor_proto
    assert (last.float_val or last.double_val)[0] == 3_050 - 99
