"""A whole step of the Atari agent compared with the sum of its bare parts, and the adjuster's share of the step.

Bare parts: one plain PyTorch update on a prepared batch, one inference of 4 observations, 4 emulator steps. They
alternate in one process with two threads; the ratio is the median over rounds. The adjuster's share is measured inside
the step.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.atari_memory import pong
from benchmarks.command_line import parser, use_cli_thread_settings
from benchmarks.step_parts import as_input, plain_update
from eva.agent.agent import EVAAgent
from eva.agent.network import QNetwork
from eva.experiments.timing.alternating import microseconds_by_round
from eva.runs.loop import interact
from eva.types import VectorEnvironment

ROUNDS, STEPS_PER_ROUND = 25, 20  # the agent plans every 20 steps: once a round
COLUMNS = ("memory", "whole step", "update", "inference", "emulators", "ratio", "adjuster", "faults")
SIZES = (50_000, 100_000, 250_000, 500_000)


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("sizes", nargs="*", type=int, default=SIZES, help="memory sizes (default: %(default)s)")
    options = arguments.parse_args(argv)
    use_cli_thread_settings("benchmarks.atari_parts")
    torch.set_num_threads(2)
    print(" ".join(f"{column:>11}" for column in COLUMNS))
    for size in options.sizes:
        report(size)


def report(size: int) -> None:
    """Measure one memory size and print its row."""
    agent, environment = pong(0.4, size)
    clock = AdjusterClock(agent)
    steps = interact(agent, environment)
    whole = {"whole": lambda: next(steps)}
    for _ in range(STEPS_PER_ROUND):
        next(steps)
    clock.seconds, before = 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start = time.perf_counter()
    for _ in range(ROUNDS * STEPS_PER_ROUND):
        next(steps)
    share = clock.seconds / (time.perf_counter() - start)
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (ROUNDS * STEPS_PER_ROUND)
    by_round = microseconds_by_round({**whole, **bare_parts(agent, environment)}, ROUNDS, STEPS_PER_ROUND)
    times = [statistics.median(values) / 1e3 for values in by_round.values()]
    ratio = statistics.median(step / sum(parts) for step, *parts in zip(*by_round.values(), strict=True))
    cells = [f"{size:,}", *(f"{x:.1f} ms" for x in times), f"{ratio:.2f}", f"{share:.1%}", f"{faults:.0f}"]
    print(" ".join(f"{cell:>11}" for cell in cells))


def bare_parts(agent: EVAAgent, environment: VectorEnvironment) -> dict[str, Callable[[], object]]:
    batch = agent.replay.batch(agent.replay.sample(np.random.default_rng(0), 48))
    network = agent.learner.network
    assert isinstance(network, QNetwork)
    layers = nn.Sequential(*network.torso, network.head)
    observations = as_input(torch.from_numpy(environment.reset()))
    actions = np.zeros(environment.spec.num_environments, np.int64)

    @torch.no_grad()
    def inference() -> None:
        layers(observations)

    return {
        "update": plain_update(layers, batch, 1e-4, functional.huber_loss),
        "inference": inference,
        "emulators": lambda: environment.step(actions),
    }


class AdjusterClock:
    """Measure the time that an agent spends in its adjuster: reading, planning, mixing."""

    def __init__(self, agent: EVAAgent) -> None:
        self.seconds = 0.0
        for name in ("adjust", "plan"):
            setattr(agent.adjuster, name, self._timed(getattr(agent.adjuster, name)))

    def _timed(self, method: Callable[..., object]) -> Callable[..., object]:
        def timed(*arguments: object) -> object:
            start = time.perf_counter()
            result = method(*arguments)
            self.seconds += time.perf_counter() - start
            return result

        return timed


if __name__ == "__main__":
    main()
