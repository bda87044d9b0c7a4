"""What a person sees while many runs go on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from eva.runs.record.safe_stream import unfailing
from eva.runs.sweep.jobs import Job
from eva.runs.sweep.progress import Entry, as_table, look, summary

_SECONDS_BETWEEN_LINES = 60.0
_LOOKING_SHARE = 0.05  # of the time, at most: there may be a thousand run directories on a slow file system


class Board:
    """Shows how far many runs are.

    Args:
        title: What the whole is called.
        jobs: The runs.
        stream: Where to; by default standard error.
    """

    def __init__(self, title: str, jobs: Sequence[Job], stream: TextIO | None = None) -> None:
        self._title = title
        self._entries = [Entry.of(job) for job in jobs]
        self._failed: set[Path] = set()
        self._console = Console(file=unfailing(stream or sys.stderr), highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next = 0.0
        self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES

    def __enter__(self) -> Board:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self) -> None:
        """Look at the run directories, once a second or less often."""
        now = time.monotonic()
        if now < (self._next if self._console.is_terminal else self._next_line):
            return
        columns = summary(look(self._entries, self._failed))
        took = time.monotonic() - now
        self._next, self._next_line = now + max(1.0, took / _LOOKING_SHARE), now + _SECONDS_BETWEEN_LINES
        if self._console.is_terminal:
            self._live.update(Text(f"{self._title}\n{as_table(columns)}"), refresh=True)
        else:
            self.say(f"{self._title}: " + ", ".join(f"{cell} {head}" for head, cell in columns if cell != "-"))

    def fail(self, job: Job) -> None:
        """Count a job as failed for good."""
        self._failed.add(job.directory)

    def say(self, sentence: str) -> None:
        """Print a line."""
        self._console.print(sentence, markup=False)
