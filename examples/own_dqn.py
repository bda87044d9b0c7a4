"""A plain DQN on CartPole in one file. The lines marked `EVA` are all that EVA adds; it also runs without them.

    python examples/own_dqn.py --steps 20000 --weight 0.4

Weight 0 acts exactly like the script without those lines.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

import eva  # EVA

DISCOUNT = 0.99
BATCH_SIZE = 64
MEMORY_SIZE = 20_000
EMBEDDING_SIZE = 64
LEARNING_RATE = 5e-4
LEARNING_STARTS = 500
TARGET_PERIOD = 200
EPSILON_END = 0.05
EPSILON_DECAY = 5_000
REPORT_PERIOD = 1_000


class Network(nn.Module):
    """Q-values that are linear in an embedding."""

    def __init__(self, observation_size: int, num_actions: int) -> None:
        super().__init__()
        self.torso = nn.Sequential(nn.Linear(observation_size, 64), nn.ReLU(), nn.Linear(64, EMBEDDING_SIZE), nn.ReLU())
        self.head = nn.Linear(EMBEDDING_SIZE, num_actions)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return values, (B, A), and embeddings, (B, D)."""
        embeddings = self.torso(observations)
        return self.head(embeddings), embeddings


class Memory:
    """A ring buffer of transitions."""

    def __init__(self, size: int, observation_size: int) -> None:
        self.observations = np.zeros((size, observation_size), np.float32)
        self.successors = np.zeros((size, observation_size), np.float32)
        self.actions = np.zeros(size, np.int64)
        self.rewards = np.zeros(size, np.float32)
        self.discounts = np.zeros(size, np.float32)
        self.count = 0

    def add(self, observation: np.ndarray, action: int, reward: float, terminated: bool, successor: np.ndarray) -> None:
        """Store one transition; overwrite the oldest when full."""
        i = self.count % len(self.actions)
        self.observations[i], self.successors[i] = observation, successor
        self.actions[i], self.rewards[i] = action, reward
        self.discounts[i] = 0.0 if terminated else DISCOUNT
        self.count += 1

    def sample(self, generator: np.random.Generator) -> tuple[Tensor, ...]:
        """Draw a batch uniformly."""
        picks = generator.integers(min(self.count, len(self.actions)), size=BATCH_SIZE)
        columns = (self.observations, self.actions, self.rewards, self.discounts, self.successors)
        return tuple(torch.from_numpy(column[picks]) for column in columns)


def update(network: Network, target: Network, optimiser: torch.optim.Optimizer, batch: tuple[Tensor, ...]) -> None:
    """Take one step of Q-learning."""
    observations, actions, rewards, discounts, successors = batch
    with torch.no_grad():
        targets = rewards + discounts * target(successors)[0].amax(dim=1)
    values = network(observations)[0].gather(1, actions[:, None])[:, 0]
    optimiser.zero_grad()
    nn.functional.smooth_l1_loss(values, targets).backward()
    optimiser.step()


@torch.no_grad()
def infer(network: Network, observation: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return values, (1, A), and embedding, (1, D), of one observation."""
    return network(torch.from_numpy(observation)[None])


def train(arguments: argparse.Namespace) -> list[float]:
    """Train and return the returns of all episodes."""
    torch.manual_seed(arguments.seed)
    generator = np.random.default_rng(arguments.seed)
    environment = gymnasium.make("CartPole-v1")
    observation_size, num_actions = environment.observation_space.shape[0], int(environment.action_space.n)
    network = Network(observation_size, num_actions)
    target = copy.deepcopy(network)
    optimiser = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    memory = Memory(MEMORY_SIZE, observation_size)
    sizes = {"embedding_size": EMBEDDING_SIZE, "num_actions": num_actions, "memory_capacity": MEMORY_SIZE}  # EVA
    adjuster = eva.make_adjuster(network.head, discount=DISCOUNT, **sizes)  # EVA

    returns, running = [], 0.0
    observation, _ = environment.reset(seed=arguments.seed)
    for step in range(arguments.steps):
        q, h = infer(network, observation)
        q = adjuster.adjust(q, h, arguments.weight)  # EVA
        epsilon = max(EPSILON_END, 1 - (1 - EPSILON_END) * step / EPSILON_DECAY)
        explores, random_action = generator.random() < epsilon, int(generator.integers(num_actions))
        action = random_action if explores else int(q.argmax())

        successor, reward, terminated, truncated, _ = environment.step(action)
        memory.add(observation, action, float(reward), terminated, successor)
        ended = np.array([terminated]), np.array([truncated])  # EVA
        last_h = infer(network, successor)[1] if truncated else None  # EVA
        adjuster.observe(h, np.array([action]), np.array([reward]), *ended, last_h)  # EVA

        if step >= LEARNING_STARTS:
            update(network, target, optimiser, memory.sample(generator))
        if step % TARGET_PERIOD == 0:
            target.load_state_dict(network.state_dict())

        running += float(reward)
        observation = successor
        if terminated or truncated:
            returns.append(running)
            running = 0.0
            observation, _ = environment.reset()
        if (step + 1) % REPORT_PERIOD == 0 and returns:
            print(f"{step + 1:,} steps: mean return of the last 20 episodes {np.mean(returns[-20:]):.1f}")
    return returns


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="DQN on CartPole, with EVA in a few lines.")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--weight", type=float, default=0.4, help="weight of the planned values; 0 is plain DQN")
    parser.add_argument("--seed", type=int, default=0)
    return train(parser.parse_args(argv))


if __name__ == "__main__":
    main()
