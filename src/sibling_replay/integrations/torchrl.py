"""A sampler for TorchRL's replay buffers: its storages, writers and losses, our draws.

    sampler = SiblingSampler(100_000, SiblingSample(alpha=0.6), beta=0.4, loss=loss)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100_000), sampler=sampler)

A sample carries `priority_weight`, which the loss uses, and `update_tensordict_priority` refreshes
by the strategy's rule. It is a `PrioritizedSampler` because TorchRL refreshes no other, but uses
none of its segment trees, and so works where TorchRL's compiled extension does not load.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sibling_replay.checkpoint import read_state, write_state
from sibling_replay.grouping.key_map import Key
from sibling_replay.grouping.support import Support
from sibling_replay.integrations import host
from sibling_replay.integrations.host_export import NextValues, drawable_slots, export_columns
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.integrations.torchrl_losses import errors_written_by, warn_if_unweighted
from sibling_replay.replay.arrays import I64
from sibling_replay.strategies import Strategy

with host("TorchRL", "torchrl"):
    import torch
    from tensordict import is_tensor_collection, lazy_stack, unravel_key
    from torchrl.data import Categorical, ListStorage, OneHot
    from torchrl.data.replay_buffers.samplers import PrioritizedSampler, RandomSampler


class SiblingSampler(PrioritizedSampler):
    """Draws by a strategy from a storage with one entry a slot.

    max_capacity: slots of the storage.
    strategy: Uniform, Prioritized, SiblingSample, SiblingModel, RankBased, or your own if it needs
        no signed TD errors.
    beta: exponent of the importance weights; an attribute that may be scheduled.
    loss: the loss that samples are for. Some of TorchRL's losses write squared TD errors as
        priority, others absolute ones; a priority is the absolute one plus epsilon. Of the losses
        in `torchrl_losses.py` it is known. The loss itself is not kept.
    errors: for any other loss, "squared" or "absolute": what it writes. Needed if there is no
        `loss`, except with Uniform.
    key: a `KeyMap`, or a function key(observation, action) -> number or array: entries with equal
        keys and equal action are siblings. By default equal observation and action. It gets NumPy
        arrays, as they are stored. A map that is not fitted, such as `Auto()` of `grouping`, is
        fitted to the first entries of the storage.
    action_spec: of the environment. With it a discrete action is a whole number to a key map, and a
        NumPy scalar to a key function, as everywhere else in this library, however it is stored
        (one-hot, say).
    observation_key, action_key: where these are in the stored tensordicts.
    seed: of the draws. `Uniform` leaves them to TorchRL's own generator.

    The strategy says what priority a new entry gets (`initial`), whatever priority it comes with.
    An entry that is replaced (`buffer[i] = td`) joins the group of what it holds now. After writing
    into the tensors of a storage yourself, call `buffer.mark_update(index)`.
    """

    def __init__(
        self,
        max_capacity: int,
        strategy: Strategy,
        beta: float = 0.4,
        *,
        loss: Any = None,
        errors: Literal["squared", "absolute"] | None = None,
        key: Key = None,
        action_spec: Any = None,
        observation_key: Any = "observation",
        action_key: Any = "action",
        seed: int | None = None,
    ) -> None:
        # Not the base class's constructor: that makes the segment trees.
        self.replay = HostReplay("TorchRL", max_capacity, strategy, key, seed, signed=False)
        self.strategy = strategy
        self.errors = _errors(strategy, loss, errors)
        self._keys = (observation_key, action_key)
        self._one_hot = not self.replay.exact and isinstance(action_spec, OneHot)
        self._categorical = not self.replay.exact and isinstance(action_spec, Categorical)
        self._uniform = RandomSampler() if strategy.needs.host_may_draw else None
        self._written: dict[int, None] = {}  # slots the sampler has not been told yet, in order
        self._just_written = b""  # the slots of the last write, until their priorities are given
        self._revision: int | None = None  # of the storage, when it was last looked at
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
        return self.replay.sampler.max_priority

    @property
    def unmatched_updates(self) -> int:
        """Priorities given for entries that are of no sample that awaits them: dropped."""
        return self.replay.unmatched_updates

    def support(self) -> Support:
        """How well the groups are filled, what makes them and why, as of the last sample."""
        return self.replay.support()

    def __repr__(self) -> str:
        """With what it holds as of the last sample."""
        held = "" if self._uniform is not None else f", {self.replay.sampler.holding}"
        return f"{type(self).__name__}({self.strategy}, beta={self.beta}{held})"

    def mark_update(self, index: Any, *, storage: Any = None) -> None:
        """The storage has written these slots: groups are read from it when they are needed."""
        slots = _slots(index)
        self._written.update(dict.fromkeys(slots.tolist()))
        self._just_written = slots.tobytes()
        if self._revision is not None and storage is not None:
            self._revision += slots.size if isinstance(storage, ListStorage) else slots.size > 0

    def add(self, index: Any) -> None:
        """Known already: every writer marks what it has written."""

    extend = add

    def sample(self, storage: Any, batch_size: int) -> tuple[torch.Tensor, dict[str, Any]]:
        if self._uniform is not None:
            self._uniform._rng = self._rng
            return self._uniform.sample(storage, batch_size)  # type: ignore[no-any-return]
        self._read(storage)
        slots, weights = self.replay.draw(batch_size, self.beta)
        if slots.tobytes() == self._just_written:
            self._just_written = b""  # what comes for these slots now is of this draw
        return torch.tensor(slots), {"priority_weight": torch.tensor(weights)}

    def update_priority(self, index: Any, priority: Any, *, storage: Any = None) -> None:
        """Refresh with what the loss wrote for the entries of a sample."""
        slots = _slots(index)
        if self._uniform is not None or slots.size == 0 or self._of_new_entries(slots):
            return
        if storage is not None:
            self._read(storage)
        given = torch.as_tensor(priority).detach().double().reshape(-1).cpu().numpy()
        if self.errors == "squared":
            if not (given >= 0.0).all():
                raise ValueError(f"a squared TD error is {given[~(given >= 0.0)][0]}")
            given = np.sqrt(given)
        self.replay.refresh(slots, given)

    def _of_new_entries(self, slots: I64) -> bool:
        """Whether this is the buffer's own call, which it makes after it has written or has been
        given a filled storage."""
        just_written, self._just_written = self._just_written, b""
        return slots.tobytes() == just_written or not self.replay.was_drawn_from

    def _read(self, storage: Any) -> None:
        """Tell the sampler of what was written since it was told last."""
        if storage.ndim != 1 or storage.max_size > self._max_capacity:
            raise ValueError(
                f"expected a storage of at most {self._max_capacity} slots in one dimension, got "
                f"{storage.max_size} in {storage.ndim}"
            )
        self._put(storage, np.fromiter(self._written, np.int64, len(self._written)))
        self._written.clear()
        # TorchRL counts all writes, but tells samplers only of those through the buffer's writer.
        revision = int(storage._mutation_revision)
        if revision != self._revision:
            self._put(storage, np.arange(len(storage)), only_changed=True)
            self._revision = revision
        self.replay.fit_if_due(lambda slots: self._observations_and_actions(storage, slots))

    def _put(self, storage: Any, slots: I64, only_changed: bool = False) -> None:
        if slots.size == 0:
            return
        obs = actions = None
        if self.strategy.needs.groups:
            obs, actions = self._observations_and_actions(storage, slots)
        self.replay.put(slots, obs, actions, only_changed=only_changed)

    def _observations_and_actions(
        self, storage: Any, slots: I64
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        obs, actions = (_column(storage, slots, key) for key in self._keys)
        if self._one_hot:
            actions = actions.argmax(axis=-1)
        elif self._categorical:
            actions = actions.reshape(slots.size)
        return obs, actions

    def _empty(self) -> None:
        self._written.clear()
        self._just_written = b""
        self.replay.clear()

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain data, so that `torch.load` reads it with its default."""
        state = self._state()
        return {**state, "replay": {name: _tensor(x) for name, x in state["replay"].items()}}

    def _state(self) -> dict[str, Any]:
        return {
            "beta": self.beta,
            "written": list(self._written),
            "replay": self.replay.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        saved = state_dict["replay"]
        self.replay.load_state_dict(
            {name: x.numpy() if isinstance(x, torch.Tensor) else x for name, x in saved.items()}
        )
        self._written = dict.fromkeys(state_dict["written"])
        self._just_written = b""
        self._revision = None  # the storage may have been loaded or not: look
        self.beta = state_dict["beta"]

    def dumps(self, path: Any) -> None:
        """One state file, at `path`."""
        state = self._state()
        arrays = state["replay"]
        header = {"beta": self.beta, "written": state["written"], "replay": arrays.pop("header")}
        write_state(Path(path), header, arrays)

    def loads(self, path: Any) -> None:
        header, arrays = read_state(Path(path))
        replay = {"header": header.pop("replay"), **arrays}
        self.load_state_dict({**header, "replay": replay})


def export(
    buffer: Any, path: str | os.PathLike[str], next_values: NextValues | None = None
) -> None:
    """Write a replay buffer with a SiblingSampler to an .npz for `sibling-replay diagnose`.

    next_values: maps next observations, arrays of [n, ...], to their values, [n], for the column
        q_next.
    """
    sampler, storage = buffer.sampler, buffer.storage
    if not isinstance(sampler, SiblingSampler):
        raise TypeError(f"export takes a buffer with a SiblingSampler, not {sampler!r}")
    if len(storage):
        sampler._read(storage)
    slots = drawable_slots(sampler.replay)
    observation, action = sampler._keys
    where = {
        "obs": observation,
        "action": action,
        "reward": ("next", "reward"),
        "next_obs": unravel_key(("next", observation)),
        "terminated": ("next", "terminated"),
        "done": ("next", "done"),
    }
    columns = {name: _column(storage, slots, key) for name, key in where.items()}
    for name in ("reward", "terminated", "done"):
        columns[name] = columns[name].reshape(slots.size)
    columns["truncated"] = columns.pop("done") & ~columns["terminated"]
    export_columns(path, sampler.replay, slots, columns, next_values)


def _errors(strategy: Strategy, loss: Any, errors: str | None) -> str | None:
    """What the loss writes as priority; None if nobody will ask."""
    if errors not in (None, "squared", "absolute"):
        raise ValueError(f'errors must be "squared" or "absolute", not {errors!r}')
    if loss is not None and errors is not None:
        raise ValueError("give loss, or errors for a loss of your own, not both")
    if strategy.needs.host_may_draw:
        return errors
    if loss is not None:
        warn_if_unweighted(loss)
        return errors_written_by(loss)
    if errors is None:
        raise ValueError(
            "some losses write squared TD errors as priority, others absolute ones: give "
            'loss=..., your loss module, or errors="squared" or "absolute"'
        )
    return errors


def _slots(index: Any) -> I64:
    """The slots of an index; writers that keep only some entries give -1 for the others."""
    slots = torch.as_tensor(index).reshape(-1).numpy(force=True).astype(np.int64)
    return slots[slots >= 0]


def _column(storage: Any, slots: I64, key: Any) -> NDArray[Any]:
    """One entry of the stored tensordicts, as an array."""
    entries = storage.get(torch.from_numpy(slots))
    if isinstance(entries, list) and all(map(is_tensor_collection, entries)):
        entries = lazy_stack(entries)
    if not is_tensor_collection(entries):
        raise TypeError("groups are read from a storage of tensordicts")
    column = entries.get(key, None)
    if column is None:
        names = ", ".join(map(repr, entries.keys(include_nested=True, leaves_only=True)))
        raise KeyError(
            f"the stored tensordicts have no {key!r}, only {names}: name what makes siblings with "
            f"observation_key and action_key"
        )
    if is_tensor_collection(column):
        raise TypeError(
            f"{key!r} has several parts, {', '.join(map(str, column.keys()))}: name one of them "
            f"with observation_key or action_key, or join them with a CatTensors transform"
        )
    if column.dtype == torch.bfloat16:  # which NumPy does not have: float32 keeps every value
        column = column.float()
    return column.numpy(force=True)  # type: ignore[no-any-return]


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
