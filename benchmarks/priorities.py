"""CPU time of sampling a batch by priority and updating its priorities, compared with uniform sampling.

The memory is full, all priorities differ, and batches have 48 transitions, as in the paper. It runs in one thread, so
CPU time equals the time on an idle machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.command_line import parser
from benchmarks.medians import microseconds
from eva.agent.exploration import LinearSchedule
from eva.agent.memory.observations import WholeObservations
from eva.agent.memory.priorities import Priorities
from eva.agent.memory.replay import STEP, ReplayBuffer

SIZES = (50_000, 500_000)
BATCH_SIZE = 48
ROUNDS, REPEATS = 15, 200


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    torch.set_num_threads(1)
    for size in SIZES:
        print(f"{size:,} slots, batches of {BATCH_SIZE}, in microseconds")
        median = measured(size)
        for name, spent in median.items():
            print(f"  {name:42} {spent:6.0f}")
        print(f"  {'by priority: total':42} {sum(median.values()) - median['uniformly: sample']:6.0f}")


def measured(size: int) -> dict[str, float]:
    generator = np.random.default_rng(0)
    uniform, prioritised = full_memory(size, None), full_memory(size, priorities(size))
    slots = prioritised.sample(generator, BATCH_SIZE)
    errors = torch.from_numpy(generator.random(BATCH_SIZE, np.float32))
    tree, one = prioritised.priorities, slots[:1]
    assert tree is not None

    def sample_and_update() -> None:
        prioritised.prioritise(prioritised.sample(generator, BATCH_SIZE), errors)

    def store() -> None:
        tree.remove(one)
        tree.add(one)

    return microseconds(
        {
            "uniformly: sample": lambda: uniform.sample(generator, BATCH_SIZE),
            "by priority: sample and update priorities": sample_and_update,
            "by priority: importance weights": lambda: tree.importance_weights(slots),
            "by priority: store a transition": store,
        },
        ROUNDS,
        REPEATS,
        time.process_time,
    )


def priorities(size: int) -> Priorities:
    schedule = LinearSchedule(0.4, 1.0, 0, size)
    return Priorities(size, priority_exponent=0.6, priority_floor=1e-6, importance_exponent=schedule)


def full_memory(size: int, priorities: Priorities | None) -> ReplayBuffer:
    """Return a full memory of one environment without observations."""
    nothing = WholeObservations(0, (0,), np.dtype(np.uint8))
    memory = ReplayBuffer(size, 1, nothing, 1, 0.99, torch.device("cpu"), priorities)
    state = memory.state_dict() | {"kinds": np.full(size, STEP), "lane_counts": np.array([size])}
    if priorities is not None:
        complete = np.arange(size) < size - 1
        state["priorities"] = np.where(complete, np.random.default_rng(1).random(size) + 0.01, 0.0)
    memory.load_state_dict(state)
    return memory


if __name__ == "__main__":
    main()
