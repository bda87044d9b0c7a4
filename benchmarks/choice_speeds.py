"""The speed of every arm of the experiment memory-choices as a multiple of its reference's, measured in turn.

Memories are filled with random play. A first round, which does not count, fills the value buffers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from benchmarks.command_line import parser
from benchmarks.full_memory import fill
from eva.config import Config
from eva.experiments.beyond.memory_choices import CHOICES, arms
from eva.experiments.timing.alternating import microseconds_by_round
from eva.runs.loop import Training

ROUNDS, STEPS_PER_ROUND = 15, 200  # ten plans in a round with the default period


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    torch.set_num_threads(1)
    report({arm.label: arm.jobs[0].config for arm in arms()})


def report(configs: Mapping[str, Config]) -> None:
    """Print the CPU time of a transition and the speed for each configuration."""
    steps = {label: _step(config) for label, config in configs.items()}
    by_round = microseconds_by_round(steps, ROUNDS + 1, STEPS_PER_ROUND, time.process_time)
    times = {
        label: [each / configs[label].environment.num_environments for each in values[1:]]
        for label, values in by_round.items()
    }
    for choice in CHOICES:
        speed = [a / b for a, b in zip(times[choice.reference], times[choice.label], strict=True)]
        print(f"{choice.label:36} {statistics.median(times[choice.label]):8.0f} us {statistics.median(speed):6.2f}")


def _step(config: Config) -> Callable[[], object]:
    training = Training(config)
    fill(training.agent, training.environment, config.replay.replay_capacity)
    return training.steps().__next__


if __name__ == "__main__":
    main()
