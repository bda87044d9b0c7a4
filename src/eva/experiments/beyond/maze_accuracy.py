"""What EVA claims, measured directly: planned values against exact ones, and greedy actions against optimal ones."""

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
MIXED = f"network and planned values, weight {PAPER_WEIGHT:g}"
ESTIMATES = {"q_theta": "network", "q_np": "planned values", "q_eva": MIXED}
GROUPS = {"by_distance": NUM_FIFTHS, "by_age": len(AGE_LIMITS) + 1}


def arms() -> tuple[Arm, ...]:
    """Return the runs of DQN in maze-two-coins, once for each way to plan beside the network, and those of EVA."""
    network, with_eva = maze_arm(TWO_COINS, DQN, 0.0), maze_arm(TWO_COINS, EVA, PAPER_WEIGHT)
    return *(replace(network, label=way, way=way) for way in SHADOWS), replace(with_eva, way=OWN)


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
    """Draw optimal actions and errors over training, who is right when they disagree, and both by distance and age."""
    disagreement = {"right": MIXED, "network_right": "network"}
    drawn = {
        "optimal": _over_training(evidence, "share of states with an optimal greedy action", "optimal", ESTIMATES),
        "errors": _over_training(evidence, "mean absolute error of the values", "error", ESTIMATES),
        "overruled": _over_training(evidence, "share with an optimal action, where the two differ", "", disagreement),
    }
    labels = {
        "by_distance": "states by distance to the nearest remembered state, in fifths (1: nearest)",
        "by_age": f"age of that state in transitions: up to {', '.join(f'{n:,}' for n in AGE_LIMITS)}, more",
    }
    for group, number in GROUPS.items():
        estimates = {"network": NETWORK_ERRORS[group], "planned values": PLANNED_ERRORS[group]}
        lines = [
            Line.through(name, np.arange(1, number + 1), [each.estimate(evidence, TWO_COINS, TCP) for each in measures])
            for name, measures in estimates.items()
        ]
        drawn[group] = Chart(f"{labels[group]} (TCP; band: 95% CI)", "mean absolute error of the values", lines)
    return drawn


def _over_training(evidence: Evidence, y_label: str, group: str, lines: dict[str, str]) -> Chart:
    """Draw numbers of a group by key, of TCP beside DQN's networks, with their 95% CI over runs."""
    drawn = []
    for key, name in lines.items():
        numbers = evidence.accuracies(TWO_COINS, TCP, *filter(None, (group, key)))
        run = evidence.group(TWO_COINS, TCP).runs[0]
        steps = run.planned * np.arange(1, numbers.shape[1] + 1) / numbers.shape[1]
        drawn.append(Line(name, steps, known_mean(numbers.T), *mean_interval(numbers)))
    return Chart(f"transitions (band: 95% CI over n = {len(numbers)} runs)", y_label, drawn, markers=False)


def _errors(estimate: str) -> dict[str, list[Measure]]:
    """Return a measure for each class of states."""
    return {
        group: [accuracy(f"error, {group} {i + 1}", (group, i, "error", estimate)) for i in range(number)]
        for group, number in GROUPS.items()
    }


NETWORK_ERRORS, PLANNED_ERRORS = _errors("q_theta"), _errors("q_np")
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
        "TCP, n-step, KBRL and recomputed: plans beside the networks of DQN, which act alone; all see the same states. "
        f"{EVA}: its own runs. After every 5% of training, network and memory are frozen, and 10 mazes are played "
        "with training's epsilon: 100 steps to fill the value buffers, then 100 steps that count.",
        "Exact values Q*: dynamic programming over the coins left, with the run's discount; ties count as optimal. "
        "Error: mean over states and actions of the absolute difference from Q*. Numbers are means over training.",
    ),
)
