"""One whole step of the agent on the maze against the sum of its bare parts, measured alternately in one process.

The bare parts are what no agent of this kind can do without: one update of a ready batch, one inference, one step of
the maze. Each runs in a loop of its own, so its code and data stay in the caches; in a whole step nothing does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from benchmarks.alternating import microseconds
from benchmarks.memory import fill
from eva.build import build_agent, build_environment
from eva.config import Config
from eva.presets import preset
from eva.runs.loop import interact

ROUNDS, STEPS_PER_ROUND = 15, 200
WHOLE = {"DQN, whole step": 0.0, "EVA, whole step": 0.4}


def main() -> None:
    torch.set_num_threads(1)
    config = preset("maze-1-coin")
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
    """Return a step of an agent whose memory is full."""
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
    observation = torch.from_numpy(environment.reset())
    action = np.zeros(1, np.int64)

    @torch.no_grad()
    def inference() -> None:
        agent.learner.network(observation)

    return {
        "bare update": lambda: agent.learner.update(batch),
        "bare inference": inference,
        "maze step": lambda: environment.step(action),
    }


if __name__ == "__main__":
    main()
