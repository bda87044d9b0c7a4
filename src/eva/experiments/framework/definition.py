"""What an experiment is: arms (configurations x seeds) and claims, as data."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import FINAL_RETURN, MEAN_RETURN, Measure
from eva.report.plots import Drawing, LearningCurves
from eva.runs.sweep.jobs import Job

Expected = Literal["better", "worse", "no worse"]
Figures = Mapping[str, Drawing]
"""Drawings by file name without suffix."""

OURS = "ours"
"""Source of a claim that is not in the paper."""


@dataclass(frozen=True)
class Arm:
    """Runs that differ only in the seed.

    Attributes:
        task: Environment. Arms of one task share a figure panel.
        label: Unique within its task.
        jobs: One for each seed. Directories are relative; experiments that share a run name the same directory.
        evaluated_weight: Weight of Q_NP in the evaluations that represent this arm; by default that of training.
    """

    task: str
    label: str
    jobs: tuple[Job, ...]
    evaluated_weight: float | None = None


@dataclass(frozen=True)
class Claim:
    """A statement about one arm, compared with another arm or a fixed level.

    Attributes:
        where: Place in the paper, or OURS.
        arm: Label.
        compared_with: Label of another arm, or a level.
        expected: What the statement says about the arm.
        margin: Differences within it count as none; by default 5% of (optimum - random play).
        task: Of both arms; by default the experiment's first.
        primary: Whether the experiment was made for this claim.
    """

    where: str
    text: str
    measure: Measure
    arm: str
    compared_with: str | float
    expected: Expected
    margin: float | None = None
    task: str | None = None
    primary: bool = False


def curves(evidence: Evidence) -> Figures:
    """Draw the learning curves of every task."""
    return {"curves": LearningCurves(list(evidence.tasks.values()))}


@dataclass(frozen=True)
class Experiment:
    """A figure or a paragraph of the paper, or a question of ours.

    Attributes:
        name: On the command line, and the folder of its results.
        arms: What is run; depends on nothing but the experiment.
        claims: What is judged.
        columns: Measures in the table of arms.
        figures: Draws the page's figures.
        notes: Facts about the set-up that a reader needs. Interpretation belongs in docs/results.md.
        timing: Module whose `measure(is_quick)` times something besides the runs, once, on the machine that asks
            first; returns plain JSON types. By name, because it imports torch.
        by_name_only: It takes too long to be part of `--all`.
        arguments: Of `eva experiment`, if the name alone does not identify it.
    """

    name: str
    title: str
    question: str
    arms: Callable[[], tuple[Arm, ...]]
    claims: tuple[Claim, ...]
    columns: tuple[Measure, ...] = (FINAL_RETURN, MEAN_RETURN)
    figures: Callable[[Evidence], Figures] = curves
    notes: tuple[str, ...] = ()
    timing: str | None = None
    by_name_only: bool = False
    arguments: Sequence[str] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """The command that runs it."""
        return ("eva", "experiment", *(self.arguments or (self.name,)))


def jobs_of(arms: Sequence[Arm]) -> list[Job]:
    """Return every job once, seed by seed, so that unfinished work can already be compared."""
    rounds = itertools.zip_longest(*(arm.jobs for arm in arms))
    jobs = {job.directory: job for each in rounds for job in each if job is not None}
    return list(jobs.values())
