"""The algorithm, readably: Double DQN with a `ReplayBuffer`, in torch, on any Gymnasium env.

This is what the compiled trainer must agree with: given the same config on a tabular environment,
both take the same actions, draw the same slots and reach the same values up to rounding. The loop
is a generator of steps; logging, evaluation and tests observe it from outside. How the paper's text
is read is said in `tabular`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from sibling_replay import (
    Batch,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Uniform,
)
from sibling_replay.envs import TabularModel
from sibling_replay.rng import streams
from sibling_replay.training.config import RunConfig, gym_id
from sibling_replay.training.loop import LONGEST_EVALUATION
from sibling_replay.training.network import initial_layers
from sibling_replay.training.results import RunResult
from sibling_replay.training.tabular import SEED_BOUND

IsSuccess = Callable[
    [Any, Any, float, Any, bool], bool
]  # obs, action, reward, next_obs, terminated


class DoubleDQN:
    """A Q-network with its target and optimizer. Discrete observations become one-hot."""

    def __init__(
        self,
        network: nn.Module,
        observation_space: gym.Space[Any],
        *,
        gamma: float,
        learning_rate: float,
        grad_clip: float,
    ) -> None:
        self.network = network
        self.target = copy.deepcopy(network)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
        self.gamma = gamma
        self.grad_clip = grad_clip
        self.dtype = next(network.parameters()).dtype
        self._one_hot: Tensor | None = None
        if isinstance(observation_space, spaces.Discrete):
            self._one_hot = torch.eye(int(observation_space.n), dtype=self.dtype)

    def features(self, obs: Any) -> Tensor:
        """A batch of observations as the network takes it."""
        if self._one_hot is not None:
            return self._one_hot[torch.as_tensor(obs)]
        return torch.as_tensor(obs).to(self.dtype)

    @torch.no_grad()
    def greedy(self, obs: Any) -> int:
        """The action of largest value; of equal ones the first."""
        return int(self.network(self.features(np.asarray(obs)[None])).argmax())

    def update(self, batch: Batch) -> NDArray[Any]:
        """One optimizer step on the weighted squared TD error. Returns the TD errors before it."""
        outcomes = batch.outcomes  # several an entry for AVG, else one
        with torch.no_grad():
            next_obs = self.features(outcomes.next_obs)
            best = self.network(next_obs).argmax(dim=1, keepdim=True)
            bootstrap = self.target(next_obs).gather(1, best).squeeze(1)
            going = torch.as_tensor(~(outcomes.terminated | outcomes.truncated)).to(self.dtype)
            reward = torch.as_tensor(outcomes.reward).to(self.dtype)
            targets = batch.average(reward + self.gamma * going * bootstrap)  # eq. 11, eq. 12

        action = torch.as_tensor(batch.action)[:, None]
        values = self.network(self.features(batch.obs)).gather(1, action).squeeze(1)
        errors = targets - values
        loss = (torch.as_tensor(batch.weights) * errors**2).mean()

        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.grad_clip)
        self.optimizer.step()
        before: NDArray[Any] = errors.detach().numpy()
        return before

    def copy_target(self) -> None:
        """The hard target update."""
        self.target.load_state_dict(self.network.state_dict())


@dataclass(frozen=True)
class Step:
    """One environment step and, once learning has started, the update that followed it."""

    number: int  # from 1
    obs: Any
    action: int
    reward: float
    next_obs: Any
    terminated: bool
    truncated: bool
    batch: Batch | None
    td_errors: NDArray[Any] | None  # [B] target minus value, before the optimizer step


def interact(
    env: gym.Env[Any, Any],
    learner: DoubleDQN,
    buffer: ReplayBuffer,
    config: RunConfig,
    explore: np.random.Generator,
    seed: int,
) -> Iterator[Step]:
    """The training loop: act, store, draw, update, refresh. Yields after every step."""
    n_actions = int(env.action_space.n)  # type: ignore[attr-defined]
    obs, _ = env.reset(seed=seed)
    updates = 0
    for number in range(1, config.steps + 1):
        chance, which = explore.random(2)
        explores = chance < config.epsilon(number - 1)
        action = int(which * n_actions) if explores else learner.greedy(obs)

        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs, action, float(reward), next_obs, terminated, truncated)

        batch = td_errors = None
        if number >= config.learning_starts:
            batch = buffer.sample(config.batch_size, config.beta(updates))
            td_errors = learner.update(batch)
            buffer.update_priorities(batch, np.abs(td_errors))
            updates += 1
        if number % config.target_interval == 0:
            learner.copy_target()

        yield Step(
            number, obs, action, float(reward), next_obs, terminated, truncated, batch, td_errors
        )
        obs = env.reset()[0] if terminated or truncated else next_obs


def evaluate(
    env: gym.Env[Any, Any],
    learner: DoubleDQN,
    episodes: int,
    is_success: IsSuccess,
    seed: int | None = None,
) -> tuple[float, float]:
    """Mean return and success rate of greedy episodes; a seed restarts the environment's stream."""
    total = 0.0
    successes = 0
    for _ in range(episodes):
        obs, _ = env.reset(seed=seed)
        seed = None
        success = False
        for _ in range(LONGEST_EVALUATION):
            action = learner.greedy(obs)
            next_obs, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            success |= is_success(obs, action, float(reward), next_obs, terminated)
            if terminated or truncated:
                break
            obs = next_obs
        successes += success
    return total / episodes, successes / episodes


