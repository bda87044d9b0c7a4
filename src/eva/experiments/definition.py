"""What an experiment is: its claims, its runs, and its judgement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eva.runs.jobs import Job


@dataclass(frozen=True)
class Claim:
    """What the paper says.

    Attributes:
        where: In the paper.
        text: One sentence, in the paper's own words where possible.
    """

    where: str
    text: str


@dataclass(frozen=True)
class Experiment:
    """A figure or a paragraph of the paper.

    Attributes:
        name: On the command line, and of the folder of its results.
        title: One line.
        claims: What is put to the test.
        jobs: All runs, a function of the experiment only; their directories are relative to that of all runs. Runs
            that several experiments share have the same directory in each.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    jobs: Callable[[], tuple[Job, ...]]
