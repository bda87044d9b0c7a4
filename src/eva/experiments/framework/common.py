"""What experiments have in common: names, runs of an arm, measures and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from eva.config import Config
from eva.experiments.framework.definition import Table
from eva.experiments.framework.evidence import variant
from eva.experiments.framework.judge import MARGIN
from eva.experiments.framework.words import comparison_table, measures_table, plain
from eva.report.curves import Task
from eva.report.measures import Comparison, Measures, compare, measure
from eva.runs.sweep.jobs import Job

DQN, DOUBLE_DQN, PRIORITISED = "DQN", "Double DQN", "Double DQN, prioritised"
PAPER_WEIGHT = 0.4


def label(weight: float) -> str:
    """Return what an arm with this weight is called."""
    return DQN if weight == 0 else f"EVA, weight {weight:g}"


def seeded(config: Config, seed: int, weight: float) -> Config:
    """Return one run of an arm: on the processor, whose results any machine repeats, and to its end, come what may."""
    return replace(
        config,
        seed=seed,
        eva=replace(config.eva, nonparametric_weight=weight),
        run=replace(config.run, device="cpu", checkpoints_kept=1, stop_when_diverged=False),
    )


def changed(job: Job, arm: str, config: Config) -> Job:
    """Return a run that stands beside another, with the same seed and another configuration."""
    place, _, seed = job.directory.parts
    return replace(job, directory=Path(place, arm, seed), config=config)


def measure_arms(task: Task) -> dict[str, Measures]:
    """Return the measures of each arm by its label."""
    return {each.label: measure(task, each) for each in task.variants}


def compare_arms(task: Task, baseline: str = DQN) -> dict[str, Comparison]:
    """Compare each arm with the baseline, also itself."""
    return {each.label: compare(task, each, variant(task, baseline)) for each in task.variants}


def margin(task: Task) -> float:
    """Return what counts as no difference in a task whose optimum is known."""
    assert task.optimum is not None
    return MARGIN * task.optimum


def learning_tables(tasks: Sequence[Task], baseline: str = DQN) -> tuple[Table, ...]:
    """Return the measures of each task's arms, and how they compare with the baseline."""
    tables = []
    for task in tasks:
        measures = measure_arms(task)
        tables += [measures_table(task, measures), comparison_table(task, compare_arms(task, baseline), measures)]
    return tuple(tables)


def numbers(tasks: Sequence[Task], baseline: str | None = DQN) -> dict[str, Any]:
    """Return all measures and comparisons as plain JSON types."""
    content: dict[str, Any] = {}
    for task in tasks:
        arms = {name: asdict(each) for name, each in measure_arms(task).items()}
        if baseline is not None:
            for name, comparison in compare_arms(task, baseline).items():
                arms[name][f"against {baseline}"] = asdict(comparison)
        content[task.name] = {"optimal_return": task.optimum, "random_return": task.chance, "arms": arms}
    return {"tasks": plain(content)}
