"""One measurement of `maze_peers`: this package's agent with the weight that is the only argument."""

from __future__ import annotations

import sys

import torch

from benchmarks.step_parts import with_weight
from benchmarks.stopwatch import Stopwatch
from eva.build import build_agent, build_environment
from eva.presets import preset
from eva.runs.loop import interact
from eva.timing.full_memory import fill


def main() -> None:
    torch.set_num_threads(1)
    config = with_weight(preset("maze-1-coin"), float(sys.argv[1]))
    environment = build_environment(config)
    agent = build_agent(config, environment.spec)
    fill(agent, environment, config.replay.replay_capacity)
    stopwatch = Stopwatch()
    steps = interact(agent, environment)
    while stopwatch.tick():
        next(steps)
    stopwatch.report(sum(parameter.numel() for parameter in agent.learner.network.parameters()))


if __name__ == "__main__":
    main()
