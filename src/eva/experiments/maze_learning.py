"""Fig. 2, centre and right: EVA throughout training, with one and with two coins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from eva.experiments.definition import Arm, Claim, Experiment, Finding, Judgement
from eva.experiments.evidence import Evidence, variant
from eva.experiments.maze import DQN, PAPER_WEIGHT, compare_arms, label, measure_arms, numbers, weight_arms
from eva.experiments.rules import both, is_above, is_below, rises, saturates, suffices
from eva.experiments.words import comparison_table, gained, measures_table, seeds, share
from eva.report.curves import Task
from eva.report.measures import Estimate, areas_under, difference
from eva.report.plots import figure_files
from eva.report.verdict import number

ONE_COIN_WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8)
TWO_COINS_WEIGHTS = (0.0, 0.2, 0.4, 0.8)


def one_coin_arms() -> tuple[Arm, ...]:
    """Return the paper's maze with all weights, and DQN and EVA in the open room (P14)."""
    return (
        *weight_arms("one coin", 1, 60_000, ONE_COIN_WEIGHTS),
        *weight_arms("one coin, open room", 1, 60_000, (0.0, PAPER_WEIGHT), layout="open"),
    )


def two_coins_arms() -> tuple[Arm, ...]:
    """Return the paper's maze with two coins."""
    return tuple(weight_arms("two coins", 2, 150_000, TWO_COINS_WEIGHTS))


def judge_one_coin(evidence: Evidence) -> Judgement:
    """Judge data efficiency, and that a higher weight is better."""
    paper, room = evidence.tasks
    here, there = (compare_arms(task)[label(PAPER_WEIGHT)].data_share for task in (paper, room))
    steps = [_area_gain(paper, first, second) for first, second in itertools.pairwise(ONE_COIN_WEIGHTS)]
    upper_half = _area_gain(paper, PAPER_WEIGHT, ONE_COIN_WEIGHTS[-1])
    data = Finding(
        suffices(here),
        f"weight {PAPER_WEIGHT:g} needs {share(here)} of DQN's data; in the open room {share(there)}",
        seeds(len(paper.variants[0].runs)),
    )
    order = Finding(
        rises(steps, upper_half),
        f"mean return over training {_areas(paper)}; from {PAPER_WEIGHT:g} to {ONE_COIN_WEIGHTS[-1]:g} "
        f"{gained(upper_half)}",
        seeds(len(paper.variants[0].runs)),
    )
    return learning_judgement(evidence.tasks, (data, order))


def judge_two_coins(evidence: Evidence) -> Judgement:
    """Judge data efficiency, and that it saturates at the paper's weight."""
    (task,) = evidence.tasks
    eva = compare_arms(task)[label(PAPER_WEIGHT)]
    further = _area_gain(task, PAPER_WEIGHT, TWO_COINS_WEIGHTS[-1])
    boost = Finding(
        both(is_above(eva.area_gain), is_below(eva.data_share, 1.0)),
        f"the mean return over training with weight {PAPER_WEIGHT:g} less DQN's is {gained(eva.area_gain)}; DQN's "
        f"final return takes {share(eva.data_share)} of its data",
        seeds(len(task.variants[0].runs)),
    )
    saturation = Finding(
        saturates(eva.area_gain, further),
        f"mean return over training {_areas(task)}; from {PAPER_WEIGHT:g} to {TWO_COINS_WEIGHTS[-1]:g} "
        f"{gained(further)}",
        seeds(len(task.variants[0].runs)),
    )
    return learning_judgement(evidence.tasks, (boost, saturation))


def learning_judgement(tasks: Sequence[Task], findings: tuple[Finding, ...], baseline: str = DQN) -> Judgement:
    """Return the findings with the learning curves and measures behind them, all against the baseline."""
    tables = []
    for task in tasks:
        measures = measure_arms(task)
        tables += [measures_table(task, measures), comparison_table(task, compare_arms(task, baseline), measures)]
    return Judgement(
        outcome=_outcome(tasks[0]),
        findings=findings,
        tables=tuple(tables),
        figures={"curves": figure_files(tasks)},
        numbers=numbers(tasks, baseline),
    )


def _outcome(task: Task) -> str:
    ends = ", ".join(f"{number(each.final.value)} ({name})" for name, each in measure_arms(task).items())
    best = "" if task.optimum is None else f"; the optimum is {number(task.optimum)}"
    return f"Final returns: {ends}{best}."


def _area_gain(task: Task, first: float, second: float) -> Estimate:
    """Return what the mean return over training gains from one weight to another."""
    higher, lower = (areas_under(variant(task, label(weight)), task) for weight in (second, first))
    return difference(higher, lower)


def _areas(task: Task) -> str:
    return ", ".join(f"{number(each.area.value)} ({name})" for name, each in measure_arms(task).items())


_DATA = "The data share is the number of transitions after which the mean learning curve first reaches the mean final "
_DATA += "return of DQN, divided by the length of DQN's training (P85)."

ONE_COIN = Experiment(
    name="maze-one-coin",
    title="EVA throughout training, one coin",
    claims=(
        Claim(
            "Fig. 2 centre",
            "EVA requires slightly more than half of the data to obtain the final performance of DQN.",
            "Holds if the whole interval of the data share is at most 60%; in part if the estimate is below 100%. "
            + _DATA,
        ),
        Claim(
            "Fig. 2 centre",
            "With one coin, a higher weight is better.",
            "Of the mean return over training: holds if it rises with every step of the weight, and from 0.4 to 0.8 "
            "beyond doubt; in part if only the estimate rises from 0.4 to 0.8.",
        ),
    ),
    arms=one_coin_arms,
    judge=judge_one_coin,
)
TWO_COINS = Experiment(
    name="maze-two-coins",
    title="EVA throughout training, two coins",
    claims=(
        Claim(
            "Fig. 2 right",
            "EVA provides a significant boost in data efficiency.",
            "Holds if the mean return over training with weight 0.4 is above DQN's, and the data share below 100%, "
            "both beyond doubt; in part if that is true of one, or of both by the estimates. " + _DATA,
        ),
        Claim(
            "Fig. 2 right",
            "With two coins, performance saturates around a weight of 0.4.",
            "Of the mean return over training: holds if 0.4 is above DQN beyond doubt, and 0.8 not beyond doubt above "
            "0.4, with less than a quarter of that gain; in part if so by the estimates.",
        ),
    ),
    arms=two_coins_arms,
    judge=judge_two_coins,
)
