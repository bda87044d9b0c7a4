"""What EVA claims, measured directly: planned values against exact ones, and greedy actions against optimal ones."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eva.experiments.framework.arms import DQN, PAPER_WEIGHT
from eva.experiments.framework.definition import OURS, Arm, Claim, Expected, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import Measure
from eva.experiments.paper.maze import EVA, TWO_COINS, learned, maze_arm
from eva.report.plots import Chart, Line
from eva.report.statistics import FloatArray, known_mean, mean_interval
from eva.runs.record.columns import AGE_LIMITS, NUM_FIFTHS, OWN, SHADOWS

Keys = tuple[str | int, ...]
"""Of a number in a line of accuracy.jsonl."""
TCP, N_STEP, KBRL, RECOMPUTED = SHADOWS
REFRESHED = "TCP, refreshed"
REFRESHING = {"eva.embeddings": "refreshed", "evaluation.accuracy": True}
MIXED = f"network and planned values, weight {PAPER_WEIGHT:g}"
ESTIMATES = {"q_theta": "network", "q_eva": MIXED, "q_np": "planned values"}
FIFTHS = ("nearest fifth", *map("{}.".format, range(2, NUM_FIFTHS)), "farthest fifth")
AGES = (*map("up to {:,}".format, AGE_LIMITS), "more")


def arms() -> tuple[Arm, ...]:
    """Return the runs of DQN in maze-two-coins, once for each way to plan beside the network, and those of EVA.

    The runs with refreshed embeddings have the same networks: without EVA, a DQN does not read its embeddings.
    """
    network, with_eva = maze_arm(TWO_COINS, DQN, 0.0), maze_arm(TWO_COINS, EVA, PAPER_WEIGHT)
    refreshed = maze_arm(TWO_COINS, REFRESHED, 0.0, REFRESHING, "-refreshed")
    shadows = (replace(network, label=way, way=way) for way in SHADOWS)
    return *shadows, replace(refreshed, way=TCP), replace(with_eva, way=OWN)


def accuracy(name: str, keys: Keys, less: Keys = (), *, higher_is_better: bool = True) -> Measure:
    """Return the mean over training of a number, less another number if one is given; arms are paired by run."""

    def values(evidence: Evidence, task: str, label: str) -> FloatArray:
        numbers = evidence.accuracies(task, label, *keys)
        return known_mean(numbers - evidence.accuracies(task, label, *less) if less else numbers)

    return Measure(name, values, unit="runs", paired=True, higher_is_better=higher_is_better)


def overruled(name: str, key: str) -> Measure:
    """Return a share of all states in which the memory overrules the network."""

    def values(evidence: Evidence, task: str, label: str) -> FloatArray:
        shares, weights = evidence.accuracies(task, label, key), evidence.accuracies(task, label, "overruled")
        means: FloatArray = np.nansum(shares * weights, axis=1) / weights.sum(axis=1)
        return means

    return Measure(name, values, unit="runs", paired=True)


def figures(evidence: Evidence) -> Figures:
    """Draw optimal actions and errors over training, who is right where the two differ, and errors by class."""
    different = {"network_right": ESTIMATES["q_theta"], "right": ESTIMATES["q_eva"]}
    return {
        "optimal": _over_training(evidence, "share of states with an optimal greedy action", "optimal", ESTIMATES),
        "overruled": _over_training(evidence, "share with an optimal action, where they differ", "", different),
        "errors": _over_training(evidence, "mean absolute error of the values", "error", ESTIMATES),
        "by_distance": _by_class(evidence, "by_distance", "distance to the nearest remembered state", FIFTHS),
        "by_age": _by_class(evidence, "by_age", "age of the nearest remembered state in transitions", AGES),
    }


def _by_class(evidence: Evidence, group: str, x_label: str, classes: Sequence[str]) -> Chart:
    """Draw the error of each estimate in each class of states, of TCP beside DQN's networks."""
    lines = []
    for key, name in ESTIMATES.items():
        measures = [accuracy(f"error, {each}", (group, i, "error", key)) for i, each in enumerate(classes)]
        estimates = [measure.estimate(evidence, TWO_COINS, TCP) for measure in measures]
        lines.append(Line.through(name, np.arange(len(classes)), estimates))
    x_label = f"{x_label} (band: 95% CI over n = {estimates[0].n} runs)"
    return Chart(x_label, "mean absolute error of the values", lines, tick_labels=classes)


