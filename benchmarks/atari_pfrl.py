"""One measurement of `atari_peers`: pfrl's DQN. `atari_peers` runs it in the virtual environment of pfrl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ale_py
import gymnasium
import numpy as np
import torch
from gymnasium.wrappers import AtariPreprocessing
from torch import nn

from benchmarks.command_line import parser
from benchmarks.stopwatch import Stopwatch
from eva.config import NetworkConfig
from eva.presets import preset

if TYPE_CHECKING:
    import pfrl
    from pfrl.wrappers.atari_wrappers import LazyFrames

MEMORY, NUM_STACKED = 50_000, 4


class Stacked:
    """An Atari environment whose observations share their frames, as with pfrl's own wrappers."""

    def __init__(self, seed: int) -> None:
        self._environment: Any = AtariPreprocessing(
            gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0)
        )
        self._seed: int | None = seed
        self.num_actions = int(self._environment.action_space.n)  # type: ignore[attr-defined]
        self._frames: list[np.ndarray] = []

    def reset(self) -> LazyFrames:
        """Start an episode."""
        frame, _ = self._environment.reset(seed=self._seed)
        self._seed = None
        self._frames = [frame[None]] * NUM_STACKED
        return self._stack()

    def step(self, action: int) -> tuple[LazyFrames, float, bool, bool]:
        """Return observation, clipped reward, terminated and truncated."""
        frame, reward, terminated, truncated, _ = self._environment.step(action)
        self._frames = [*self._frames[1:], frame[None]]
        return self._stack(), float(np.sign(reward)), terminated, truncated

    def _stack(self) -> LazyFrames:
        from pfrl.wrappers.atari_wrappers import LazyFrames

        return LazyFrames(list(self._frames), stack_axis=0)


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    import pfrl  # here, so that --help works where pfrl is not installed

    torch.set_num_threads(2)
    gymnasium.register_envs(ale_py)
    config = preset("atari")
    learner, num_environments = config.learner, config.environment.num_environments
    environments = [Stacked(seed) for seed in range(num_environments)]
    num_actions = environments[0].num_actions
    network = build(config.network, num_actions)
    memory = pfrl.replay_buffers.ReplayBuffer(MEMORY)
    agent = pfrl.agents.DQN(
        network,
        torch.optim.Adam(network.parameters(), lr=learner.learning_rate),
        memory,
        learner.discount,
        pfrl.explorers.ConstantEpsilonGreedy(
            config.exploration.epsilon_end, lambda: np.random.default_rng().integers(num_actions)
        ),
        minibatch_size=learner.batch_size,
        replay_start_size=learner.batch_size,
        update_interval=num_environments,
        target_update_interval=learner.target_period_updates * num_environments,
        phi=lambda observation: np.asarray(observation, dtype=np.float32) / 255,
    )
    observations = fill(memory, environments)
    stopwatch = Stopwatch()
    while stopwatch.tick(num_environments):
        actions = agent.batch_act(observations)
        seen, rewards, terminated, truncated = zip(*map(Stacked.step, environments, actions), strict=True)
        agent.batch_observe(seen, rewards, terminated, truncated)
        observations = [
            environment.reset() if over else observation
            for environment, observation, over in zip(
                environments, seen, map(any, zip(terminated, truncated, strict=True)), strict=True
            )
        ]
    stopwatch.report(sum(parameter.numel() for parameter in network.parameters()))


def build(config: NetworkConfig, num_actions: int) -> nn.Module:
    """Return the preset's network."""
    import pfrl

    layers: list[nn.Module] = []
    depth = NUM_STACKED
    for channels, size, stride in zip(config.channels, config.filter_sizes, config.strides, strict=True):
        layers += [nn.Conv2d(depth, channels, size, stride=stride), nn.ReLU()]
        depth = channels
    layers.append(nn.Flatten())
    num_features = nn.Sequential(*layers)(torch.zeros(1, NUM_STACKED, 84, 84)).shape[1]
    layers += [nn.Linear(num_features, config.embedding_size), nn.ReLU(), nn.Linear(config.embedding_size, num_actions)]
    return nn.Sequential(*layers, pfrl.q_functions.DiscreteActionValueHead())


def fill(memory: pfrl.replay_buffers.ReplayBuffer, environments: list[Stacked]) -> list[LazyFrames]:
    """Fill the replay buffer with random play and return the environments' current observations."""
    generator = np.random.default_rng(0)
    observations = [environment.reset() for environment in environments]
    for number in range(MEMORY):
        e = number % len(environments)
        action = int(generator.integers(environments[e].num_actions))
        following, reward, terminated, truncated = environments[e].step(action)
        memory.append(observations[e], action, reward, following, is_state_terminal=terminated, env_id=e)
        observations[e] = environments[e].reset() if terminated or truncated else following
    return observations


if __name__ == "__main__":
    main()
