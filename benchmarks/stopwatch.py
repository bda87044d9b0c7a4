"""What a measuring process reports to `peers`. It imports only the standard library, so that every peer can use it."""

from __future__ import annotations

import json
import time

WARM_UP, TIMED = 300, 1_500


class Stopwatch:
    """Count transitions and time those after the warm-up."""

    def __init__(self) -> None:
        self._count = 0
        self._start: tuple[int, float, float] | None = None

    def tick(self, transitions: int = 1) -> bool:
        """Count transitions; return whether more are needed. The clocks start when the warm-up ends."""
        self._count += transitions
        if self._start is None and self._count >= WARM_UP:
            self._start = self._count, time.perf_counter(), time.process_time()
        return self._count < WARM_UP + TIMED

    def report(self, num_parameters: int) -> None:
        """Print the speed since the warm-up as JSON."""
        assert self._start is not None, "the warm-up is not over"
        count, wall, cpu = self._start
        timed, wall, cpu = self._count - count, time.perf_counter() - wall, time.process_time() - cpu
        print(json.dumps({"per_second": timed / wall, "per_cpu_second": timed / cpu, "parameters": num_parameters}))
