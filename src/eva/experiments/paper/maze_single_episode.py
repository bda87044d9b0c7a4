"""Fig. 2, left: single episodes with one network and its memory, with and without EVA (P28, P88)."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from eva.experiments.framework.common import DQN, PAPER_WEIGHT, numbers
from eva.experiments.framework.definition import Arm, Claim, Experiment, Finding, Judgement, Table
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.judge import SATURATED, is_above, is_below, saturates
from eva.experiments.framework.words import brief, brief_gain, gained, levels_in_words, plain
from eva.experiments.paper.maze import SEEDS, TUNED_WITH_ONE_COIN, maze_job
from eva.report.curves import Task
from eva.report.measures import Estimate, mean_by_episode
from eva.report.plots import Chart, Line, chart_files, figure_files
from eva.report.statistics import FloatArray
from eva.report.verdict import number
from eva.runs.sweep.jobs import Play

WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
STEPS = 300_000
NUM_EPISODES = 200
NUM_NETWORKS = 3


def arms() -> tuple[Arm, ...]:
    """Return networks trained without EVA, with single episodes at the end."""
    play = Play(STEPS, WEIGHTS, NUM_EPISODES)
    jobs = (replace(maze_job(4, STEPS, seed, 0.0), plays=(play,)) for seed in SEEDS[:NUM_NETWORKS])
    return (Arm("four coins", DQN, tuple(jobs)),)


def judge(evidence: Evidence) -> Judgement:
    """Judge that EVA gains at once, and that this saturates at the paper's weight."""
    (task,) = evidence.tasks
    returns = {weight: evidence.played(DQN, 0, weight) for weight in WEIGHTS}  # (episodes, networks)
    means = {weight: mean_by_episode(values) for weight, values in returns.items()}
    gain = mean_by_episode(returns[PAPER_WEIGHT] - returns[0.0])
    further = mean_by_episode(returns[WEIGHTS[-1]] - returns[PAPER_WEIGHT])
    saturated = returns[PAPER_WEIGHT] + SATURATED * (returns[PAPER_WEIGHT] - returns[0.0])
    excesses = [mean_by_episode(returns[weight] - saturated) for weight in WEIGHTS if weight not in (0.0, PAPER_WEIGHT)]
    num_episodes, num_networks = returns[0.0].shape
    certainty = (
        f"{num_episodes} episodes for each of {num_networks} networks and each weight, from the same start states; "
        "bootstrap over episodes, so it speaks of these networks"
    )
    at_once = Finding(
        is_above(gain),
        f"the return of an episode with weight {PAPER_WEIGHT:g} less that of the network alone, "
        f"{number(means[0.0].value)}, is {gained(gain)}; network by network "
        + ", ".join(f"{value:+.2f}" for value in _by_network(returns[PAPER_WEIGHT] - returns[0.0])),
        certainty,
    )
    saturation = Finding(
        saturates(gain, excesses),
        f"mean returns {', '.join(f'{number(mean.value)} (weight {weight:g})' for weight, mean in means.items())}; "
        f"from {PAPER_WEIGHT:g} to {WEIGHTS[-1]:g} {gained(further)}",
        certainty,
    )
    return Judgement(
        outcome="; ".join(
            [
                f"EVA with weight {PAPER_WEIGHT:g} changes the return of the network alone, "
                f"{number(means[0.0].value)}, by {gained(gain)}, at once",
                *levels_in_words(task),
            ]
        )
        + ".",
        findings=(at_once, saturation, _alone(task, means[PAPER_WEIGHT], further, certainty)),
        tables=(_table(returns, means),),
        figures={"weights": chart_files(_chart(returns, means, task.optimum)), "curves": figure_files([task])},
        numbers={
            "weights": plain({f"{weight:g}": asdict(mean) for weight, mean in means.items()}),
            "gain": plain(asdict(gain)),
            "further_gain": plain(asdict(further)),
            **numbers([task], baseline=None),
        },
    )


def _alone(task: Task, mixed: Estimate, further: Estimate, certainty: str) -> Finding:
    """Judge the planned values alone, where the networks have learned more than chance gives."""
    assert task.chance is not None
    return Finding(
        is_below(further) if is_above(mixed, task.chance) == "holds" else "undecided",
        f"the return of an episode with the planned values alone, weight {WEIGHTS[-1]:g}, less that with weight "
        f"{PAPER_WEIGHT:g}, {number(mixed.value)}, is {gained(further)}; random play returns {number(task.chance)}",
        certainty,
    )


def _by_network(values: FloatArray) -> list[float]:
    return [float(value) for value in values.mean(axis=0)]


def _table(returns: dict[float, FloatArray], means: dict[float, Estimate]) -> Table:
    rows = []
    for weight, mean in means.items():
        gain = "" if weight == 0 else brief_gain(mean_by_episode(returns[weight] - returns[0.0]))
        networks = ", ".join(number(value) for value in _by_network(returns[weight]))
        rows.append([f"{weight:g}", brief(mean), gain, networks])
    caption = "Mean return of single episodes, its 95% bootstrap interval, and the gain over the network alone."
    return Table(caption, ["weight", "return", "above weight 0", "each network"], rows)


def _chart(returns: dict[float, FloatArray], means: dict[float, Estimate], optimum: float | None) -> Chart:
    ends = np.array([[mean.value, mean.low, mean.high] for mean in means.values()]).T
    average = Line("mean of all", WEIGHTS, *(end.tolist() for end in ends))
    networks = np.array([_by_network(values) for values in returns.values()]).T.tolist()
    lines = [Line(f"network {number}", WEIGHTS, row, row, row) for number, row in enumerate(networks)]
    level = None if optimum is None else (f"optimal return {number(optimum)}", optimum)
    return Chart("weight", "return of a single episode", [*lines, average], level=level)


EXPERIMENT = Experiment(
    name="maze-single-episode",
    title="Single episodes with and without EVA, four coins",
    claims=(
        Claim(
            "Fig. 2 left",
            "By leveraging the trajectories in the replay buffer, EVA immediately boosts the performance of the "
            "baseline, with exactly the same weights of the network.",
            "Holds if weight 0.4 is above weight 0 beyond doubt.",
        ),
        Claim(
            "Fig. 2 left",
            "The benefits saturate around a weight of 0.4.",
            "Holds if, beyond doubt, 0.4 is above 0, and no other weight above 0.4 by a quarter of that gain; in part "
            "if the latter only by the estimates.",
        ),
        Claim(
            "Fig. 2 left",
            "The policy of the non-parametric component alone is unable to generalise properly.",
            "Holds if weight 1 is below weight 0.4 beyond doubt; undecided where weight 0.4 is not above random play "
            "beyond doubt.",
        ),
    ),
    arms=arms,
    judge=judge,
    remarks=(
        TUNED_WITH_ONE_COIN,
        "These networks return less than random play, alone and with EVA: in 300,000 transitions DQN has not learned "
        "to collect four coins. What EVA does at once for a network that has learned, as in the paper, they cannot "
        "tell. That one with other numbers would have learned is likely, and not tested.",
    ),
)
