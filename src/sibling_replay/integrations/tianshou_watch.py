"""Whether a Tianshou algorithm uses the importance weights and writes TD errors, seen as it trains.

An algorithm takes `batch.weight` out for its loss and puts its TD errors in the same place. Some
take nothing out (DQN with a Huber loss takes it and drops it), some put nothing in. Both are silent
in Tianshou: training goes on, without what prioritized replay is for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.integrations import host

with host("Tianshou", "tianshou"):
    import torch
    from tianshou.data import Batch, to_numpy


class WeightWatch:
    """Looks at the batches of a buffer until one has been trained on as it should be."""

    def __init__(self) -> None:
        self.satisfied = False
        self._given: NDArray[Any] | None = None  # the weights of the last batch handed out
        self._taken: torch.Tensor | None = None  # the same, as the algorithm took them

    def hand_out(self, batch: Batch, weights: NDArray[Any]) -> Batch:
        """The batch, watched if there still is something to find out."""
        if self.satisfied:
            return batch
        self._given, self._taken = weights, None
        watched = WatchedBatch(batch)
        object.__setattr__(watched, "watch", self)
        return watched

    def take(self, batch: Batch, value: Any) -> Any:
        """The algorithm asks for what is in the place of the weights. If these are the weights, the
        loss gets a copy that shows by its gradient whether it was used."""
        weights = isinstance(value, torch.Tensor) and self._taken is None
        if self._given is None or not weights or not _equal(value, self._given):
            return value
        self._taken = value.detach().requires_grad_()
        if "weight" in batch:
            batch.weight = self._taken
        return self._taken

    def check(self, td_errors: Any) -> None:
        """Refuse what an algorithm hands back if it is the weights, or if it did not use these."""
        given, taken = self._given, self._taken
        self._given = self._taken = None
        if given is None:
            return
        weighted = bool((given != 1.0).any())
        if td_errors is taken or td_errors is given or (weighted and _equal(td_errors, given)):
            raise ValueError(
                "the algorithm handed back the importance weights in place of TD errors: it does "
                "not support prioritized replay (in Tianshou BCQ, CQL, CRR and their like). Use "
                "strategy=Uniform(). No priority was changed"
            )
        if taken is not None:
            self.satisfied = taken.grad is not None
            if weighted and not self.satisfied:
                raise ValueError(
                    "the loss did not use the importance weights. Tianshou's DQN drops them when "
                    "huber_loss_delta is set: leave it None"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or loaded buffer may serve another loss: it watches anew."""
        return WeightWatch, ()


class WatchedBatch(Batch):
    """A batch that tells when its weights, as a tensor, are asked for. Copies are not watched."""

    __slots__ = ("watch",)  # all else that a batch has is data

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return self._taken(value) if name == "weight" else value

    def pop(self, key: str, default: Any = None) -> Any:
        value = super().pop(key, default)
        return self._taken(value) if key == "weight" else value

    def _taken(self, value: Any) -> Any:
        watch: WeightWatch | None = getattr(self, "watch", None)
        return value if watch is None else watch.take(self, value)


def _equal(td_errors: Any, weights: NDArray[Any]) -> bool:
    given = to_numpy(td_errors)
    return isinstance(given, np.ndarray) and np.array_equal(given.reshape(-1), weights)
