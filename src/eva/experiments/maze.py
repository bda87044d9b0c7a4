"""What all experiments in the maze have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from eva.config import Config
from eva.experiments.definition import Arm, Table
from eva.experiments.evidence import variant
from eva.experiments.rules import MARGIN
from eva.experiments.words import comparison_table, measures_table, plain
from eva.presets import preset
from eva.report.curves import Task
from eva.report.measures import Comparison, Measures, compare, measure
from eva.runs.jobs import Job

SEEDS = (0, 1, 2, 3, 4)
DQN = "DQN"
PAPER_WEIGHT = 0.4
TUNED_WITH_ONE_COIN = (
    "The learner's numbers are those that maze-tuning found for DQN with one coin, among 8 settings with two seeds "
    "each; they were not searched for anew with more coins (P90)."
)


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


def maze_job(
    num_coins: int,
    steps: int,
    seed: int,
    weight: float,
    *,
    trace: Literal["tcp", "n-step", "kbrl"] = "tcp",
    layout: str = "paper",
) -> Job:
    """Return one run in the maze, otherwise as in the preset."""
    base = seeded(preset(f"maze-{num_coins}-coin{'s' * (num_coins > 1)}"), seed, weight)
    config = replace(base, steps=steps, maze=replace(base.maze, layout=layout), eva=replace(base.eva, trace=trace))
    place = base.name if layout == "paper" else f"{base.name}-{layout}"
    arm = f"weight-{weight:g}" if trace == "tcp" else f"weight-{weight:g}-{trace}"
    return Job(Path(place, arm, f"seed-{seed}"), config)


def changed(job: Job, arm: str, config: Config) -> Job:
    """Return a run that stands beside another, with the same seed and another configuration."""
    place, _, seed = job.directory.parts
    return replace(job, directory=Path(place, arm, seed), config=config)


def weight_arms(task: str, num_coins: int, steps: int, weights: Sequence[float], layout: str = "paper") -> list[Arm]:
    """Return DQN and EVA with several weights, on all seeds."""
    return [
        Arm(task, label(weight), tuple(maze_job(num_coins, steps, seed, weight, layout=layout) for seed in SEEDS))
        for weight in weights
    ]


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
