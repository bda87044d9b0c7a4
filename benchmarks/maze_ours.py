"""One measurement of `maze_peers`: this package's agent in the maze, or on MinAtar, with a full memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.command_line import parser
from benchmarks.full_memory import fill
from benchmarks.maze_settings import settings
from benchmarks.step_parts import with_weight
from benchmarks.stopwatch import Stopwatch
from eva.build import build_agent, build_environment
from eva.runs.loop import interact


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("weight", type=float, help="weight of Q_NP; 0 is DQN")
    arguments.add_argument("setting", choices=list(settings()), help="a name in maze_settings.py")
    options = arguments.parse_args(argv)
    torch.set_num_threads(1)
    config = with_weight(settings()[options.setting], options.weight)
    environment = build_environment(config)
    agent = build_agent(config, environment.spec)
    fill(agent, environment, config.replay.replay_capacity)
    stopwatch = Stopwatch()
    steps = interact(agent, environment)
    while stopwatch.tick(environment.spec.num_environments):
        next(steps)
    stopwatch.report(sum(parameter.numel() for parameter in agent.learner.network.parameters()))


if __name__ == "__main__":
    main()
