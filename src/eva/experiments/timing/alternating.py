"""Measure several things in turn, so that other load on the machine affects all of them alike."""

import time
from collections.abc import Callable, Mapping

Calls = Mapping[str, Callable[[], object]]
Clock = Callable[[], float]


def microseconds_by_round(
    calls: Calls, rounds: int, repeats: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Return the time of one call of each in each round: the mean of its `repeats` calls."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, once in calls.items():
            start = clock()
            for _ in range(repeats):
                once()
            times[name].append((clock() - start) / repeats * 1e6)
    return times
