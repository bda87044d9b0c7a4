"""eva runs."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from eva.cli.parsing import parse
from eva.errors import printable
from eva.runs.record.formatting import aligned


@dataclass(frozen=True)
class Runs:
    """List runs: what differs between them, their state, and the mean return of their late episodes."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="[DIR]")] = Path("runs")
    """A run directory, or a folder that contains some."""


def main(arguments: list[str]) -> None:
    """Print a table of runs."""
    asked = parse(Runs, arguments)

    from eva.report.listing import readable_runs  # imports SciPy: not for --help

    found, left_out = readable_runs(asked.directory)
    for sentence in left_out:
        print(printable(f"left out: {sentence}"))
    fields = list(found[0].differing) if found else []
    rows = [
        [
            os.path.relpath(run.path),
            *(_text(value) for value in run.differing.values()),
            run.state,
            f"{run.step:,}/{run.steps:,}",
            "-" if math.isnan(run.late_return) else f"{run.late_return:.2f}",
        ]
        for run in found
    ]
    print(printable(aligned(["run", *fields, "state", "transitions", "late return"], rows)))


def _text(value: Any) -> str:
    return "-" if value is None else str(value)
