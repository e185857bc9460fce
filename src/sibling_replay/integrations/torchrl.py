"""A sampler for TorchRL's replay buffers: its storages, writers and losses, our draws.

    sampler = SiblingSampler(100_000, SiblingSample(alpha=0.6), beta=0.4)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100_000), sampler=sampler)

A sample carries `priority_weight`, which `DQNLoss` uses, and `update_tensordict_priority` refreshes
by the strategy's rule. It is a `PrioritizedSampler` because TorchRL refreshes no other, but uses
none of its segment trees, and so works where TorchRL's compiled extension does not load.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from sibling_replay.checkpoint import read_state, write_state
from sibling_replay.integrations import host
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.replay.arrays import I64
from sibling_replay.schema import KeyFunction
from sibling_replay.strategies import Strategy, Uniform

with host("TorchRL", "torchrl"):
    import torch
    from tensordict import is_tensor_collection
    from torchrl.data.replay_buffers.samplers import PrioritizedSampler, RandomSampler


class SiblingSampler(PrioritizedSampler):
    """Draws by a strategy from a storage with one entry a slot.

    max_capacity: slots of the storage.
    strategy: Uniform, Prioritized, SiblingSample or SiblingModel.
    beta: exponent of the importance weights; an attribute that may be scheduled.
    errors: what the loss writes as priority. DQNLoss and its relatives write the "squared" TD
        error, others the "absolute" one; a priority is the absolute one plus epsilon.
    key: key(observation, action) -> integer or array: entries with equal results are siblings.
        By default equal observation and action. It is given NumPy arrays.
    observation_key, action_key: where these are in the stored tensordicts.
    seed: of the draws. `Uniform` leaves them to TorchRL's own generator.

    A new entry gets the largest priority so far, whatever priority it comes with.
    """

    def __init__(
        self,
        max_capacity: int,
        strategy: Strategy,
        beta: float = 0.4,
        *,
        errors: Literal["squared", "absolute"] = "squared",
        key: KeyFunction | None = None,
        observation_key: Any = "observation",
        action_key: Any = "action",
        seed: int | None = None,
    ) -> None:
        # Not the base class's constructor: that makes the segment trees.
        if errors not in ("squared", "absolute"):
            raise ValueError(f'errors must be "squared" or "absolute", not {errors!r}')
        self.replay = HostReplay("TorchRL", max_capacity, strategy, key, seed)
        self.strategy = strategy
        self.errors = errors
        self._keys = (observation_key, action_key)
        self._uniform = RandomSampler() if isinstance(strategy, Uniform) else None
        self._written: dict[int, None] = {}  # slots the sampler has not been told yet, in order
        self._max_capacity = max_capacity
        self.reduction = "max"
        self.beta = beta

    @property
    def beta(self) -> float:
        return self._beta

    @beta.setter
    def beta(self, beta: float) -> None:
        if not 0.0 <= beta <= 1.0:
            raise ValueError(f"beta must be from 0 to 1, got {beta}")
        self._beta = float(beta)

    @property
    def alpha(self) -> float:
        return self.strategy.alpha

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def default_priority(self) -> float:
        return 1.0 if self.replay.sampler is None else self.replay.sampler.max_priority

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.strategy}, beta={self.beta})"

    def mark_update(self, index: Any, *, storage: Any = None) -> None:
        """The storage has written these slots: groups are read from it when they are needed."""
        self._written.update(dict.fromkeys(_slots(index).tolist()))

    def add(self, index: Any) -> None:
        """Known already: every writer marks what it has written."""

    extend = add

    def sample(self, storage: Any, batch_size: int) -> tuple[torch.Tensor, dict[str, Any]]:
        if self._uniform is not None:
            self._uniform._rng = self._rng
            return self._uniform.sample(storage, batch_size)  # type: ignore[no-any-return]
        self._read(storage)
        slots, weights = self.replay.draw(batch_size, self.beta)
        return torch.tensor(slots), {"priority_weight": torch.tensor(weights)}

    def update_priority(self, index: Any, priority: Any, *, storage: Any = None) -> None:
        """Refresh with what the loss wrote for the entries of a sample."""
        slots = _slots(index)
        if self._uniform is not None or not self._told:
            return
        if self._written.keys() >= set(slots.tolist()):
            return  # the buffer's own call for new entries
        self._read(storage)
        given = torch.as_tensor(priority).detach().double().reshape(-1).cpu().numpy()
        if self.errors == "squared":
            if not (given >= 0.0).all():
                raise ValueError(f"a squared TD error is {given[~(given >= 0.0)][0]}")
            given = np.sqrt(given)
        self.replay.refresh(slots, given)

    @property
    def _told(self) -> bool:
        """Whether the sampler knows of any entry."""
        return self.replay.sampler is not None and len(self.replay.sampler) > 0

    def _read(self, storage: Any) -> None:
        """Tell the sampler of what was written since it was told last."""
        if not self._written and not self._told:  # it was filled before it met this sampler
            self._written = dict.fromkeys(range(len(storage)))
        if not self._written:
            return
        if storage.ndim != 1 or storage.max_size > self._max_capacity:
            raise ValueError(
                f"expected a storage of at most {self._max_capacity} slots in one dimension, got "
                f"{storage.max_size} in {storage.ndim}"
            )
        slots = np.fromiter(self._written, np.int64, len(self._written))
        obs = actions = None
        if self.strategy.needs_groups:
            entries = storage.get(torch.from_numpy(slots))
            if not is_tensor_collection(entries):
                raise TypeError("groups are read from a storage of tensordicts")
            obs, actions = (entries.get(key).numpy(force=True) for key in self._keys)
        self.replay.put(slots, obs, actions)
        self._written.clear()

    def _empty(self) -> None:
        self._written.clear()
        self.replay.clear()

    def state_dict(self) -> dict[str, Any]:
        return {
            "beta": self.beta,
            "written": list(self._written),
            "replay": self.replay.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.replay.load_state_dict(state_dict["replay"])
        self._written = dict.fromkeys(state_dict["written"])
        self.beta = state_dict["beta"]

    def dumps(self, path: Any) -> None:
        """One state file, at `path`."""
        state = self.state_dict()
        arrays = dict(state["replay"])
        header = {"beta": self.beta, "written": state["written"], "replay": arrays.pop("header")}
        write_state(Path(path), header, arrays)

    def loads(self, path: Any) -> None:
        header, arrays = read_state(Path(path))
        replay = {"header": header.pop("replay"), **arrays}
        self.load_state_dict({**header, "replay": replay})


def _slots(index: Any) -> I64:
    """The slots of an index; writers that keep only some entries give -1 for the others."""
    slots = torch.as_tensor(index).reshape(-1).numpy(force=True).astype(np.int64)
    return slots[slots >= 0]
