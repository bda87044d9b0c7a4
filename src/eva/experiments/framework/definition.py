"""What an experiment is: arms (configurations x seeds) and claims, as data."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import FINAL_RETURN, MEAN_RETURN, Measure
from eva.report.plots import Drawing, LearningCurves
from eva.report.statistics import Estimate
from eva.runs.sweep.jobs import Job

Expected = Literal["better", "worse", "no worse"]
Figures = Mapping[str, Drawing]
"""Drawings by file name without suffix."""

OURS = "ours"
"""Source of a claim that is not in the paper."""


@dataclass(frozen=True)
class Arm:
    """Runs that differ only in the seed."""

    task: str  # environment; arms of one task share a figure panel
    label: str  # unique within its task
    jobs: tuple[Job, ...]  # one for each seed; experiments that share a run name the same relative directory
    evaluated_weight: float | None = None  # in the evaluations that represent this arm; by default that of training
    way: str | None = None  # to plan, in the comparisons with exact values that represent this arm


@dataclass(frozen=True)
class Claim:
    """A statement about one arm, compared with another arm or a fixed level."""

    where: str  # place in the paper, or OURS
    text: str
    measure: Measure
    arm: str  # label
    compared_with: str | float  # label of another arm, or a level
    expected: Expected  # what the statement says about the arm
    margin: float | None = None  # differences within it count as none; by default 5% of (optimum - random play)
    task: str | None = None  # of both arms; by default the experiment's first
    primary: bool = False  # whether the experiment was made for this claim


@dataclass(frozen=True)
class Requirement:
    """What the baseline must reach before any claim about its task is judged."""

    measure: Measure
    task: str
    arm: str
    low: float = -math.inf
    high: float = math.inf


Row = tuple[str | float | Estimate, ...]


@dataclass(frozen=True)
class Table:
    """Numbers beside the claims."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str  # what follows, and by which rule


def no_tables(_: Evidence) -> Sequence[Table]:
    """Return no tables."""
    return ()


def curves(evidence: Evidence) -> Figures:
    """Draw the learning curves of every task."""
    return {"curves": LearningCurves(list(evidence.tasks.values()))}


@dataclass(frozen=True)
class Experiment:
    """A figure or a paragraph of the paper, or a question of ours.

    `timing` is a module whose `measure(is_quick)` times something besides the runs, once, on the machine that asks
    first, and returns plain JSON types. It is given by name, because it imports torch.
    """

    name: str  # on the command line, and the folder of its results
    title: str
    question: str
    arms: Callable[[], tuple[Arm, ...]]
    claims: tuple[Claim, ...]
    requirements: tuple[Requirement, ...] = ()
    columns: tuple[Measure, ...] = (FINAL_RETURN, MEAN_RETURN)  # of the table of arms
    figures: Callable[[Evidence], Figures] = curves
    tables: Callable[[Evidence], Sequence[Table]] = no_tables
    notes: tuple[str, ...] = ()  # facts about the set-up; interpretation belongs in docs/results.md
    timing: str | None = None
    task_by_task: bool = False  # whether the page may show some tasks while the runs of others are not finished
    by_name_only: bool = False  # it takes too long to be part of `--all`
    arguments: Sequence[str] = ()  # of `eva experiment`, if the name alone does not identify it

    @property
    def command(self) -> tuple[str, ...]:
        """The command that runs it."""
        return ("eva", "experiment", *(self.arguments or (self.name,)))


def jobs_of(arms: Sequence[Arm]) -> list[Job]:
    """Return every job once, seed by seed, so that unfinished work can already be compared."""
    rounds = itertools.zip_longest(*(arm.jobs for arm in arms))
    jobs = {job.directory: job for each in rounds for job in each if job is not None}
    return list(jobs.values())
