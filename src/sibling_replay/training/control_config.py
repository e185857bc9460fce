"""What a run of continuous control is: an actor and critics of SB3, every number frozen."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.settings import require

ALGORITHMS = ("SAC", "TD3")
_OF_DQN = (  # settings of a learner with discrete actions, which have no meaning here
    "epsilon_start", "epsilon_end", "epsilon_decay_steps", "target_interval", "grad_clip", "loss",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ControlConfig(GymConfig):
    """A run of `SiblingSAC` or `SiblingTD3` on a registered environment with real actions. Settings
    that these do not have are as SB3 has them, and those of DQN's are refused."""

    kind = "control"

    learner: str = "sb3"
    algorithm: str = "SAC"  # one of ALGORITHMS
    action_noise: float = 0.0  # TD3: deviation of the noise in training, actions scaled to [-1, 1]
    hidden_layers: str = "256-256"
    batch_size: int = 256
    tau: float = 0.005

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "learner", self.learner == "sb3", "sb3: SAC and TD3 are of SB3")
        known = self.algorithm in ALGORITHMS
        require(self, "algorithm", known, f"one of {', '.join(ALGORITHMS)}")
        explores = 0 <= self.action_noise < 1 and (self.algorithm == "TD3" or not self.action_noise)
        require(self, "action_noise", explores, "from 0 to 1, and 0 for SAC, which draws actions")
        usual = {field.name: field.default for field in fields(self)}
        for name in _OF_DQN:
            same = getattr(self, name) == usual[name]
            require(self, name, same, f"left alone: {self.algorithm} has no such setting")
