"""Median times of things that are measured in turn."""

from __future__ import annotations

import statistics
import time

from eva.experiments.timing.alternating import Calls, Clock, microseconds_by_round


def microseconds(calls: Calls, rounds: int, repeats: int, clock: Clock = time.perf_counter) -> dict[str, float]:
    """Return the median time of one call of each, over `rounds` in which each is called `repeats` times."""
    by_round = microseconds_by_round(calls, rounds, repeats, clock)
    return {name: statistics.median(values) for name, values in by_round.items()}
