"""Runs in the maze."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from eva.experiments.framework.common import label, seeded
from eva.experiments.framework.definition import Arm
from eva.presets import preset
from eva.runs.sweep.jobs import Job

SEEDS = (0, 1, 2, 3, 4)
ONE_COIN, TWO_COINS, FOUR_COINS, OPEN_ROOM = "one coin", "two coins", "four coins", "one coin, open room"


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


def weight_arms(task: str, num_coins: int, steps: int, weights: Sequence[float], layout: str = "paper") -> list[Arm]:
    """Return DQN and EVA with several weights on all seeds."""
    return [
        Arm(task, label(weight), tuple(maze_job(num_coins, steps, seed, weight, layout=layout) for seed in SEEDS))
        for weight in weights
    ]
