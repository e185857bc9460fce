"""The replay buffer for Stable-Baselines3: its interface over our storage."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from sibling_replay.buffer import ReplayBuffer as Storage
from sibling_replay.grouping.key_map import KeyMap, as_key
from sibling_replay.grouping.leaves import row
from sibling_replay.integrations import host
from sibling_replay.integrations.host_replay import refuse_unfit
from sibling_replay.replay.batch import Batch
from sibling_replay.replay.parts import Parts
from sibling_replay.replay.payload import Field
from sibling_replay.strategies import SiblingSample, Strategy

with host("Stable-Baselines3", "sb3"):
    import torch as th
    from stable_baselines3.common.buffers import ReplayBuffer
    from stable_baselines3.common.save_util import save_to_pkl
    from stable_baselines3.common.vec_env import VecNormalize

FUNCTION = "function"  # in the place of a key that is code and still to come: it is in no file
_PATIENCE = 100  # batches drawn without a single refresh, before that is remarked upon


def is_code(key: Any) -> bool:
    """Whether a key is a function or a map of a user's own, which no file holds."""
    return callable(key) and not (isinstance(key, KeyMap) and key.state() is not None)


def _field_of(space: spaces.Space[Any]) -> Field:
    """What stores the elements of an observation space."""
    if isinstance(space, spaces.Dict):
        return Parts({name: _field_of(part) for name, part in space.items()})
    return Field(np.dtype(space.dtype), space.shape or ())


class SiblingSamples(NamedTuple):
    """SB3's `ReplayBufferSamples`, and what a learner needs to weight and refresh them.

    There are M outcomes for B entries: M = B, except that sibling averages have several an entry.
    """

    observations: Any  # [B, ...]: a tensor, or of a Dict space a mapping of tensors
    actions: th.Tensor  # [B, action_dim]
    next_observations: Any  # [M, ...]
    dones: th.Tensor  # [M, 1]
    rewards: th.Tensor  # [M, 1]
    discounts: th.Tensor | None  # [M, 1]: gamma to the number of steps; None for single steps
    weights: th.Tensor  # [B, 1]
    batch: Batch  # as our buffer drew it: slots (pos * n_envs + env), anchors, groups, ...


