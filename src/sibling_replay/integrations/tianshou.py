"""Replay buffers for Tianshou: its storage and trainers, our draws.

    buffer = SiblingVectorReplayBuffer(20_000, buffer_num=8, strategy=SiblingSample(alpha=0.6))

They take the place of `PrioritizedReplayBuffer` and `PrioritizedVectorReplayBuffer`: the sampled
batch carries `weight`, the algorithm hands TD errors to `update_weight`, and `set_beta` anneals.
`Uniform` leaves everything to Tianshou.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from sibling_replay.grouping.key_map import Key
from sibling_replay.grouping.support import Support
from sibling_replay.integrations import host
from sibling_replay.integrations.host_export import NextValues, drawable_slots, export_columns
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.integrations.tianshou_watch import WeightWatch
from sibling_replay.replay.arrays import I64
from sibling_replay.strategies import Strategy

with host("Tianshou", "tianshou"):
    from tianshou.data import Batch, ReplayBuffer, VectorReplayBuffer, to_numpy


class _Siblings(ReplayBuffer):
    """Draws by a strategy, over either of Tianshou's layouts."""

    def _set_up(self, strategy: Strategy, beta: float, key: Key, random_seed: int) -> None:
        if self._sample_avail and not strategy.needs.host_may_draw:
            raise ValueError(
                "sample_avail leaves entries out of the draw: only Uniform can do that"
            )
        self.strategy = strategy
        self.replay = HostReplay("Tianshou", self.maxsize, strategy, key, random_seed)
        self._host_draws = strategy.needs.host_may_draw
        self._watch = WeightWatch()
        self.set_beta(beta)

    def set_beta(self, beta: float) -> None:
        """The exponent of the importance weights."""
        if not 0.0 <= beta <= 1.0:
            raise ValueError(f"beta must be from 0 to 1, got {beta}")
        self.beta = float(beta)

    def add(self, batch: Any, buffer_ids: Any = None) -> Any:
        added = super().add(batch, buffer_ids)
        self._register(added[0])
        return added

    def update(self, buffer: ReplayBuffer) -> Any:
        slots = super().update(buffer)
        self._register(slots)
        return slots

    def set_batch(self, batch: Any) -> None:
        super().set_batch(batch)
        self._register_anew()

    def dropnull(self) -> None:
        super().dropnull()
        self._register_anew()

    def reset(self, keep_statistics: bool = False) -> None:
        super().reset(keep_statistics)
        self.replay.clear()

    def sample_indices(self, batch_size: int | None) -> Any:
        """Slots by the strategy; the requests for the whole buffer (0 or None) are Tianshou's."""
        return self._draw(batch_size)[0]

    def sample(self, batch_size: int | None) -> Any:
        slots, weights = self._draw(batch_size)
        batch = self[slots]
        if weights is not None:
            batch.weight = weights
            batch = self._watch.hand_out(batch, weights)
        return batch, slots

    def update_weight(self, index: Any, new_weight: Any) -> None:
        """Refresh priorities with the TD errors of a sampled batch, by the strategy's rule."""
        self._watch.check(new_weight)
        if not self._host_draws:
            self.replay.refresh(np.asarray(index), to_numpy(new_weight).reshape(-1))

    def __repr__(self) -> str:
        """Tianshou's, and what it holds."""
        stock: str = super().__repr__()
        return stock if self._host_draws else f"{stock}  # {self.replay.sampler.holding}"

    def support(self) -> Support:
        """How well the groups are filled, what makes them and why."""
        return self.replay.support()

    @property
    def unmatched_updates(self) -> int:
        """TD errors handed to `update_weight` that are of no batch that awaits them: dropped."""
        return self.replay.unmatched_updates

    def _draw(self, batch_size: int | None) -> tuple[I64, Any]:
        if self._host_draws or batch_size is None or batch_size <= 0:
            slots = super().sample_indices(batch_size)
            if not self._host_draws:
                self.replay.read(slots)
            return slots, None
        if len(self) == 0:
            raise ValueError("cannot sample from an empty buffer: collect transitions first")
        return self.replay.draw(batch_size, self.beta)

    def _register(self, slots: Any) -> None:
        """Tell the sampler what Tianshou has written, as Tianshou would read it."""
        if self._host_draws or len(slots) == 0:
            return
        try:
            self.replay.put(slots, *self._observations_and_actions(slots))
        except Exception:  # Tianshou has written them: whoever was there before is gone
            self.replay.forget(slots)
            raise
        if self.stack_num > 1 and self.strategy.needs.groups:
            self._forget_cut_stacks(slots)
        self.replay.fit_if_due(self._observations_and_actions)

    def _observations_and_actions(self, slots: Any) -> tuple[Any, Any]:
        obs = self.get(slots, "obs")
        if isinstance(obs, Batch) and (self.replay.takes_parts or self.replay.exact):
            obs = obs.to_dict()
        return obs, self._meta.act[slots]

    def _forget_cut_stacks(self, slots: Any) -> None:
        """The entries after those just written are the oldest of their ring: if the frames that
        their stacks began with are overwritten, they no longer read what they were stored as."""
        edges = self.subbuffer_edges
        ring = np.searchsorted(edges, slots, side="right") - 1
        start, size = edges[ring], edges[ring + 1] - edges[ring]
        steps = np.arange(1, self.stack_num)[:, None]
        after = np.setdiff1d(start + (slots - start + steps) % size, slots)
        after = after[self.replay.sampler.holds(after)]
        if after.size:
            self.replay.forget_changed(after, *self._observations_and_actions(after))

    def _register_anew(self) -> None:
        self.replay.clear()
        if not self._host_draws:
            self._register(super().sample_indices(0))


