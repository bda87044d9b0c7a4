"""Pong with a small replay buffer: the Atari agent learns, beside published numbers of Dopamine."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

import eva
from eva.experiments.framework.common import DQN, PAPER_WEIGHT, label, seeded
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import LATE_EPISODES
from eva.games import PUBLISHED_SCORES
from eva.presets import for_game, preset
from eva.report.plots import Chart, Line, chart_files
from eva.runs.sweep.jobs import Job

GAME, TASK = "pong", "Pong"
RANDOM = PUBLISHED_SCORES[GAME].random
SEED = 0
MILLION = 1_000_000
DOPAMINE = "DQN (Adam + MSE in JAX)"
LAST_SHOWN = 5  # iteration of Dopamine's 200


def arms() -> tuple[Arm, ...]:
    """Return DQN and EVA, one run of each."""
    return tuple(Arm(TASK, label(weight), (_job(weight),)) for weight in (0.0, PAPER_WEIGHT))


def _job(weight: float) -> Job:
    base = seeded(for_game(preset("atari-small"), GAME), SEED, weight)
    config = replace(base, run=replace(base.run, threads=1))
    return Job(Path(GAME, f"weight-{weight:g}", f"seed-{SEED}"), config)


def dopamine() -> dict[int, tuple[float, float]]:
    """Return published returns in Pong, mean and standard deviation over seeds, by iteration of a million frames."""
    with Path(eva.__file__).with_name("data").joinpath("dopamine_dqn.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["agent"], row["game"]) == (DOPAMINE, GAME)]
    return {int(row["frames_M"]): (float(row["mean_train_return"]), float(row["std_over_5_seeds"])) for row in rows}


def figures(evidence: Evidence) -> Figures:
    """Draw both runs beside Dopamine's, whose iteration i is drawn in the middle of its million frames."""
    task, lines = evidence.tasks[TASK], []
    for group in task.groups:
        run = group.runs[0]
        mean, _, _ = group.band(task.grid)
        known = ~np.isnan(mean)
        frames = (task.grid[known] * int(run.config["atari"]["frame_skip"]) / MILLION).tolist()
        lines.append(Line(group.label, frames, *[mean[known].tolist()] * 3))
    published = {i: each for i, each in dopamine().items() if i <= LAST_SHOWN}
    value, deviation = (np.array(column) for column in zip(*published.values(), strict=True))
    middles, low, high = [i + 0.5 for i in published], (value - deviation).tolist(), (value + deviation).tolist()
    lines.append(Line(f"Dopamine's {DOPAMINE}", middles, value.tolist(), low, high))
    chart = Chart("million frames", "episode return", lines, level=("random play", RANDOM), markers=False)
    return {"curves": chart_files(chart)}


EXPERIMENT = Experiment(
    name="pong",
    title="Pong with a small replay buffer",
    question="Does the Atari agent learn Pong on two cores, with and without EVA?",
    arms=arms,
    claims=(
        Claim(OURS, "DQN ends above random play.", LATE_EPISODES, DQN, RANDOM, "better", 0, primary=True),
        Claim(OURS, "EVA ends above random play.", LATE_EPISODES, label(PAPER_WEIGHT), RANDOM, "better", 0),
    ),
    columns=(LATE_EPISODES,),
    figures=figures,
    notes=(
        "One seed: n counts the episodes of the last 20% of training. Nothing follows about EVA against DQN.",
        "Dopamine's runs (5 seeds, band: standard deviation) use sticky actions, a memory of a million, a larger "
        "network and another exploration schedule: they show the order of magnitude.",
    ),
    by_name_only=True,
)