class SiblingReplayBuffer(ReplayBuffer):
    """SB3's replay buffer over `sibling_replay.ReplayBuffer`, which holds the only copy.

    strategy: how to draw; `SiblingSample()` unless given.
    key: what makes siblings, as in `sibling_replay.ReplayBuffer`, and a map or function is given
        the same there and here: elements of the spaces, to a function one at a time, as a NumPy
        scalar where the space is Discrete, else as an array of the space's shape. Under
        `VecNormalize` the observation is the environment's own, not the normalised one.
    beta: exponent of the importance weights. `SiblingDQN` and its like anneal it.
    seed: of the draws. `Uniform` draws from NumPy's global stream, exactly as SB3 does.
    n_steps, gamma: as in `sibling_replay.ReplayBuffer`, and as in SB3's `NStepReplayBuffer`. Under
        `VecNormalize` the sum of n rewards is scaled, and clipped at the sum of what each of them
        would be clipped at.

    Time limits are SB3's: by default (`handle_timeout_termination`) they are no end, so targets
    bootstrap through them. Either way both terminated and truncated are stored.

    A file holds a map of `grouping`, as fitted as it was, but no code: neither a key function nor a
    map of your own. `load_replay_buffer` of a model attaches the model's, and whoever unpickles a
    buffer otherwise calls `attach_key`.
    """

    pos: int
    full: bool
    n_steps: int = 1
    gamma: float = 0.99
    on_draw: Callable[[SiblingSamples], None] | None = None  # told of every batch, during `train`

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        strategy: Strategy | None = None,
        key: Any = "default",
        beta: float = 0.4,
        seed: int | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
    ) -> None:
        if optimize_memory_usage:
            raise ValueError(
                "optimize_memory_usage is not for SiblingReplayBuffer: the next observation is "
                "part of an outcome and must stay with its entry"
            )
        # Past the stock constructor, which would allocate storage of its own.
        super(ReplayBuffer, self).__init__(
            buffer_size, observation_space, action_space, device, n_envs=n_envs
        )
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        self.beta = beta
        self.n_steps = n_steps
        if n_steps > 1:  # else it plays no part, and buffers that differ in it are alike
            self.gamma = gamma
        obs = _field_of(observation_space)
        action = np.dtype(self._maybe_cast_dtype(action_space.dtype))
        fields = {
            "obs": obs,
            "action": Field(action, action_space.shape or ()),
            "reward": Field(np.dtype(np.float32)),
            "next_obs": obs,
            "terminated": Field(np.dtype(np.bool_)),
            "truncated": Field(np.dtype(np.bool_)),
        }
        if key == "given":
            raise ValueError(
                'SB3 hands no groups to its buffer, so key="given" is not for it: '
                "give a KeyMap or a function key(obs, action)"
            )
        if strategy is not None:
            refuse_unfit("SB3", strategy, averages=True)
        # Filled n_envs at a time, so slot = pos * n_envs + env, for ever.
        capacity = self.buffer_size * n_envs
        self._arguments = (fields, capacity, SiblingSample() if strategy is None else strategy)
        self._key = key
        self._seeds = np.random.SeedSequence(seed)
        self._unrefreshed: int | None = 0  # batches; None once one was refreshed
        self._refuse_what_no_file_can_hold()
        self.reset()

    def _refuse_what_no_file_can_hold(self) -> None:
        """Now, and not at the first checkpoint, hours into a run."""
        parts = {"strategy": self.strategy, "replay_buffer_class": type(self)}
        if not is_code(self._key):
            parts["key"] = self._key
        for what, part in parts.items():
            try:
                save_to_pkl(io.BytesIO(), part)
            except Exception as error:  # pickling runs code of the object's own
                raise TypeError(
                    f"{what} {part!r} cannot be pickled, so save_replay_buffer would fail: define "
                    f"its class at the top level of a module ({error})"
                ) from error

    def reset(self) -> None:
        """Forget all entries; the draws to come are from a fresh stream of the same seed."""
        super().reset()
        self._state: dict[str, Any] | None = None  # of the storage, while its key is to come
        self._storage = None if self._key == FUNCTION else self._new_storage(self._key)

    def _new_storage(self, key: Any) -> Storage:
        seed = self._seeds.spawn(1)[0]
        n_steps, gamma = self.n_steps, self.gamma
        return Storage(*self._arguments, key=key, seed=seed, n_steps=n_steps, gamma=gamma)

    @property
    def storage(self) -> Storage:
        """The transitions, their priorities and groups."""
        if self._storage is None:
            raise ValueError(
                "siblings are made by a key function here, or a map of your own, which is in no "
                "file: give it again, as in SiblingDQN.load(path, key=...), or to a buffer alone "
                "by attach_key(...)"
            )
        return self._storage

    @property
    def strategy(self) -> Strategy:
        return self._arguments[2]

    @property
    def key_kind(self) -> str | None:
        """What makes siblings: "exact", "function" (or a map) or, without groups, None."""
        if callable(self._key) or self._key == FUNCTION:
            return FUNCTION
        kind = as_key(self._key, self.strategy.needs.groups, self.strategy.name)
        return None if kind is None else str(kind)

    def attach_key(self, key: Any) -> None:
        """Give a buffer from a file the key function or map that it was saved with."""
        if self._storage is not None or not callable(key):
            raise ValueError(
                "a key function or map is given once, to a buffer saved with one; this buffer's "
                f"key is {self._key!r}, given was {key!r}"
            )
        storage = self._new_storage(key)
        if self._state is not None:
            storage.load_state_dict(self._state)
        self._storage, self._state, self._key = storage, None, key

    def join_key(self, key: Any) -> None:
        """The same where the buffer may have come with its map, which then must be this one."""
        if self._storage is None:
            self.attach_key(key)
        elif not isinstance(key, KeyMap) or key.digest != self._key.digest:
            raise ValueError(
                f"the buffer saved there has the key {self._key!r}, and this model has {key!r}"
            )

    def __getstate__(self) -> dict[str, Any]:
        """For `pickle`, which SB3 saves buffers with: all but a key that is code."""
        state = self.__dict__.copy()
        if is_code(self._key):
            state |= {"_key": FUNCTION, "_storage": None, "_state": self.storage.state_dict()}
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> SiblingReplayBuffer:
        """A copy in memory keeps its key, whatever that is."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        if is_code(self._key):
            twin.attach_key(self._key)
        return twin

    def __repr__(self) -> str:
        held = "its key is to come" if self._storage is None else self._storage.holding
        return f"<{type(self).__name__}: {held}, {self.strategy}>"

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: np.ndarray[Any, Any],
        reward: np.ndarray[Any, Any],
        done: np.ndarray[Any, Any],
        infos: list[dict[str, Any]],
    ) -> None:
        # SB3 gives a Discrete element an axis of its own; what is stored, and what a key sees, is
        # an element of the space.
        fields = self._arguments[0]
        if isinstance(fields["obs"], Parts):
            shapes = {name: part.shape for name, part in fields["obs"].tree.items()}
            obs, next_obs = (
                {name: part.reshape(self.n_envs, *shapes[name]) for name, part in each.items()}
                for each in (obs, next_obs)
            )
        else:
            obs = obs.reshape((self.n_envs, *fields["obs"].shape))
            next_obs = next_obs.reshape((self.n_envs, *fields["next_obs"].shape))
        action = action.reshape((self.n_envs, *fields["action"].shape))
        if self.n_envs == 1:  # one at a time has a road of its own, several times faster
            ended, timeout = bool(done[0]), bool(infos[0].get("TimeLimit.truncated", False))
            self.storage.add(
                row(obs, 0), action[0], reward[0], row(next_obs, 0),
                ended and not timeout, ended and timeout,
            )  # fmt: skip
        else:
            ends = np.asarray(done, dtype=bool)
            timeouts = np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
            self.storage.extend(obs, action, reward, next_obs, ends & ~timeouts, ends & timeouts)
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full = True
            self.pos = 0

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> SiblingSamples:
        if self.storage.strategy.needs.host_may_draw:
            samples: SiblingSamples = super().sample(batch_size, env)  # by way of _get_samples
        else:
            if self._unrefreshed is not None:
                self._unrefreshed += 1
                if self._unrefreshed == _PATIENCE:
                    self._warn_if_all_alike()
            samples = self._samples(self.storage.sample(batch_size, self.beta), env)
        if self.on_draw is not None:
            self.on_draw(samples)
        return samples

    def _warn_if_all_alike(self) -> None:
        """An algorithm that ignores weights and priorities trains as if there were none. Only a
        strategy of another kind, by groups say, draws differently even so."""
        law = self.storage.probabilities().trained
        if np.allclose(law, 1.0 / law.size, rtol=1e-9, atol=0.0):
            warnings.warn(
                f"{_PATIENCE} batches were drawn and none was refreshed: without TD errors all "
                f"priorities stay equal, so {self.strategy.name} draws as Uniform does, "
                f"and weights are not used. Use SiblingDQN, SiblingSAC or their like, or an "
                f"algorithm whose `train` calls "
                f"replay_buffer.update_priorities(samples, td_errors)",
                stacklevel=3,
            )

    def _get_samples(
        self, batch_inds: np.ndarray[Any, Any], env: VecNormalize | None = None
    ) -> SiblingSamples:
        """The entries at positions that SB3 has drawn, each of an environment drawn here.

        The one use of NumPy's global stream in this package: it is SB3's stream, and only the same
        calls in the same order leave a run with `Uniform` equal to a run of the stock class.
        """
        env_indices = np.random.randint(0, high=self.n_envs, size=len(batch_inds))  # noqa: NPY002
        return self._samples(self.storage.batch_of(batch_inds * self.n_envs + env_indices), env)

    def _samples(self, batch: Batch, env: VecNormalize | None) -> SiblingSamples:
        """Tensors over the batch's own memory (on the CPU), which they keep from being reused."""
        found = batch.outcomes
        obs, next_obs = self.shaped(batch.obs), self.shaped(found.next_obs)
        reward = found.reward.reshape(-1, 1)
        discount = None if self.n_steps == 1 else found.discount.reshape(-1, 1)
        if env is not None:
            obs, next_obs = self._normalize_obs(obs, env), self._normalize_obs(next_obs, env)
            reward = self.normalized_reward(reward, discount, env)
        ended = found.terminated
        if not self.handle_timeout_termination:
            ended = ended | found.truncated
        done = ended.astype(np.float32).reshape(-1, 1)
        weight = batch.weights.reshape(-1, 1)
        device = self.device
        return SiblingSamples(
            self.as_tensors(obs),
            th.as_tensor(batch.action.reshape(-1, self.action_dim), device=device),
            self.as_tensors(next_obs),
            th.as_tensor(done, device=device),
            th.as_tensor(reward, device=device),
            None if discount is None else th.as_tensor(discount, device=device),
            th.as_tensor(weight, device=device),
            batch,
        )

    def shaped(self, obs: Any) -> Any:
        """Observations in the shape that SB3 has them in: a Discrete one has an axis of its own."""
        if isinstance(obs, dict):
            return {name: part.reshape(-1, *self.obs_shape[name]) for name, part in obs.items()}
        return obs.reshape(-1, *self.obs_shape)

    def as_tensors(self, obs: Any) -> Any:
        """Observations as a tensor, or a mapping of tensors."""
        if isinstance(obs, dict):
            return {name: th.as_tensor(part, device=self.device) for name, part in obs.items()}
        return th.as_tensor(obs, device=self.device)

    def normalized_reward(self, reward: Any, discount: Any, env: VecNormalize) -> Any:
        """Rewards as a `VecNormalize` scales and clips them; sums of several steps as the sum of
        what it makes of each, as long as it clips none."""
        if discount is None or not env.norm_reward:
            return self._normalize_reward(reward, env)
        powers = self.gamma ** np.arange(self.n_steps + 1)
        steps = np.abs(discount - powers[1:]).argmin(axis=-1, keepdims=True)
        bound = env.clip_reward * powers[:-1].cumsum()[steps]
        scaled = reward / np.sqrt(env.ret_rms.var + env.epsilon)
        return np.clip(scaled, -bound, bound).astype(np.float32)

    def update_priorities(self, samples: SiblingSamples, td_errors: th.Tensor) -> None:
        """Refresh with the TD errors, target minus value, [B] or [B, 1], from before the optimizer
        step."""
        self._unrefreshed = None
        errors = td_errors.detach().cpu().numpy().reshape(-1)
        self.storage.update_priorities(samples.batch, errors)
