"""What TorchRL's losses write as priority, and which of them use the importance weights.

`tests/integrations/torchrl/test_torchrl_losses.py` runs each of them to see that it is so.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

from sibling_replay.integrations import host

with host("TorchRL", "torchrl"):
    from torchrl.objectives import (
        CQLLoss,
        CrossQLoss,
        DDPGLoss,
        DiscreteCQLLoss,
        DiscreteIQLLoss,
        DiscreteSACLoss,
        DistributionalDQNLoss,
        DQNLoss,
        IQLLoss,
        REDQLoss,
        SACLoss,
        TD3BCLoss,
        TD3Loss,
        TQCLoss,
    )
    from torchrl.objectives.multiagent import QMixerLoss

Errors = Literal["squared", "absolute"]

_WRITES: dict[type, Errors] = {
    DQNLoss: "squared",
    DDPGLoss: "squared",
    TD3Loss: "squared",
    TD3BCLoss: "squared",
    CQLLoss: "squared",
    DiscreteCQLLoss: "squared",
    IQLLoss: "squared",
    DiscreteIQLLoss: "squared",
    REDQLoss: "squared",
    QMixerLoss: "squared",
    DiscreteSACLoss: "absolute",
    CrossQLoss: "absolute",
    TQCLoss: "absolute",
    # It writes the cross-entropy, which serves as the absolute error, as it is.
    DistributionalDQNLoss: "absolute",
}
_WITHOUT_WEIGHTS = (
    CQLLoss, DiscreteCQLLoss, IQLLoss, DiscreteIQLLoss, REDQLoss, CrossQLoss, QMixerLoss,
)  # fmt: skip


def errors_written_by(loss: Any) -> Errors:
    """Whether the loss writes squared or absolute TD errors, or an error that asks."""
    if type(loss) is SACLoss:
        return "absolute" if loss.value_network_params is None else "squared"
    if type(loss) in _WRITES:
        return _WRITES[type(loss)]
    known = [kind for kind in type(loss).__mro__ if kind in _WRITES]
    hint = f" ({known[0].__name__}, which it extends: {_WRITES[known[0]]} errors)" if known else ""
    raise ValueError(
        f"it is not known what {type(loss).__name__} writes as priority{hint}: give "
        f'errors="squared" or errors="absolute" in place of loss'
    )


def warn_if_unweighted(loss: Any) -> None:
    """Say so if the loss leaves out the importance weights."""
    if isinstance(loss, _WITHOUT_WEIGHTS):
        warnings.warn(
            f"{type(loss).__name__} does not use priority_weight: it trains without the importance "
            f"weights of prioritized replay, whatever beta is",
            stacklevel=4,
        )
