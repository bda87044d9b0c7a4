"""A whole step of the agent in the maze compared with the sum of its bare parts, alternately in one process.

The bare parts are the minimum that such an agent needs: one plain PyTorch update on a prepared batch, one inference,
one step of the maze. Each runs in its own loop, so its code and data stay in the caches, unlike in a whole step. There
is one update per transition: the untuned settings of `maze_settings.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.command_line import parser
from benchmarks.full_memory import fill
from benchmarks.maze_settings import UNTUNED, settings
from benchmarks.medians import microseconds
from eva.agent.network import QNetwork, is_channels_last
from eva.build import build_agent, build_environment
from eva.config import Config
from eva.runs.loop import interact
from eva.types import Batch

ROUNDS, STEPS_PER_ROUND = 15, 200
WHOLE = {"DQN, whole step": 0.0, "EVA, whole step": 0.4}


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    torch.set_num_threads(1)
    config = settings()[UNTUNED]
    parts = bare_parts(config)
    whole = {name: whole_step(with_weight(config, weight)) for name, weight in WHOLE.items()}
    median = microseconds({**whole, **parts}, ROUNDS, STEPS_PER_ROUND)
    for name, time in median.items():
        print(f"{name:18} {time:8.0f} us")
    bare = sum(median[name] for name in parts)
    dqn, eva = (median[name] for name in whole)
    print(f"DQN / bare parts   {dqn / bare:8.2f}")
    print(f"EVA / bare parts   {eva / bare:8.2f}")
    print(f"DQN / EVA          {dqn / eva:8.2f} of the speed of weight 0")


def with_weight(config: Config, weight: float) -> Config:
    return replace(config, eva=replace(config.eva, nonparametric_weight=weight))


def whole_step(config: Config) -> Callable[[], object]:
    """Return a function that takes one step of an agent with a full memory."""
    environment = build_environment(config)
    agent = build_agent(config, environment.spec)
    fill(agent, environment, config.replay.replay_capacity)
    steps = interact(agent, environment)
    return lambda: next(steps)


def bare_parts(config: Config) -> dict[str, Callable[[], object]]:
    environment = build_environment(config)
    agent = build_agent(config, environment.spec)
    fill(agent, environment, config.replay.replay_capacity)
    batch = agent.replay.batch(agent.replay.sample(np.random.default_rng(0), config.learner.batch_size))
    network, action = agent.learner.network, np.zeros(1, np.int64)
    observation = as_input(torch.from_numpy(environment.reset()))
    assert isinstance(network, QNetwork)
    layers = nn.Sequential(*network.torso, network.head)

    @torch.no_grad()
    def inference() -> None:
        layers(observation)

    return {
        "bare update": plain_update(layers, batch, config.learner.learning_rate),
        "bare inference": inference,
        "maze step": lambda: environment.step(action),
    }


def plain_update(
    network: nn.Module,
    batch: Batch,
    learning_rate: float,
    error: Callable[[Tensor, Tensor], Tensor] = functional.mse_loss,
) -> Callable[[], object]:
    """Return a function for one DQN update in plain PyTorch, with channels last and fused Adam."""
    target_network = copy.deepcopy(network).requires_grad_(False)
    optimiser = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)
    observations, next_observations = as_input(batch.observations), as_input(batch.next_observations)

    def update() -> None:
        with torch.no_grad():
            targets = batch.rewards + batch.discounts * target_network(next_observations).amax(dim=1)
        values = network(observations).gather(1, batch.actions[:, None])[:, 0]
        loss = error(values, targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return update


def as_input(images: Tensor) -> Tensor:
    """Return images of bytes as the network's float inputs, channels last in memory."""
    if is_channels_last(images.shape[1:]):
        images = images.permute(0, 3, 1, 2)
    return images.to(torch.float32, memory_format=torch.channels_last) / 255


if __name__ == "__main__":
    main()
