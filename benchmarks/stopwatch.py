"""What a measuring process of `maze_peers` reports. It imports nothing, so that every peer can."""

from __future__ import annotations

import json
import time

WARM_UP, TIMED = 300, 1_500


class Stopwatch:
    """Counts transitions; times those after the warm-up."""

    def __init__(self) -> None:
        self._count = 0
        self._start = (0.0, 0.0)

    def tick(self) -> None:
        """Count one transition; the clocks start with the last of the warm-up."""
        self._count += 1
        if self._count == WARM_UP:
            self._start = time.perf_counter(), time.process_time()

    def report(self, num_parameters: int) -> None:
        """Print the speed of the transitions since."""
        timed = self._count - WARM_UP
        wall, cpu = time.perf_counter() - self._start[0], time.process_time() - self._start[1]
        print(json.dumps({"per_second": timed / wall, "per_cpu_second": timed / cpu, "parameters": num_parameters}))