def _over_training(evidence: Evidence, y_label: str, group: str, lines: dict[str, str]) -> Chart:
    """Draw numbers of a group by key, of TCP beside DQN's networks, with their 95% CI over runs."""
    drawn = []
    for key, name in lines.items():
        numbers = evidence.accuracies(TWO_COINS, TCP, *filter(None, (group, key)))
        run = evidence.group(TWO_COINS, TCP).runs[0]
        steps = run.planned * np.arange(1, numbers.shape[1] + 1) / numbers.shape[1]
        drawn.append(Line(name, steps, known_mean(numbers.T), *mean_interval(numbers)))
    return Chart(f"transitions (band: 95% CI over n = {len(numbers)} runs)", y_label, drawn, markers=False)


OPTIMAL = {
    estimate: accuracy(f"optimal actions, {name}", ("optimal", estimate)) for estimate, name in ESTIMATES.items()
}
ERROR = {
    estimate: accuracy(f"error, {name}", ("error", estimate), higher_is_better=False)
    for estimate, name in ESTIMATES.items()
}
MORE_OPTIMAL = accuracy("optimal actions, mixed less network", ("optimal", "q_eva"), ("optimal", "q_theta"))
LESS_ERROR = accuracy("error, network less planned values", ("error", "q_theta"), ("error", "q_np"))
LESS_ERROR_NEAR = accuracy(
    "error of planned values, farthest less nearest fifth",
    ("by_distance", NUM_FIFTHS - 1, "error", "q_np"),
    ("by_distance", 0, "error", "q_np"),
)
RIGHT = overruled("mixed action optimal, where overruled", "right")
NETWORK_RIGHT = overruled("network's action optimal, where overruled", "network_right")
CLAIMS: tuple[tuple[str, str, Measure, str, str | float, Expected], ...] = (
    (OURS, "EVA makes the greedy action of DQN's networks optimal more often.", MORE_OPTIMAL, TCP, 0.0, "better"),
    (OURS, "EVA makes the greedy action optimal more often in its own runs.", MORE_OPTIMAL, EVA, 0.0, "better"),
    (OURS, "Planned values have a smaller error than DQN's networks.", LESS_ERROR, TCP, 0.0, "better"),
    (OURS, "Planned values have a smaller error than the network in EVA's own runs.", LESS_ERROR, EVA, 0.0, "better"),
    (OURS, "Where EVA overrules the network, most of its actions are optimal.", RIGHT, TCP, 0.5, "better"),
    (OURS, "Planned values have a smaller error near remembered states.", LESS_ERROR_NEAR, TCP, 0.0, "better"),
    ("Fig. 4", "Values planned by TCP have a smaller error than n-step's.", ERROR["q_np"], TCP, N_STEP, "better"),
    ("Fig. 4", "Values planned by TCP are as good as KBRL's.", ERROR["q_np"], TCP, KBRL, "no worse"),
    (OURS, "Recomputed values have a smaller error than stored ones.", ERROR["q_np"], RECOMPUTED, TCP, "better"),
    (OURS, "Refreshed embeddings give a smaller error than stored ones.", ERROR["q_np"], REFRESHED, TCP, "better"),
)
EXPERIMENT = Experiment(
    name="maze-accuracy",
    title="Planned values against exact values, two coins",
    question="Are planned values closer to the exact values than the network's, and is the memory right when it "
    "overrules the network?",
    arms=arms,
    claims=tuple(Claim(*claim, 0, primary=claim is CLAIMS[0]) for claim in CLAIMS),
    requirements=learned(TWO_COINS, 1.70, TCP),
    columns=(*OPTIMAL.values(), *ERROR.values(), RIGHT, NETWORK_RIGHT),
    figures=figures,
    notes=(
        "TCP, n-step, KBRL, recomputed and refreshed: plans beside the networks of DQN, which act alone; all see the "
        "same states. "
        f"{EVA}: its own runs. After every 5% of training, network and memory are frozen, and 10 mazes are played "
        "with training's epsilon: 100 steps to fill the value buffers, then 100 steps that count.",
        "Exact values Q*: dynamic programming over the coins left, with the run's discount; ties count as optimal. "
        "Error: mean over states and actions of the absolute difference from Q*. Numbers are means over training.",
    ),
)
