"""One whole step of the Atari agent against the sum of its bare parts, and the share of the adjuster in it.

Bare parts: one update of a ready batch as plain PyTorch does it, one inference of 4 observations, 4 emulator steps.
Everything alternates in one process with two threads; the ratio is the median of each round's. The adjuster's share is
measured inside the whole step.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.atari_memory import pong
from benchmarks.step_parts import as_input, plain_update
from benchmarks.waiting import as_in_the_command_line
from eva.agent.agent import EVAAgent
from eva.runs.loop import interact
from eva.timing.alternating import microseconds_by_round
from eva.types import VectorEnvironment

ROUNDS, STEPS_PER_ROUND = 25, 20  # of a plan every 20 steps, one in each round
COLUMNS = ("memory", "whole step", "update", "inference", "emulators", "ratio", "adjuster", "faults")
SIZES = (50_000, 100_000, 250_000, 500_000)


def main() -> None:
    torch.set_num_threads(2)
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    print(" ".join(f"{column:>11}" for column in COLUMNS))
    for size in sizes:
        report(size)


def report(size: int) -> None:
    """Print the figures of one size of the memory."""
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
    """Counts the time that an agent spends in its adjuster: reading, planning, mixing."""

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
    as_in_the_command_line("benchmarks.atari_parts")
    main()
