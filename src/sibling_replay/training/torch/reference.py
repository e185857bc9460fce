"""The compiled trainer's algorithm in torch, on any Gymnasium environment.

This is what the compiled trainer must agree with: given the same config on a tabular environment,
both take the same actions, draw the same slots and reach the same values up to rounding. Learner
and loop are those of every torch run (`dqn.py`). How the paper's text is read is said in
`training/tabular/trainer.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from sibling_replay import ReplayBuffer, Strategy
from sibling_replay.envs import TabularModel, make_env
from sibling_replay.grouping.key_map import Key
from sibling_replay.rng import SEED_BOUND, streams
from sibling_replay.training.config import TabularConfig, gym_id
from sibling_replay.training.evaluation import LONGEST_EVALUATION
from sibling_replay.training.initial import Layers, initial_layers
from sibling_replay.training.interaction import Position, Step, interact
from sibling_replay.training.methods import strategy_of
from sibling_replay.training.results import RunResult
from sibling_replay.training.torch.dqn import DoubleDQN

IsSuccess = Callable[
    [Any, Any, float, Any, bool], bool
]  # obs, action, reward, next_obs, terminated


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

    def steps(self, config: TabularConfig) -> Iterator[Step]:
        obs, _ = self.env.reset(seed=self.seed)
        start = Position(0, 0, obs)
        return interact(self.env, self.learner, self.buffer, config, self.explore, start)


def set_up(
    config: TabularConfig,
    *,
    network: nn.Module | None = None,
    key: Key | Literal["default"] = "default",
    strategy: Strategy | None = None,
    dtype: torch.dtype = torch.float32,
) -> Setup:
    """Environments, learner and buffer of a config, on the named random streams of its seed.

    Without a `network` it is the paper's: two hidden layers of `config.hidden` ReLU units. `key` is
    what makes siblings, as in `ReplayBuffer`; a `strategy`, of your own say, takes the place of the
    config's method and alpha.
    """
    strategy = strategy_of(config) if strategy is None else strategy
    rng = streams(config.seed)
    env = make_env(gym_id(config.env))
    if not isinstance(env.action_space, spaces.Discrete):
        raise TypeError(f"{config.env} must have a Discrete action space, has {env.action_space}")
    if network is None:
        inputs = spaces.flatdim(env.observation_space)
        outputs = int(env.action_space.n)
        network = mlp((inputs, config.hidden, config.hidden, outputs), rng.init)
    return Setup(
        env=env,
        eval_env=make_env(gym_id(config.env)),
        learner=DoubleDQN(
            network.to(dtype),
            env.observation_space,
            gamma=config.gamma,
            learning_rate=config.learning_rate,
            grad_clip=config.grad_clip,
            loss=config.loss,
            through_time_limits=config.through_time_limits,
            n_steps=config.n_steps,
        ),
        buffer=ReplayBuffer.for_env(
            env,
            config.capacity,
            strategy,
            key=key,
            seed=rng.replay,
            n_steps=config.n_steps,
            gamma=config.gamma,
        ),
        explore=rng.explore,
        seed=int(rng.env.integers(SEED_BOUND)),
        eval_seed=int(rng.eval.integers(SEED_BOUND)),
    )


def mlp(sizes: tuple[int, ...], rng: np.random.Generator) -> nn.Sequential:
    """Linear layers with ReLU between them, with torch's default initial law, from `rng`."""
    return sequential(initial_layers(rng, sizes))


def sequential(layers: Layers) -> nn.Sequential:
    """Linear layers of these weights and biases with ReLU between them."""
    modules: list[nn.Module] = [nn.Flatten()]
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            linear.weight.copy_(torch.as_tensor(weight))
            linear.bias.copy_(torch.as_tensor(bias))
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


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


def train_reference(
    config: TabularConfig,
    *,
    network: nn.Module | None = None,
    key: Key | Literal["default"] = "default",
    strategy: Strategy | None = None,
    dtype: torch.dtype = torch.float32,
) -> RunResult:
    """Run to the end and return the evaluation curve, as `train_tabular` does."""
    if config.eval_mean_rewards:
        raise ValueError("this trainer evaluates in an environment: it has no mean rewards")
    setup = set_up(config, network=network, key=key, strategy=strategy, dtype=dtype)
    is_success = table_success(setup.env)
    rows: list[tuple[int, int, float, float]] = []
    episodes = updates = 0
    seed: int | None = setup.eval_seed
    for step in setup.steps(config):
        ended = step.transition.ended
        episodes += ended
        updates = step.updates
        due = ended and episodes % config.eval_every_episodes == 0
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
