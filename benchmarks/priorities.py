"""What it costs to draw a batch by priority and to take its errors back, beside drawing it uniformly.

The memory is full and its priorities are all different; batches are of 48, as the paper's. All of it runs in one
thread, so that the processor's time is what it takes on a machine of its own.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from eva.agent.exploration import LinearSchedule
from eva.agent.memory.observations import WholeObservations
from eva.agent.memory.priorities import Priorities
from eva.agent.memory.replay import STEP, ReplayBuffer
from eva.timing.alternating import microseconds

SIZES = (50_000, 500_000)
BATCH_SIZE = 48
ROUNDS, REPEATS = 15, 200


def main() -> None:
    torch.set_num_threads(1)
    for size in SIZES:
        print(f"{size:,} slots, batches of {BATCH_SIZE}, in microseconds")
        median = measured(size)
        for name, spent in median.items():
            print(f"  {name:42} {spent:6.0f}")
        print(f"  {'by priority, in all':42} {sum(median.values()) - median['uniformly: draw']:6.0f}")


def measured(size: int) -> dict[str, float]:
    generator = np.random.default_rng(0)
    uniform, prioritised = full_memory(size, None), full_memory(size, priorities(size))
    slots = prioritised.sample(generator, BATCH_SIZE)
    errors = torch.from_numpy(generator.random(BATCH_SIZE, np.float32))
    tree, one = prioritised.priorities, slots[:1]
    assert tree is not None

    def draw_and_take_back() -> None:
        prioritised.prioritise(prioritised.sample(generator, BATCH_SIZE), errors)

    def store() -> None:
        tree.remove(one)
        tree.add(one)

    return microseconds(
        {
            "uniformly: draw": lambda: uniform.sample(generator, BATCH_SIZE),
            "by priority: draw, and take errors back": draw_and_take_back,
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
    """Return a memory of one environment, without observations."""
    nothing = WholeObservations(0, (0,), np.dtype(np.uint8))
    memory = ReplayBuffer(size, 1, nothing, 1, 0.99, torch.device("cpu"), priorities)
    state = memory.get_state() | {"kinds": np.full(size, STEP), "lane_counts": np.array([size])}
    if priorities is not None:
        complete = np.arange(size) < size - 1
        state["priorities"] = np.where(complete, np.random.default_rng(1).random(size) + 0.01, 0.0)
    memory.set_state(state)
    return memory


if __name__ == "__main__":
    main()
