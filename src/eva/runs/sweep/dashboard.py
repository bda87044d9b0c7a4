"""The progress display of a sweep: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from eva.errors import printable
from eva.runs.record.safe_stream import unfailing
from eva.runs.sweep.jobs import Job
from eva.runs.sweep.progress import TrackedRun, as_table, summary

_SECONDS_BETWEEN_LINES = 60.0
_MAX_READING_SHARE = 0.05  # of the time: there may be a thousand run directories on a slow file system


class Dashboard:
    """Shows the progress of many runs on `stream`, by default standard error."""

    def __init__(self, title: str, jobs: Sequence[Job], stream: TextIO | None = None) -> None:
        self._title = title
        self._runs = [TrackedRun.of(job) for job in jobs]
        self.failed: set[Path] = set()  # directories of runs that count as failed
        self._console = Console(file=unfailing(stream or sys.stderr), highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next = 0.0 if self._console.is_terminal else time.monotonic() + _SECONDS_BETWEEN_LINES

    def __enter__(self) -> "Dashboard":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def refresh(self) -> None:
        """Read the run directories and show the progress, unless the last refresh was a moment ago."""
        now = time.monotonic()
        if now < self._next:
            return
        columns = summary([run.progress(run.directory in self.failed) for run in self._runs])
        if self._console.is_terminal:
            self._next = now + max(1.0, (time.monotonic() - now) / _MAX_READING_SHARE)
            self._live.update(Text(f"{self._title}\n{as_table(columns)}"), refresh=True)
        else:
            self._next = now + _SECONDS_BETWEEN_LINES
            self.print(f"{self._title}: " + ", ".join(f"{cell} {head}" for head, cell in columns if cell != "-"))

    def print(self, sentence: str) -> None:
        """Print a line."""
        self._console.print(printable(sentence), markup=False)
