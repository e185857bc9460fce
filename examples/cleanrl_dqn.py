"""Double DQN in one file, in CleanRL's manner. What sibling-aware replay changes in a DQN you know
is on the lines marked `# sibling-replay`; to use it in your own file, carry those over.

    pip install ".[cleanrl]"      # in a copy of the repository
    python examples/cleanrl_dqn.py --env-id FrozenLake-v1 --strategy sample
    python examples/cleanrl_dqn.py --env-id CartPole-v1 --strategy sample --key auto
    tensorboard --logdir runs
"""

import math
import time
from dataclasses import asdict, dataclass
from typing import Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn
from torch.nn import functional as F
from torch.utils.tensorboard import SummaryWriter

import sibling_replay.envs  # noqa: F401  (OutlierBandit, TwoChains, FrozenLakeH100: the paper's)
from sibling_replay import (  # sibling-replay
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Uniform,
)
from sibling_replay.grouping import parse_key  # sibling-replay

STRATEGIES = {  # sibling-replay
    "uniform": Uniform,
    "per": Prioritized,
    "sample": SiblingSample,
    "model": SiblingModel,
    "average": SiblingAverage,
}


@dataclass
class Args:
    env_id: str = "FrozenLake-v1"
    """a Gymnasium id with discrete actions and discrete or array observations"""
    seed: int = 1
    """of everything random"""
    total_timesteps: int = 50_000
    """environment steps, of all environments together"""
    num_envs: int = 1
    """environments stepped side by side"""
    learning_rate: float = 1e-3
    """of Adam"""
    buffer_size: int = 10_000
    """transitions kept"""
    gamma: float = 0.99
    """discount"""
    batch_size: int = 32
    """transitions an update"""
    learning_starts: int = 1_000
    """environment steps before the first update"""
    train_frequency: int = 1
    """environment steps between updates"""
    target_network_frequency: int = 500
    """environment steps between copies to the target network"""
    start_e: float = 1.0
    """exploration at the start"""
    end_e: float = 0.05
    """exploration at the end"""
    exploration_fraction: float = 0.5
    """of the run, over which exploration falls"""
    strategy: Literal["uniform", "per", "sample", "model", "average"] = "sample"
    """what to replay"""
    key: str | None = None
    """what makes siblings: by default equal observations; where these hardly ever repeat, auto,
    grid:4, simhash:12 or kmeans:256"""
    alpha: float = 0.6
    """priority exponent"""
    beta: float = 0.4
    """importance exponent at the start; it rises to 1"""
    cuda: bool = True
    """use a GPU if there is one"""
    print_frequency: int = 1_000
    """environment steps between lines of output"""
    log_dir: str = "runs"
    """where TensorBoard finds the run"""


