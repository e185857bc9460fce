"""What each of TorchRL's losses writes as priority, and whether it uses the weights: run, and seen.

Networks answer zero and episodes end, so that the TD error of an entry is its reward.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Bounded, LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import (
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    TanhDelta,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import (
    CQLLoss,
    CrossQLoss,
    DDPGLoss,
    DiscreteCQLLoss,
    DiscreteIQLLoss,
    DiscreteSACLoss,
    DQNLoss,
    IQLLoss,
    REDQLoss,
    SACLoss,
    TD3BCLoss,
    TD3Loss,
)

from sibling_replay import Prioritized, Uniform
from sibling_replay.integrations.torchrl import SiblingSampler
from sibling_replay.integrations.torchrl_losses import _WITHOUT_WEIGHTS, _WRITES

BATCH, ACTION = 8, Bounded(-1.0, 1.0, (1,))


class Critic(nn.Module):
    """Value of an observation and, if there is one, an action."""

    def __init__(self, inputs: int, outputs: int = 1) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.cat(inputs, -1))


def stochastic_actor() -> ProbabilisticActor:
    net = nn.Sequential(nn.Linear(1, 2), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=ACTION,
        distribution_class=TanhNormal,
    )


def deterministic_actor() -> ProbabilisticActor:
    return ProbabilisticActor(
        TensorDictModule(nn.Linear(1, 1), in_keys=["observation"], out_keys=["param"]),
        in_keys=["param"],
        spec=ACTION,
        distribution_class=TanhDelta,
    )


def plain_actor() -> TensorDictSequential:
    return TensorDictModule(nn.Linear(1, 1), in_keys=["observation"], out_keys=["action"])


def discrete_actor() -> ProbabilisticActor:
    return ProbabilisticActor(
        TensorDictModule(nn.Linear(1, 2), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
    )


def q() -> ValueOperator:
    return ValueOperator(Critic(2), in_keys=["observation", "action"])


def v() -> ValueOperator:
    return ValueOperator(Critic(1), in_keys=["observation"])


def discrete_q(value: str = "action_value") -> TensorDictModule:
    return TensorDictModule(nn.Linear(1, 2), in_keys=["observation"], out_keys=[value])


def value_actor() -> QValueActor:
    return QValueActor(nn.Linear(1, 2), in_keys=["observation"], action_space="one-hot")


# name -> a loss of zero networks, and whether its actions are one-hot
LOSSES = {
    "DQN": (lambda: DQNLoss(value_actor(), action_space="one-hot", delay_value=False), True),
    "DDPG": (lambda: DDPGLoss(plain_actor(), q()), False),
    "TD3": (lambda: TD3Loss(deterministic_actor(), q(), bounds=(-1.0, 1.0)), False),
    "TD3BC": (lambda: TD3BCLoss(deterministic_actor(), q(), bounds=(-1.0, 1.0)), False),
    "SAC": (lambda: SACLoss(stochastic_actor(), q(), fixed_alpha=True, alpha_init=1e-9), False),
    "SAC with a value network": (
        lambda: SACLoss(stochastic_actor(), q(), v(), fixed_alpha=True, alpha_init=1e-9),
        False,
    ),
    "DiscreteSAC": (
        lambda: DiscreteSACLoss(
            discrete_actor(),
            discrete_q(),
            num_actions=2,
            action_space="one-hot",
            target_entropy=0.1,
        ),
        True,
    ),
    "CrossQ": (lambda: CrossQLoss(stochastic_actor(), q()), False),
    "REDQ": (lambda: REDQLoss(stochastic_actor(), q(), fixed_alpha=True, alpha_init=1e-9), False),
    "CQL": (lambda: CQLLoss(stochastic_actor(), q()), False),
    "DiscreteCQL": (lambda: DiscreteCQLLoss(value_actor(), action_space="one-hot"), True),
    "IQL": (lambda: IQLLoss(stochastic_actor(), q(), v()), False),
    "DiscreteIQL": (
        lambda: DiscreteIQLLoss(
            discrete_actor(), discrete_q("state_action_value"), v(), action_space="one-hot"
        ),
        True,
    ),
}


def made(name: str):
    """The loss with values of zero, and entries whose TD errors are their rewards."""
    make, one_hot = LOSSES[name]
    torch.manual_seed(0)
    loss = make()
    with torch.no_grad():
        for which, parameters in loss.named_parameters():
            if "actor" not in which or name == "DQN":
                parameters.zero_()
        for which, buffers in loss.named_buffers():
            if "target" in which and "actor" not in which:
                buffers.zero_()
    reward = torch.linspace(0.1, 3.0, BATCH)[:, None]
    ended = torch.ones(BATCH, 1, dtype=torch.bool)
    action = nn.functional.one_hot(torch.arange(BATCH) % 2) if one_hot else torch.zeros(BATCH, 1)
    obs = torch.arange(BATCH, dtype=torch.float32)[:, None]
    entries = TensorDict(
        {
            "observation": obs,
            "action": action,
            "next": {"observation": obs, "reward": reward, "done": ended, "terminated": ended},
        },
        [BATCH],
    )
    return loss, entries


def buffer_with(sampler, entries) -> TensorDictReplayBuffer:
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(BATCH), sampler=sampler, batch_size=4 * BATCH
    )
    buffer.extend(entries)
    return buffer


def quiet_sampler(loss) -> SiblingSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SiblingSampler(BATCH, Prioritized(alpha=1.0), loss=loss, seed=0)


@pytest.mark.filterwarnings("ignore")  # TorchRL's own, about options of its losses
@pytest.mark.parametrize("name", LOSSES)
def test_priorities_are_the_absolute_errors_whatever_the_loss_writes(name):
    loss, entries = made(name)
    buffer = buffer_with(quiet_sampler(loss), entries)
    sample = buffer.sample()
    loss(sample)
    buffer.update_tensordict_priority(sample)
    index = sample["index"].unique().numpy()
    assert len(index) > BATCH // 2
    expected = entries["next", "reward"].ravel().numpy()[index] + 1e-6
    found = buffer.sampler.replay.sampler.masses[index]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOSSES)
def test_losses_that_drop_the_weights_are_warned_of(name):
    """And no others: the loss of the values moves with the weights, or it does not."""
    loss, entries = made(name)
    sampler = quiet_sampler(loss)
    sample = buffer_with(sampler, entries).sample()
    sums = []
    for weights in (torch.ones(4 * BATCH), torch.linspace(0.0, 1.0, 4 * BATCH)):
        sample["priority_weight"] = weights
        torch.manual_seed(1)
        out = loss(sample)
        which = [key for key in ("loss", "loss_qvalue", "loss_value") if key in out.keys()]
        sums.append(float(out[which[0]].sum()))
    used = abs(sums[0] - sums[1]) > 1e-6
    assert used == (not isinstance(loss, _WITHOUT_WEIGHTS))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SiblingSampler(BATCH, Prioritized(), loss=loss)
        SiblingSampler(BATCH, Uniform(), loss=loss)
    about = [str(each.message) for each in said if "priority_weight" in str(each.message)]
    assert len(about) == (not used)
    assert used or type(loss).__name__ in about[0]


def test_the_table_has_no_loss_that_was_not_run():
    """But for three that need more than a line to build; their source was read."""
    run = {type(made(name)[0]) for name in LOSSES} - {SACLoss}
    assert {kind.__name__ for kind in set(_WRITES) - run} == {
        "TQCLoss",
        "QMixerLoss",
        "DistributionalDQNLoss",
    }


class Mine(DQNLoss):
    """A user's, which may write anything."""


def test_other_losses_are_asked_about():
    loss = Mine(value_actor(), action_space="one-hot", delay_value=False)
    with pytest.raises(ValueError, match=r"Mine writes.*\(DQNLoss.*squared.*errors="):
        SiblingSampler(8, Prioritized(), loss=loss)
    with pytest.raises(ValueError, match=r"not known what Linear writes as priority: give errors"):
        SiblingSampler(8, Prioritized(), loss=nn.Linear(1, 1))
    assert SiblingSampler(8, Prioritized(), errors="absolute").errors == "absolute"
    assert SiblingSampler(8, Uniform()).errors is None
