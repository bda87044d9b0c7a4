"""EVA in one file: the agent of the paper in its coin maze, with nothing but torch and NumPy.

    python examples/eva_single_file.py               # EVA, two coins; about ten minutes
    python examples/eva_single_file.py --weight 0    # DQN

Read it beside "Fast deep reinforcement learning using online adjustments from the past" (Hansen et al., 2018): the
numbers of equations and algorithms are the paper's. A test compares it with the library: `eva train maze-2-coins` with
the same seed makes the same decisions and learns the same weights, bit for bit, if both compute by autograd: the
library's own passes of small networks are faster and round differently. What only the library has: records, checkpoints
and resuming, several environments, faster search, other environments, trace computations and learners.
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Settings:
    """All hyper-parameters. Those of EVA are the paper's; the learner's were tuned at weight 0."""

    seed: int = 0
    transitions: int = 180_000
    # EVA
    weight: float = 0.4  # of Q_NP in Eq. 1, so that 0 is DQN
    num_trajectories: int = 10  # M, retrieved for each plan
    trajectory_length: int = 50  # T
    plan_period: int = 20  # steps between plans
    num_neighbours: int = 5  # k, averaged for a decision
    value_buffer_capacity: int = 2_000
    # DQN
    memory_capacity: int = 50_000
    learning_starts: int = 1_000  # transitions; also when EVA starts
    discount: float = 0.9
    batch_size: int = 48
    learning_rate: float = 5e-4
    target_period: int = 500  # updates
    epsilon_end: float = 0.1
    epsilon_decay: int = 40_000  # transitions
    # The maze
    num_coins: int = 2
    max_episode_steps: int = 500

    def epsilon(self, t: int) -> float:
        """Return the probability of a random action after t transitions."""
        decayed = 1.0 + (self.epsilon_end - 1.0) * t / self.epsilon_decay
        return decayed if t < self.epsilon_decay else self.epsilon_end


# ---------------------------------------------------------------------------------------------------------------------
# The maze of Section 5.1. The paper's walls are not published; these give its number of states.

MAP = (
    ".............",
    "..#.......#..",
    "..#.......#..",
    "..#.......#..",
    ".............",
)
AGENT, COIN, WALL, FLOOR = (0, 255, 255), (255, 255, 0), (128, 0, 128), (0, 0, 0)
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # (row, column): left, right, up, down


class Maze:
    """Collect all coins in the fewest steps: each coin is worth 1, each step -0.01."""

    def __init__(self, num_coins: int, max_steps: int, generator: np.random.Generator) -> None:
        self.walls = np.pad(np.array([[cell == "#" for cell in row] for row in MAP]), 1, constant_values=True)
        self.floor = np.argwhere(~self.walls)
        self.num_coins, self.max_steps, self.generator = num_coins, max_steps, generator

    def reset(self) -> np.ndarray:
        """Place agent and coins on random cells; return the first image."""
        cells = self.generator.permuted(np.arange(len(self.floor)))[: 1 + self.num_coins]
        agent, *coins = (tuple(position) for position in self.floor[cells])
        self.agent, self.coins, self.num_steps = agent, set(coins), 0
        return self.draw()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        """Move; return the image, the reward, and whether the episode terminated or was truncated."""
        target = (self.agent[0] + MOVES[action][0], self.agent[1] + MOVES[action][1])
        self.agent = self.agent if self.walls[target] else target
        reward = (1.0 if self.agent in self.coins else 0.0) - 0.01
        self.coins.discard(self.agent)
        self.num_steps += 1
        terminated = not self.coins
        return self.draw(), reward, terminated, self.num_steps >= self.max_steps and not terminated

    def draw(self) -> np.ndarray:
        """Return an RGB image with one pixel for each cell."""
        image = np.where(self.walls[..., None], WALL, FLOOR).astype(np.uint8)
        for coin in self.coins:
            image[coin] = COIN
        image[self.agent] = AGENT
        return image


# ---------------------------------------------------------------------------------------------------------------------
# The slow system: DQN (Section 2).


class Network(nn.Module):
    """Q_theta(s, .) = W h(s) + b: two convolutions, and the embedding h of 64 units that EVA compares states by."""

    def __init__(self, image_shape: tuple[int, ...], num_actions: int, generator: np.random.Generator) -> None:
        super().__init__()
        height, width, depth = image_shape
        self.conv1 = nn.Conv2d(depth, 16, kernel_size=3)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, stride=2)
        self.embed = nn.Linear(32 * ((height - 5) // 2 + 1) * ((width - 5) // 2 + 1), 64)
        self.head = nn.Linear(64, num_actions)
        for layer in self.children():
            bound = 1 / math.sqrt(layer.weight[0].numel())
            for parameter in layer.parameters():
                drawn = generator.uniform(-bound, bound, tuple(parameter.shape))
                parameter.data.copy_(torch.from_numpy(drawn))
        self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return Q_theta, (B, A), and the embeddings h, (B, D), of images of bytes, (B, height, width, 3)."""
        x = images.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.channels_last)
        x = functional.conv2d(x, self.conv1.weight / 255, self.conv1.bias).relu()  # cheaper than to scale the pixels
        x = self.conv2(x).relu()
        h = self.embed(x.flatten(start_dim=1)).relu()
        return self.head(h), h

    @torch.no_grad()
    def infer(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Q_theta, (A,), and h, (D,), of one image."""
        q_theta, h = self(torch.from_numpy(image)[None])
        return q_theta[0].numpy(), h[0].numpy()


class Learner:
    """Minimise the Huber error between Q_theta(s, a) and y = r + gamma max_a' Q~(s', a')."""

    def __init__(self, network: Network, settings: Settings) -> None:
        self.network = network
        self.target_network = copy.deepcopy(network).requires_grad_(False)  # Q~
        self.optimiser = torch.optim.Adam(network.parameters(), settings.learning_rate, fused=True)
        self.target_period = settings.target_period
        self.num_updates = 0

    def update(self, states: Tensor, actions: Tensor, rewards: Tensor, discounts: Tensor, next_states: Tensor) -> None:
        """Take one step of Adam. A termination has discount 0."""
        targets = rewards + discounts * self.target_network(next_states)[0].amax(dim=1)
        q = self.network(states)[0].gather(1, actions[:, None])[:, 0]
        self.optimiser.zero_grad()
        q.backward((q.detach() - targets).clamp(-1, 1) / len(q))  # the derivative of the mean Huber error
        self.optimiser.step()
        self.num_updates += 1
        if self.num_updates % self.target_period == 0:
            self.target_network.load_state_dict(self.network.state_dict())


# ---------------------------------------------------------------------------------------------------------------------
# The two memories: the replay buffer D and the value buffer L.


def nearest(keys: np.ndarray, query: np.ndarray, k: int, ages: np.ndarray) -> np.ndarray:
    """Return the indices of the k keys, (N, D), that are nearest to a query, (D,), nearest first; ties newest first."""
    squared_distances = np.square(keys.astype(np.float64) - query).sum(axis=1)
    return np.lexsort((ages, squared_distances))[:k]


class ReplayBuffer:
    """D: a ring of (s_t, a_t, r_t+1, h_t) in order of time, so that the next slot holds the next state.

    A transition is complete, so that it can be sampled and found, once its successor is stored or it has terminated. A
    truncated episode stores its last state too, which is never complete and only bootstrapped from.
    """

    def __init__(self, capacity: int, image_shape: tuple[int, ...], embedding_size: int) -> None:
        self.images = np.zeros((capacity, *image_shape), np.uint8)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.discounts = np.zeros(capacity, np.float32)
        self.embeddings = np.zeros((capacity, embedding_size), np.float32)
        self.complete = np.zeros(capacity, np.bool_)
        self.capacity, self.count = capacity, 0
        self.is_running = False  # whether the newest state's successor comes next

    def append(self, image: np.ndarray, h: np.ndarray, action: int, reward: float, discount: float) -> None:
        """Store one transition; one that terminates its episode has discount 0."""
        slot = self._store(image, h)
        self.actions[slot], self.rewards[slot], self.discounts[slot] = action, reward, discount
        self.complete[slot] = discount == 0
        self.is_running = discount > 0

    def close(self, image: np.ndarray, h: np.ndarray) -> None:
        """Store the last state of a truncated episode."""
        self.complete[self._store(image, h)] = False
        self.is_running = False

    def _store(self, image: np.ndarray, h: np.ndarray) -> int:
        if self.is_running:
            self.complete[(self.count - 1) % self.capacity] = True
        slot = self.count % self.capacity
        self.images[slot], self.embeddings[slot] = image, h
        self.count += 1
        return slot

    def sample(self, generator: np.random.Generator, batch_size: int) -> list[Tensor]:
        """Draw complete transitions uniformly: states, actions, rewards, discounts, next states."""
        slots = np.empty(0, np.int64)
        while len(slots) < batch_size:
            drawn = generator.integers(min(self.count, self.capacity), size=batch_size - len(slots))
            slots = np.concatenate([slots, drawn[self.complete[drawn]]])
        next_images = self.images[(slots + 1) % self.capacity]  # of a termination any: its discount is 0
        columns = (self.images[slots], self.actions[slots], self.rewards[slots], self.discounts[slots], next_images)
        return [torch.from_numpy(column) for column in columns]

    def search(self, h: np.ndarray, k: int) -> np.ndarray:
        """Return the slots of the k complete transitions whose embeddings are nearest: KNN(h(s_t), D)."""
        (slots,) = self.complete.nonzero()
        return slots[nearest(self.embeddings[slots], h, k, ages=(self.count - 1 - slots) % self.capacity)]

    def trajectory(self, start: int, length: int) -> list[int]:
        """Return the slots of up to T = `length` transitions from `start`, and of the state that follows the last.

        It ends with the episode, or at the newest slot. After a termination comes no state: any slot stands there.
        """
        slots = [start]
        while len(slots) <= length and self.complete[slots[-1]]:
            slots.append((slots[-1] + 1) % self.capacity)
            if self.discounts[slots[-2]] == 0:
                break
        return slots


class ValueBuffer:
    """L: a ring of (h, Q_NP), the values planned last."""

    def __init__(self, capacity: int, embedding_size: int, num_actions: int) -> None:
        self.keys = np.zeros((capacity, embedding_size), np.float32)
        self.values = np.zeros((capacity, num_actions), np.float32)
        self.capacity, self.count = capacity, 0

    def append(self, h: np.ndarray, q_np: np.ndarray) -> None:
        """Append entries, (n, D) and (n, A), in order, overwriting the oldest."""
        places = np.arange(self.count, self.count + len(h)) % self.capacity
        self.keys[places], self.values[places] = h, q_np
        self.count += len(h)

    def read(self, h: np.ndarray, k: int) -> np.ndarray | None:
        """Return the mean of the k nearest entries, (A,): the sum of Algorithm 1. None if there are fewer."""
        size = min(self.count, self.capacity)
        if size < k:
            return None
        ages = (self.count - 1 - np.arange(size)) % self.capacity
        return self.values[nearest(self.keys[:size], h, k, ages)].sum(axis=0) / k


# ---------------------------------------------------------------------------------------------------------------------
# The fast system: planning over memories (Section 3).


def trajectory_centric_planning(
    actions: np.ndarray, rewards: np.ndarray, discounts: np.ndarray, q_theta: np.ndarray
) -> np.ndarray:
    """Return Q_NP, (n, A), of the states along n transitions, given Q_theta of all n + 1 states (Algorithm 3)."""
    q_np = q_theta[:-1].copy()  # Eq. 4 for the actions that were not taken
    v_np = q_theta[-1].max()  # Eq. 5, t = T
    for t in reversed(range(len(actions))):
        q_np[t, actions[t]] = rewards[t] + discounts[t] * v_np  # Eq. 4 for the action taken
        v_np = q_np[t].max()  # Eq. 5, otherwise
    return q_np


@torch.no_grad()
def plan(h: np.ndarray, memory: ReplayBuffer, values: ValueBuffer, head: nn.Linear, settings: Settings) -> None:
    """Retrieve trajectories T_m from D that start near h, plan along them, and append (h, Q_NP) to L (Algorithm 1)."""
    starts = memory.search(h, settings.num_trajectories)
    trajectories = [memory.trajectory(int(start), settings.trajectory_length) for start in starts]
    num_states = settings.trajectory_length + 1
    # Padded on the left, so that one product of always the same size evaluates all states.
    padded = np.array([[slots[0]] * (num_states - len(slots)) + slots for slots in trajectories])
    stored_h = torch.from_numpy(memory.embeddings[padded.ravel()])  # computed when the states were seen
    q_theta = head(stored_h).numpy().reshape(*padded.shape, -1)
    for slots, q in zip(trajectories, q_theta, strict=True):
        acted = slots[:-1]
        trace = (memory.actions[acted], memory.rewards[acted], memory.discounts[acted])
        values.append(memory.embeddings[acted], trajectory_centric_planning(*trace, q[-len(slots) :]))


# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What a run ends with."""

    network: Network
    values: ValueBuffer
    actions: list[int] = field(default_factory=list)  # of every step
    returns: list[float] = field(default_factory=list)  # of every episode


def train(settings: Settings) -> Run:
    """Train from scratch: Algorithm 1."""
    torch.set_num_threads(1)
    seeds = np.random.SeedSequence(settings.seed).spawn(4)
    maze_rng, network_rng, exploration_rng, sampling_rng = (np.random.default_rng(seed) for seed in seeds)
    maze = Maze(settings.num_coins, settings.max_episode_steps, maze_rng)
    state = maze.reset()
    network = Network(state.shape, len(MOVES), network_rng)
    learner = Learner(network, settings)
    memory = ReplayBuffer(settings.memory_capacity, state.shape, network.head.in_features)
    values = ValueBuffer(settings.value_buffer_capacity, network.head.in_features, len(MOVES))
    run, episode_return, w = Run(network, values), 0.0, settings.weight

    for t in range(settings.transitions):
        # Adjust the values, and act.
        q_theta, h = network.infer(state)
        is_adjusting = w > 0 and t >= settings.learning_starts
        q_np = values.read(h, settings.num_neighbours) if is_adjusting else None
        q_eva = q_theta if q_np is None else (1 - w) * q_theta + w * q_np  # Eq. 1; dropped after this decision
        explores, random_action = exploration_rng.random() < settings.epsilon(t), exploration_rng.integers(len(MOVES))
        action = int(random_action if explores else q_eva.argmax())
        next_state, reward, terminated, truncated = maze.step(action)

        # Plan, before this state is stored: it must not find itself.
        if is_adjusting and (t - settings.learning_starts) % settings.plan_period == 0:
            plan(h, memory, values, network.head, settings)

        # Store the transition, and learn.
        memory.append(state, h, action, reward, 0.0 if terminated else settings.discount)
        if truncated:
            memory.close(next_state, network.infer(next_state)[1])
        if t + 1 >= settings.learning_starts:
            learner.update(*memory.sample(sampling_rng, settings.batch_size))

        run.actions.append(action)
        episode_return += reward
        state = next_state
        if terminated or truncated:
            run.returns.append(episode_return)
            state, episode_return = maze.reset(), 0.0
        if (t + 1) % 1_000 == 0 and run.returns:
            print(f"{t + 1:,} transitions: mean return of the last 20 episodes {np.mean(run.returns[-20:]):.2f}")
    return run


def main(argv: Sequence[str] | None = None) -> Run:
    """Read the settings from the command line, and train."""
    parser = argparse.ArgumentParser(description="EVA in one file; the fields of Settings are flags.")
    for each in fields(Settings):
        flag = f"--{each.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(each.default), default=each.default, metavar="N", help=f"{each.default}")
    return train(Settings(**vars(parser.parse_args(argv))))


if __name__ == "__main__":
    main()
