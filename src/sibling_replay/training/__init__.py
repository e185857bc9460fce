"""Learners, loops and run configurations: the place that composes environments and replay.

`DQN` trains on any Gymnasium environment with vectors for observations; `tabular.trainer` is the
compiled trainer of the paper's exact-group runs, `torch.reference` states the same algorithm
readably, and `minatar.session` trains on MinAtar's games. The last two need torch, so they are
imported only on demand.
"""

from sibling_replay.training.dqn import DQN

__all__ = ["DQN"]
