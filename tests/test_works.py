"""docs/works.md, the rows of the library itself."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from sibling_replay import ReplayBuffer
from sibling_replay.training import DQN
from sibling_replay.training.config import paper_config
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import advance
from sibling_replay.training.tabular.trainer import new_run
from support.works import PAGE, check_row, header, learnt


class Rooms(gym.Env):
    """Four rooms in a row, as one number or, of parts, beside a dial that says nothing."""

    def __init__(self, parts=False):
        self.parts = parts
        self.observation_space = spaces.Discrete(4)
        if parts:
            dial = spaces.Box(0, 1, (1,), np.float32)
            self.observation_space = spaces.Dict(room=spaces.Discrete(4), dial=dial)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room, self.steps = 1, 0
        return self._obs(), {}

    def step(self, action):
        right = action and self.np_random.random() < 0.8
        self.room, self.steps = max(self.room + (1 if right else -1), 0), self.steps + 1
        ended = self.room == 3
        return self._obs(), float(ended), ended, self.steps == 9 and not ended, {}

    def _obs(self):
        dial = self.np_random.integers(2, size=1).astype(np.float32)
        return {"room": self.room, "dial": dial} if self.parts else self.room


gym.register("support/Rooms-v0", Rooms)


def loop(strategy, variant):
    """The loop of the README, over a table of values."""
    envs = [Rooms(parts=variant == "D") for _ in range(3 if variant == "V" else 1)]
    n_steps = 3 if variant == "N" else 1
    buffer = ReplayBuffer.for_env(envs[0], 100, strategy, seed=0, n_steps=n_steps, gamma=0.9)
    q, rng = np.zeros((4, 2)), np.random.default_rng(0)
    shown = [env.reset(seed=i)[0] for i, env in enumerate(envs)]

    def rooms(obs):
        return obs["room"] if variant == "D" else obs

    for step in range(60):
        rows = []
        for place, env in enumerate(envs):
            action = int(rng.integers(2))
            obs, (next_obs, *rest, _) = shown[place], env.step(action)
            rows.append((obs, action, rest[0], next_obs, *rest[1:]))
            shown[place] = env.reset()[0] if rest[1] or rest[2] else next_obs
        if len(envs) == 1:
            buffer.add(*rows[0])
        else:
            buffer.extend(*map(np.array, zip(*rows, strict=True)))
        if step >= 10:
            batch = buffer.sample(8)
            outcomes = batch.outcomes
            discount = outcomes.discount if variant == "N" else 0.9
            beyond = q[rooms(outcomes.next_obs)].max(axis=1)
            targets = outcomes.reward + discount * ~outcomes.terminated * beyond
            td = batch.average(targets) - q[rooms(batch.obs), batch.action]
            np.add.at(q, (rooms(batch.obs), batch.action), 0.1 * batch.weights * td)
            buffer.update_priorities(batch, td)
    learnt(np.zeros((4, 2)), q)
    ok, why = buffer.check_valid()
    assert ok, why


def trainer(learner):
    def trial(strategy, variant):
        env = Rooms(parts=True) if variant == "D" else "support/Rooms-v0"
        model = DQN(
            env, strategy=strategy, key="exact" if strategy.needs.groups else None,
            learner=learner, n_envs=3 if variant == "V" else 1, n_steps=3 if variant == "N" else 1,
            hidden=(8,), learning_starts=10, batch_size=8, capacity=100, seed=0,
        )  # fmt: skip
        before = np.concatenate([weight.ravel() for weight, _ in model.learner.layers])
        model.learn(60)
        assert model.updates >= 40
        learnt(before, np.concatenate([weight.ravel() for weight, _ in model.learner.layers]))

    return trial


def test_the_replay_buffer():
    check_row("`ReplayBuffer`", loop)


@pytest.mark.parametrize("learner", ["compiled", "torch"])
def test_dqn(learner):
    if learner == "torch":
        pytest.importorskip("torch")
    check_row(f"`training.DQN`, {learner}", trainer(learner))


METHODS = {"Uniform": "DDQN", "Prioritized": "PER", "RankBased": "RANK",
           "SiblingSample": "SAMPLE", "SiblingModel": "MODEL", "SiblingAverage": "AVG"}  # fmt: skip


def in_tables(strategy, variant):
    """An environment that it plays by itself, of numbered states."""
    n_steps = 3 if variant == "N" else 1
    config = paper_config(
        "TwoChains", METHODS[strategy.name], 0, steps=300, learning_starts=100, n_steps=n_steps
    )
    run, draws = new_run(config)
    before = run.network.theta.copy()
    advance(Lent(run), draws, config.steps, False)
    learnt(before, run.network.theta)


def test_the_trainer_of_tables():
    check_row("trainer of tables", in_tables, "1N")


def test_the_table_has_a_column_for_every_strategy():
    text = PAGE.read_text()
    assert "\n".join(header()) in text and "?" not in text
