"""One measurement of `atari_peers`: our agent. Arguments: weight, the capacity of its memory, how it keeps frames."""

from __future__ import annotations

import sys

import torch

from benchmarks.atari_memory import pong
from benchmarks.stopwatch import Stopwatch
from benchmarks.waiting import as_in_the_command_line
from eva.runs.loop import interact


def main() -> None:
    torch.set_num_threads(2)
    agent, environment = pong(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    stopwatch = Stopwatch()
    steps = interact(agent, environment)
    while stopwatch.tick(environment.spec.num_environments):
        next(steps)
    stopwatch.report(sum(parameter.numel() for parameter in agent.learner.network.parameters()))


if __name__ == "__main__":
    as_in_the_command_line("benchmarks.atari_ours")
    main()
