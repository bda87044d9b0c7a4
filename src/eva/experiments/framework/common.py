"""What experiments share: names of arms, runs and figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eva.config import Config
from eva.experiments.framework.definition import Figures
from eva.experiments.framework.evidence import Evidence
from eva.report.plots import figure_files
from eva.runs.sweep.jobs import Job

DQN, DOUBLE_DQN, PRIORITISED = "DQN", "Double DQN", "Double DQN, prioritised"
PAPER_WEIGHT = 0.4


def label(weight: float) -> str:
    """Return the name of the arm with this weight."""
    return DQN if weight == 0 else f"EVA, weight {weight:g}"


def seeded(config: Config, seed: int, weight: float) -> Config:
    """Return one run of an arm: on the CPU, so that other machines can repeat it, and never stopped early."""
    return replace(
        config,
        seed=seed,
        eva=replace(config.eva, nonparametric_weight=weight),
        run=replace(config.run, device="cpu", checkpoints_kept=1, stop_when_diverged=False),
    )


def changed(job: Job, arm: str, config: Config) -> Job:
    """Return a run of another arm with the same seed, beside the directory of `job`."""
    place, _, seed = job.directory.parts
    return replace(job, directory=Path(place, arm, seed), config=config)


def curves(evidence: Evidence) -> Figures:
    """Draw the learning curves of every task."""
    return {"curves": figure_files(list(evidence.tasks.values()))}