class SiblingReplayBuffer(_Siblings):
    """A buffer for one environment, drawn by a strategy; for several there is
    `SiblingVectorReplayBuffer`.

    strategy: Uniform, Prioritized, SiblingSample, SiblingModel, RankBased or your own.
    beta: exponent of the importance weights, until `set_beta`.
    key: a `KeyMap`, or a function key(obs, act) -> number or array: entries with equal keys and
        equal action are siblings. By default equal observation and action. A map that is not
        fitted, such as `Auto()` of `grouping`, is fitted to the buffer's first entries, and to the
        next ones after `reset`.
    random_seed, options: as of Tianshou's `ReplayBuffer`; the seed is of the draws as well.

    TD errors are as the algorithm hands them back. DQN's are target minus value; those of DDPG,
    TD3, SAC and REDQ value minus target; C51, QRDQN, IQN and FQF have no sign. It matters only to a
    strategy of your own that needs signs: it is warned where it sees none.

    With groups and `stack_num` above 1, an entry is no longer drawn once the first frames of its
    stack are overwritten. That is so for at most the stack_num - 1 oldest entries of a full ring.
    """

    def __init__(
        self,
        size: int,
        strategy: Strategy,
        *,
        beta: float = 0.4,
        key: Key = None,
        random_seed: int = 42,
        **options: Any,
    ) -> None:
        super().__init__(size, random_seed=random_seed, **options)
        self._set_up(strategy, beta, key, random_seed)

    @property
    def options(self) -> Any:
        """What Tianshou's managers of several buffers ask for first, and nobody else."""
        if self._host_draws:
            return self._options
        raise TypeError(
            "a ReplayBufferManager would draw from SiblingReplayBuffers without their strategy: "
            "use SiblingVectorReplayBuffer(total_size, buffer_num, strategy)"
        )

    @options.setter
    def options(self, options: Any) -> None:
        self._options = options


class SiblingVectorReplayBuffer(_Siblings, VectorReplayBuffer):
    """A buffer for `buffer_num` environments, a ring for each; all are drawn from as one."""

    def __init__(
        self,
        total_size: int,
        buffer_num: int,
        strategy: Strategy,
        *,
        beta: float = 0.4,
        key: Key = None,
        random_seed: int = 42,
        **options: Any,
    ) -> None:
        VectorReplayBuffer.__init__(
            self, total_size, buffer_num, random_seed=random_seed, **options
        )
        self._set_up(strategy, beta, key, random_seed)


def export(
    buffer: SiblingReplayBuffer | SiblingVectorReplayBuffer,
    path: str | os.PathLike[str],
    next_values: NextValues | None = None,
) -> None:
    """Write a buffer to an .npz for `sibling-replay diagnose`.

    next_values: maps next observations, [n, ...] (or a mapping of such, where they are of several
        parts), to their values, [n], for the column q_next.
    """
    slots = drawable_slots(buffer.replay)
    batch = buffer[slots]
    columns = {
        "obs": _plain(batch.obs),
        "action": batch.act,
        "reward": batch.rew,
        "next_obs": _plain(batch.obs_next),
        "terminated": batch.terminated,
        "truncated": batch.truncated,
    }
    export_columns(path, buffer.replay, slots, columns, next_values)


def _plain(obs: Any) -> Any:
    return obs.to_dict() if isinstance(obs, Batch) else np.asarray(obs)
