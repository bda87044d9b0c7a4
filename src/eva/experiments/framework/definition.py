"""What an experiment is: its claims, what is run, and how that is judged."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from eva.runs.sweep.jobs import Job

if TYPE_CHECKING:
    from eva.experiments.framework.evidence import Evidence

Verdict = Literal["holds", "holds in part", "does not hold", "undecided", "not judged"]


OURS = "ours"
"""Where a claim stands that is not in the paper."""


@dataclass(frozen=True)
class Claim:
    """What the paper says.

    Attributes:
        where: In the paper, or OURS.
        text: One sentence, in the paper's own words where possible.
        rule: When it holds, and when in part.
    """

    where: str
    text: str
    rule: str


@dataclass(frozen=True)
class Finding:
    """What became of a claim.

    Attributes:
        measured: The numbers that decide, with their intervals.
        certainty: What these are taken over.
    """

    verdict: Verdict
    measured: str
    certainty: str


@dataclass(frozen=True)
class Table:
    """Numbers for a page; the first column is the rows' header."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.heads) for row in self.rows):
            raise ValueError(f"a row is not as long as the heads {self.heads}")


@dataclass(frozen=True)
class Judgement:
    """What the runs of an experiment show.

    Attributes:
        outcome: One sentence on the whole.
        findings: One for each claim.
        tables: For the page.
        figures: The page's, by file name without suffix: SVG and PNG.
        numbers: Everything that was measured, as plain JSON types.
        lessons: What a practitioner should know of it: sentences with the numbers that decide.
    """

    outcome: str
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...]
    figures: Mapping[str, tuple[bytes, bytes]]
    numbers: Mapping[str, Any]
    lessons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arm:
    """Runs that differ in nothing but the seed.

    Attributes:
        task: Where they play; arms of one task are compared.
        label: What tells the arm from the others of its task.
        jobs: One for each seed. Their directories are relative to that of all runs; runs that several experiments
            share have the same directory in each.
    """

    task: str
    label: str
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class Experiment:
    """A figure or a paragraph of the paper.

    Attributes:
        name: On the command line, and of the folder of its results.
        title: One line.
        claims: What is put to the test.
        arms: What is run: a function of the experiment only.
        judge: How it is judged.
        remarks: What a reader should know besides; a reason that was not tested says so.
        measure: What is measured besides the runs, once, on the machine that asks first: plain JSON types. The
            argument asks for the quick form.
        by_name_only: It would take so long that it is never run along with all the others.
        arguments: Of `eva experiment`, if its name is not all.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    arms: Callable[[], tuple[Arm, ...]]
    judge: Callable[[Evidence], Judgement]
    remarks: tuple[str, ...] = ()
    measure: Callable[[bool], dict[str, Any]] | None = None
    by_name_only: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """What is typed to run it."""
        return ("eva", "experiment", *(self.arguments or (self.name,)))


def jobs_of(arms: Sequence[Arm]) -> list[Job]:
    """Return all jobs, seed by seed: what is there when work stops midway can be compared."""
    rounds = itertools.zip_longest(*(arm.jobs for arm in arms))
    return [job for each in rounds for job in each if job is not None]
