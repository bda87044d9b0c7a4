"""Progress of a run: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from eva.runs.record.formatting import duration

_SECONDS_BETWEEN_LINES = 10.0


class Display:
    """Show the progress of a run of `steps` transitions; a terminal gets a progress bar."""

    def __init__(self, title: str, steps: int, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._title = title
        self._steps = steps
        self._last_line = time.monotonic()
        self._next_advance = 0.0
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[summary]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=steps, summary="")

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, step: int) -> None:
        """Update the bar at most ten times a second, so that it can be called every step."""
        if self._console.is_terminal and time.monotonic() > self._next_advance:
            self._next_advance = time.monotonic() + 0.1
            self._bar.update(self._task, completed=step)

    def show(self, metrics: Mapping[str, float | None], steps_per_second: float) -> None:
        """Show the newest metrics."""
        step = int(metrics["step"] or 0)
        summary = summarise(metrics, steps_per_second)
        self._bar.update(self._task, completed=step, summary=summary)
        now = time.monotonic()
        is_due = now - self._last_line > _SECONDS_BETWEEN_LINES or step >= self._steps
        if not self._console.is_terminal and is_due:
            self._last_line = now
            left = duration(max(0, self._steps - step) / steps_per_second)
            self.print(f"{self._title}: {step:,}/{self._steps:,}  {left} left  {summary}")

    def print(self, sentence: str) -> None:
        """Print a line."""
        self._console.print(sentence, markup=False)


def summarise(metrics: Mapping[str, float | None], steps_per_second: float) -> str:
    """Return one line: speed, recent return, epsilon, share of greedy actions that EVA changed."""
    forms = {"episode_return": "return {:.2f}", "epsilon": "epsilon {:.2f}", "changed_share": "EVA changed {:.0%}"}
    known = [form.format(metrics[name]) for name, form in forms.items() if metrics.get(name) is not None]
    return "  ".join([f"{steps_per_second:.0f} steps/s", *known])
