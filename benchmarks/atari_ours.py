"""One measurement of `atari_peers`: this package's agent on Pong with a full memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.atari_memory import pong
from benchmarks.command_line import parser, use_cli_thread_settings
from benchmarks.stopwatch import Stopwatch
from eva.runs.loop import interact


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("weight", type=float, help="weight of Q_NP; 0 is DQN")
    arguments.add_argument("replay_capacity", type=int, help="transitions in the replay memory")
    arguments.add_argument("frames", choices=["raw", "compressed"], help="how the memory stores frames")
    arguments.add_argument("precision", choices=["float32", "bfloat16"], help="of the layers in an update")
    options = arguments.parse_args(argv)
    use_cli_thread_settings("benchmarks.atari_ours")
    torch.set_num_threads(2)
    agent, environment = pong(options.weight, options.replay_capacity, options.frames, options.precision)
    stopwatch = Stopwatch()
    steps = interact(agent, environment)
    while stopwatch.tick(environment.spec.num_environments):
        next(steps)
    stopwatch.report(sum(parameter.numel() for parameter in agent.learner.network.parameters()))


if __name__ == "__main__":
    main()