@dataclass(frozen=True)
class Setup:
    """The parts of a run, ready to `interact`."""

    env: gym.Env[Any, Any]
    eval_env: gym.Env[Any, Any]
    learner: DoubleDQN
    buffer: ReplayBuffer
    explore: np.random.Generator
    seed: int  # of env
    eval_seed: int

    def steps(self, config: RunConfig) -> Iterator[Step]:
        return interact(self.env, self.learner, self.buffer, config, self.explore, self.seed)


def set_up(
    config: RunConfig, *, network: nn.Module | None = None, dtype: torch.dtype = torch.float32
) -> Setup:
    """Environments, learner and buffer of a config, on the named random streams of its seed.

    Without a `network` it is the paper's: two hidden layers of `config.hidden` ReLU units.
    """
    rng = streams(config.seed)
    env: gym.Env[Any, Any] = gym.make(gym_id(config.env))
    if not isinstance(env.action_space, spaces.Discrete):
        raise TypeError(f"{config.env} must have a Discrete action space, has {env.action_space}")
    if network is None:
        inputs = spaces.flatdim(env.observation_space)
        outputs = int(env.action_space.n)
        network = mlp((inputs, config.hidden, config.hidden, outputs), rng.init)
    return Setup(
        env=env,
        eval_env=gym.make(gym_id(config.env)),
        learner=DoubleDQN(
            network.to(dtype),
            env.observation_space,
            gamma=config.gamma,
            learning_rate=config.learning_rate,
            grad_clip=config.grad_clip,
        ),
        buffer=ReplayBuffer.for_env(env, config.capacity, strategy_of(config), seed=rng.replay),
        explore=rng.explore,
        seed=int(rng.env.integers(SEED_BOUND)),
        eval_seed=int(rng.eval.integers(SEED_BOUND)),
    )


def mlp(sizes: tuple[int, ...], rng: np.random.Generator) -> nn.Sequential:
    """Linear layers with ReLU between them, with torch's default initial law, from `rng`."""
    modules: list[nn.Module] = [nn.Flatten()]
    layers = initial_layers(rng, sizes)
    for (fan_in, fan_out), (weight, bias) in zip(pairwise(sizes), layers, strict=True):
        linear = nn.Linear(fan_in, fan_out)
        with torch.no_grad():
            linear.weight.copy_(torch.as_tensor(weight))
            linear.bias.copy_(torch.as_tensor(bias))
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def strategy_of(config: RunConfig) -> Strategy:
    """The replay strategy a method's name stands for."""
    if config.method.startswith("AVG"):
        return SiblingAverage(
            alpha=config.alpha,
            max_siblings=config.max_siblings,
            update_all_siblings=config.update_all_siblings,
        )
    kinds: dict[str, Callable[..., Strategy]] = {
        "DDQN": Uniform,
        "PER": Prioritized,
        "SAMPLE": SiblingSample,
        "MODEL": SiblingModel,
    }
    return kinds[config.method](alpha=config.alpha)


def table_success(env: gym.Env[Any, Any]) -> IsSuccess:
    """What counts as a success in an environment: as its table says, if it has one; else an episode
    that terminates with a positive reward."""
    if not hasattr(env.unwrapped, "P"):
        return lambda obs, action, reward, next_obs, terminated: terminated and reward > 0
    model = TabularModel.from_env(env)
    found = {
        (s, a, float(model.reward[s, a, o]), int(model.next_state[s, a, o]))
        for s, a, o in np.argwhere(model.success).tolist()
    }
    return lambda obs, action, reward, next_obs, terminated: (
        (int(obs), int(action), reward, int(next_obs)) in found
    )


def train(
    config: RunConfig, *, network: nn.Module | None = None, dtype: torch.dtype = torch.float32
) -> RunResult:
    """Run to the end and return the evaluation curve, as `tabular.train` does."""
    setup = set_up(config, network=network, dtype=dtype)
    is_success = table_success(setup.env)
    rows: list[tuple[int, int, float, float]] = []
    episodes = updates = 0
    seed: int | None = setup.eval_seed
    for step in setup.steps(config):
        ended = step.terminated or step.truncated
        episodes += ended
        updates += step.batch is not None
        due = ended and episodes % config.eval_interval == 0
        if due or step.number == config.steps:
            scores = evaluate(setup.eval_env, setup.learner, config.eval_episodes, is_success, seed)
            rows.append((step.number, episodes, *scores))
            seed = None
    curve = np.array(rows).T
    return RunResult(
        config=config,
        eval_step=curve[0].astype(np.int64),
        eval_episode=curve[1].astype(np.int64),
        eval_return=curve[2].copy(),
        eval_success=curve[3].copy(),
        episodes=episodes,
        updates=updates,
    )
