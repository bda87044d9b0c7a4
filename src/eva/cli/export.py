"""eva export."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from eva.cli.parsing import parse
from eva.errors import UserError, printable


@dataclass(frozen=True)
class Export:
    """Write the records of runs for pandas, rliable and Stable-Baselines3 (docs/tracking.md)."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="[DIR]")] = Path("runs")
    """A run directory, or a folder that contains some."""
    format: Literal["csv", "parquet", "rliable", "sb3"] = "csv"
    """A table (csv, parquet), scores and learning curves (rliable, .npz), or a monitor.csv for each run (sb3)."""
    table: Literal["episodes", "metrics", "evaluations"] = "episodes"
    """Rows of a table: episodes, lines of metrics.jsonl, or the episodes of evaluations during training."""
    out: Path | None = None
    """File to write; with --format sb3 a folder."""


def main(arguments: list[str]) -> None:
    """Write a file and print its path."""
    asked = parse(Export, arguments)
    if asked.out is None:
        raise UserError("give the file to write, or the folder for the format sb3: --out PATH.")

    from eva.report.export import export  # imports SciPy: not for --help

    for sentence in export(asked.directory, asked.format, asked.out, asked.table):
        print(printable(f"left out: {sentence}"))
    print(asked.out)
