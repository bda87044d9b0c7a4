"""Fig. 2, left: single episodes with one network and its memory, with and without EVA (P28)."""

from __future__ import annotations

from dataclasses import replace

from eva.experiments.framework.common import DQN, PAPER_WEIGHT
from eva.experiments.framework.definition import Arm, Claim, Expected, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import single_episodes
from eva.experiments.paper.maze import FOUR_COINS, SEEDS, maze_job
from eva.report.format import number
from eva.report.plots import Chart, Line, chart_files, figure_files
from eva.report.statistics import mean
from eva.runs.sweep.jobs import Play

WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
STEPS = 300_000
NUM_EPISODES = 200
NUM_NETWORKS = 3
RETURN = single_episodes()


def arm_label(weight: float) -> str:
    """Return the name of the arm that plays with this weight."""
    return f"weight {weight:g}"


def arms() -> tuple[Arm, ...]:
    """Return the same networks, trained without EVA, playing with each weight."""
    play = Play(STEPS, WEIGHTS, NUM_EPISODES)
    jobs = tuple(replace(maze_job(4, STEPS, seed, 0.0), plays=(play,)) for seed in SEEDS[:NUM_NETWORKS])
    return tuple(Arm(FOUR_COINS, arm_label(weight), jobs, weight) for weight in WEIGHTS)


def figures(evidence: Evidence) -> Figures:
    """Draw the return by weight, and how the networks were trained."""
    means = [mean(RETURN.values(evidence, FOUR_COINS, arm_label(weight))) for weight in WEIGHTS]
    y, low, high = ([getattr(each, end) for each in means] for end in ("value", "low", "high"))
    networks = zip(*(RETURN.values(evidence, FOUR_COINS, arm_label(weight)) for weight in WEIGHTS), strict=True)
    lines = [Line(f"network {i}", WEIGHTS, values, values, values) for i, values in enumerate(networks)]
    task = evidence.tasks[FOUR_COINS]
    level = None if task.optimum is None else (f"optimum {number(task.optimum)}", task.optimum)
    chart = Chart(
        "weight of Q_NP", "return of a single episode", [*lines, Line("mean", WEIGHTS, y, low, high)], level=level
    )
    training = replace(task, groups=(replace(task.groups[0], kind=DQN),))
    return {"weights": chart_files(chart), "curves": figure_files([training])}


def _claim(text: str, weight: float, other: float, expected: Expected, primary: bool = False) -> Claim:
    return Claim("Fig. 2 left", text, RETURN, arm_label(weight), arm_label(other), expected, primary=primary)


EXPERIMENT = Experiment(
    name="maze-single-episode",
    title="Single episodes with and without EVA, four coins",
    question="Does EVA improve single episodes of a network that was trained without it, and which weight is best?",
    arms=arms,
    claims=(
        _claim("EVA immediately boosts the network's performance.", PAPER_WEIGHT, 0.0, "better", primary=True),
        _claim("The benefit saturates around 0.4: 0.6 gains no more.", PAPER_WEIGHT, 0.6, "no worse"),
        _claim("The benefit saturates around 0.4: 0.8 gains no more.", PAPER_WEIGHT, 0.8, "no worse"),
        _claim("Planned values alone (weight 1) do not generalise.", 1.0, PAPER_WEIGHT, "worse"),
    ),
    columns=(RETURN,),
    figures=figures,
    notes=(f"{NUM_EPISODES} episodes for each network and weight, from the same start states, epsilon 0.05.",),
)
