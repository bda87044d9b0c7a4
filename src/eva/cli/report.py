"""eva report."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from eva.cli.parsing import parse
from eva.errors import printable


@dataclass(frozen=True)
class Report:
    """Compare runs on one self-contained page, report.html, with its figure as report.png."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, or folders that contain some."""
    out: Path | None = None
    """Folder of the report, or the name of its page, ending in .html, with the figure beside it; by default report.html
    in the given folder, or in the common parent of several."""


def main(arguments: list[str]) -> None:
    """Write a report and print its comparisons."""
    asked = parse(Report, arguments)

    from eva.report.pages import write_report  # imports matplotlib: not for --help

    result = write_report(asked.runs, asked.out)
    for sentence in result.left_out:
        print(printable(f"left out: {sentence}"))
    print(printable(result.comparisons))
    print(result.html)
