"""Fig. 2, left: single episodes with one network and its memory, with and without EVA (P28)."""

from __future__ import annotations

from dataclasses import replace

from eva.experiments.framework.common import DQN, PAPER_WEIGHT, SEEDS, WEIGHT, arm
from eva.experiments.framework.definition import Arm, Claim, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import single_episodes
from eva.experiments.paper.maze import FOUR_COINS
from eva.presets import preset
from eva.report.format import number
from eva.report.plots import Chart, LearningCurves, Line
from eva.runs.sweep.jobs import Play

LABELS = {weight: f"weight {weight:g}" for weight in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
WEIGHTS = tuple(LABELS)
NUM_EPISODES = 200
NUM_NETWORKS = 3
RETURN = single_episodes()
FIG = "Fig. 2 left"
PAPER = LABELS[PAPER_WEIGHT]


def arms() -> tuple[Arm, ...]:
    """Return the same networks, trained without EVA, playing with each weight."""
    base = preset("maze-4-coins")
    play = Play(base.steps, WEIGHTS, NUM_EPISODES)
    folder, seeds = "maze-4-coins/weight-0", SEEDS[:NUM_NETWORKS]
    trained = arm(FOUR_COINS, DQN, folder, base, {WEIGHT: 0.0}, seeds=seeds, plays=(play,))
    return tuple(replace(trained, label=label, played_weight=weight) for weight, label in LABELS.items())


def figures(evidence: Evidence) -> Figures:
    """Draw the return by weight, and how the networks were trained."""
    networks = zip(*(RETURN.values(evidence, FOUR_COINS, label) for label in LABELS.values()), strict=True)
    lines = [Line(f"network {i}", WEIGHTS, values) for i, values in enumerate(networks)]
    means = [RETURN.estimate(evidence, FOUR_COINS, label) for label in LABELS.values()]
    lines.append(Line.through("mean", WEIGHTS, means))
    task = evidence.tasks[FOUR_COINS]
    level = None if task.optimum is None else (f"optimum {number(task.optimum)}", task.optimum)
    training = replace(task, groups=(replace(task.groups[0], kind=DQN),))
    weights = Chart("weight of Q_NP", "return of a single episode", lines, level=level)
    return {"weights": weights, "curves": LearningCurves([training])}


EXPERIMENT = Experiment(
    name="maze-single-episode",
    title="Single episodes with and without EVA, four coins",
    question="Does EVA improve single episodes of a network that was trained without it, and which weight is best?",
    arms=arms,
    claims=(
        Claim(
            FIG, "EVA immediately boosts the network's performance.", RETURN, PAPER, LABELS[0], "better", primary=True
        ),
        Claim(FIG, "The benefit saturates around 0.4: 0.6 gains no more.", RETURN, PAPER, LABELS[0.6], "no worse"),
        Claim(FIG, "The benefit saturates around 0.4: 0.8 gains no more.", RETURN, PAPER, LABELS[0.8], "no worse"),
        Claim(FIG, "Planned values alone (weight 1) do not generalise.", RETURN, LABELS[1], PAPER, "worse"),
    ),
    columns=(RETURN,),
    figures=figures,
    notes=(f"{NUM_EPISODES} episodes for each network and weight, from the same start states, epsilon 0.05.",),
)
