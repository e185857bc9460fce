"""Stable-Baselines3: its off-policy algorithms over weighted, prioritized replay.

    model = SiblingDQN("MlpPolicy", env, strategy=SiblingSample(alpha=0.6))
    model.learn(100_000, progress_bar=True)

`SiblingDQN`, `SiblingSAC`, `SiblingTD3` and `SiblingDDPG` take what SB3's classes take, and what
`SiblingAlgorithm` adds; `SiblingQRDQN` and `SiblingTQC` are in `integrations.sb3_contrib`.
`SiblingReplayBuffer` is the buffer behind them. Given to another algorithm as `replay_buffer_class`
it draws by its strategy, but weights and priorities are for that algorithm's `train` to use.
`export(model, path)` writes a buffer, also a stock DQN's, for `sibling-replay diagnose`.
"""

from sibling_replay.integrations.sb3_actor_critic import SiblingDDPG, SiblingSAC, SiblingTD3
from sibling_replay.integrations.sb3_buffer import SiblingReplayBuffer, SiblingSamples
from sibling_replay.integrations.sb3_dqn import SiblingDQN
from sibling_replay.integrations.sb3_export import export
from sibling_replay.integrations.sb3_model import SiblingAlgorithm

__all__ = [
    "SiblingAlgorithm",
    "SiblingDDPG",
    "SiblingDQN",
    "SiblingReplayBuffer",
    "SiblingSAC",
    "SiblingSamples",
    "SiblingTD3",
    "export",
]