class QNetwork(nn.Module):
    def __init__(self, obs_space: gym.Space, n_actions: int):
        super().__init__()
        self.n_states = getattr(obs_space, "n", None)  # discrete observations become one-hot
        n_inputs = int(self.n_states or math.prod(obs_space.shape))
        self.layers = nn.Sequential(
            nn.Linear(n_inputs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
            nn.Linear(84, n_actions),
        )  # fmt: skip

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        x = F.one_hot(obs, int(self.n_states)) if self.n_states else obs.flatten(1)
        return self.layers(x.float())


def times(interval: int, step: int, num_envs: int) -> int:
    """How many multiples of `interval` are among the environment steps of this turn of the loop."""
    return sum(t % interval == 0 for t in range(step, step + num_envs))


def linear_schedule(start: float, end: float, duration: float, t: int) -> float:
    return start + (end - start) * min(t / duration, 1.0)


if __name__ == "__main__":
    args = tyro.cli(Args)
    run_name = f"{args.env_id.replace('/', '-')}__{args.strategy}__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(f"{args.log_dir}/{run_name}")
    table = "\n".join(f"|{name}|{value}|" for name, value in asdict(args).items())
    writer.add_text("hyperparameters", f"|name|value|\n|-|-|\n{table}")

    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu")

    envs = gym.make_vec(
        args.env_id,
        num_envs=args.num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
    )
    n_actions = int(envs.single_action_space.n)
    q_network = QNetwork(envs.single_observation_space, n_actions).to(device)
    target_network = QNetwork(envs.single_observation_space, n_actions).to(device)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate)

    rb = ReplayBuffer.for_env(  # sibling-replay
        envs,
        args.buffer_size,
        STRATEGIES[args.strategy](alpha=args.alpha),
        key=parse_key(args.key) if args.key else "default",
        seed=args.seed,
    )

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(array, device=device)

    start_time = last_time = time.time()
    episodic_return = np.zeros(args.num_envs)
    returns: list[float] = []  # of the episodes that ended since the last line of output
    obs, _ = envs.reset(seed=args.seed)
    for step in range(0, args.total_timesteps, args.num_envs):
        # Act.
        epsilon = linear_schedule(
            args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, step
        )
        with torch.no_grad():
            actions = q_network(tensor(obs)).argmax(dim=1).cpu().numpy()
        explore = rng.random(args.num_envs) < epsilon
        actions[explore] = rng.integers(0, n_actions, explore.sum())
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)

        # Log the episodes that ended.
        episodic_return += rewards
        for i in np.flatnonzero(terminations | truncations):
            writer.add_scalar("charts/episodic_return", episodic_return[i], step)
            returns.append(episodic_return[i])
            episodic_return[i] = 0.0
        if step > 0 and times(args.print_frequency, step, args.num_envs):
            mean = f"{np.mean(returns):.3f} (mean of {len(returns)})" if returns else "none ended"
            sps = args.print_frequency / (time.time() - last_time)
            print(f"global_step={step}, episodic_return={mean}, SPS={sps:.0f}", flush=True)
            last_time, returns = time.time(), []

        # Store. Of an environment that was reset, the next observation is the one before that.
        real_next_obs = next_obs.copy()
        for i in np.flatnonzero(infos.get("_final_obs", [])):
            real_next_obs[i] = infos["final_obs"][i]
        rb.extend(obs, actions, rewards, real_next_obs, terminations, truncations)  # sibling-replay
        obs = next_obs

        # Learn.
        updates = times(args.train_frequency, step, args.num_envs)
        for _ in range(updates if step >= args.learning_starts else 0):
            beta = linear_schedule(args.beta, 1.0, args.total_timesteps, step)  # sibling-replay
            batch = rb.sample(args.batch_size, beta)  # sibling-replay
            found = batch.outcomes  # sibling-replay: a row each, or several to be averaged
            with torch.no_grad():
                best = q_network(tensor(found.next_obs)).argmax(dim=1, keepdim=True)
                value = target_network(tensor(found.next_obs)).gather(1, best).squeeze(1)
                target = tensor(found.reward) + args.gamma * value * ~tensor(found.terminated)
                target = batch.average(target)  # sibling-replay
            old_value = q_network(tensor(batch.obs)).gather(1, tensor(batch.action)[:, None])[:, 0]
            td_error = target - old_value
            rb.update_priorities(batch, td_error.detach().cpu().numpy())  # sibling-replay
            loss = (tensor(batch.weights) * td_error**2).mean()  # sibling-replay
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q_network.parameters(), 10.0)
            optimizer.step()

        if updates and step >= args.learning_starts and times(100, step, args.num_envs):
            ess = batch.weights.sum() ** 2 / (batch.weights @ batch.weights)
            writer.add_scalar("replay/ess", ess, step)  # sibling-replay
            writer.add_scalar("replay/beta", beta, step)  # sibling-replay
            for name, value in rb.draw_statistics().items():  # sibling-replay
                writer.add_scalar(f"replay/{name}", value, step)
            writer.add_scalar("losses/td_loss", loss.item(), step)
            writer.add_scalar("losses/q_values", old_value.mean().item(), step)
            writer.add_scalar("charts/SPS", step / (time.time() - start_time), step)

        if times(args.target_network_frequency, step, args.num_envs):
            target_network.load_state_dict(q_network.state_dict())

    envs.close()
    writer.close()
