"""Pong with a small replay buffer: the Atari agent learns, beside published numbers of Dopamine."""

import numpy as np

from eva.experiments.framework.arms import DQN, PAPER_WEIGHT, WEIGHT, arm, label
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import LATE_EPISODES
from eva.games import DOPAMINE, PUBLISHED_SCORES, dopamine_dqn
from eva.presets import for_game, preset
from eva.report.plots import Chart, Line

GAME, TASK = "pong", "Pong"
RANDOM = PUBLISHED_SCORES[GAME].random
SEED, MILLION = 0, 1_000_000
LAST_SHOWN = 5  # iteration of Dopamine's 200


def _arm(weight: float) -> Arm:
    config, folder = for_game(preset("atari-small"), GAME), f"{GAME}/weight-{weight:g}"
    return arm(TASK, label(weight), folder, config, {WEIGHT: weight, "run.threads": 1}, seeds=(SEED,))


def figures(evidence: Evidence) -> Figures:
    """Draw both runs beside Dopamine's, whose iteration i is drawn in the middle of its million frames."""
    task, lines = evidence.tasks[TASK], []
    for group in task.groups:
        mean, _, _ = group.band(task.grid)
        lines.append(Line(group.label, task.grid * int(group.runs[0].config["atari"]["frame_skip"]) / MILLION, mean))
    published = [(i + 0.5, *each) for i, each in dopamine_dqn(GAME).items() if i <= LAST_SHOWN]
    frames, mean, deviation = np.array(published).T
    lines.append(Line(f"Dopamine's {DOPAMINE}", frames, mean, mean - deviation, mean + deviation))
    return {"curves": Chart("million frames", "episode return", lines, level=("random play", RANDOM), markers=False)}


EXPERIMENT = Experiment(
    name="pong",
    title="Pong with a small replay buffer",
    question="Does the Atari agent learn Pong on two cores, with and without EVA?",
    arms=lambda: (_arm(0.0), _arm(PAPER_WEIGHT)),
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
