"""Fig. 2, centre and right: EVA throughout training, with one and with two coins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from eva.experiments.framework.common import (
    DQN,
    PAPER_WEIGHT,
    compare_arms,
    label,
    learning_tables,
    measure_arms,
    numbers,
)
from eva.experiments.framework.definition import Arm, Claim, Experiment, Finding, Judgement
from eva.experiments.framework.evidence import Evidence, variant
from eva.experiments.framework.judge import SATURATED, both, is_above, rises, saturates, suffices
from eva.experiments.framework.words import gained, levels_in_words, saving, seeds, share
from eva.experiments.paper.maze import TUNED_WITH_ONE_COIN, weight_arms
from eva.report.curves import Task
from eva.report.measures import Estimate, areas_under, difference, estimate, late_change
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
    eva = compare_arms(paper)[label(PAPER_WEIGHT)]
    steps = [_area_gain(paper, first, second) for first, second in itertools.pairwise(ONE_COIN_WEIGHTS)]
    first, *_, last = ONE_COIN_WEIGHTS
    whole, upper_half = _area_gain(paper, first, last), _area_gain(paper, PAPER_WEIGHT, last)
    data = Finding(
        suffices(eva.data_share, eva.data_saved),
        f"{_data_needed(paper)}; in the open room: {_data_needed(room)}",
        seeds(len(paper.variants[0].runs)),
    )
    order = Finding(
        rises(steps, [whole, upper_half]),
        f"mean return over training {_areas(paper)}; from {first:g} to {last:g} {gained(whole)}, from "
        f"{PAPER_WEIGHT:g} to {last:g} {gained(upper_half)}",
        seeds(len(paper.variants[0].runs)),
    )
    return learning_judgement(evidence.tasks, (data, order))


def judge_two_coins(evidence: Evidence) -> Judgement:
    """Judge data efficiency, and that it saturates at the paper's weight."""
    (task,) = evidence.tasks
    eva = compare_arms(task)[label(PAPER_WEIGHT)]
    others = [weight for weight in TWO_COINS_WEIGHTS if weight not in (0.0, PAPER_WEIGHT)]
    further = _area_gain(task, PAPER_WEIGHT, TWO_COINS_WEIGHTS[-1])
    boost = Finding(
        both(is_above(eva.area_gain), is_above(eva.data_saved)),
        f"the mean return over training with weight {PAPER_WEIGHT:g} less DQN's is {gained(eva.area_gain)}; "
        f"{_data_needed(task)}",
        seeds(len(task.variants[0].runs)),
    )
    saturation = Finding(
        saturates(eva.area_gain, [_excess(task, weight) for weight in others]),
        f"mean return over training {_areas(task)}; from 0 to {PAPER_WEIGHT:g} {gained(eva.area_gain)}, from "
        f"{PAPER_WEIGHT:g} to {TWO_COINS_WEIGHTS[-1]:g} {gained(further)}",
        seeds(len(task.variants[0].runs)),
    )
    return learning_judgement(evidence.tasks, (boost, saturation))


def learning_judgement(tasks: Sequence[Task], findings: tuple[Finding, ...], baseline: str = DQN) -> Judgement:
    """Return the findings with the learning curves and measures behind them, all against the baseline."""
    return Judgement(
        outcome=f"{final_returns_in_words(tasks[0])}.",
        findings=findings,
        tables=learning_tables(tasks, baseline),
        figures={"curves": figure_files(tasks)},
        numbers=numbers(tasks, baseline),
    )


def final_returns_in_words(task: Task) -> str:
    """Return the final return of each arm, for an outcome."""
    ends = ", ".join(f"{number(each.final.value)} ({name})" for name, each in measure_arms(task).items())
    return "; ".join([f"Final returns: {ends}", *levels_in_words(task)])


def _area_gain(task: Task, first: float, second: float) -> Estimate:
    """Return what the mean return over training gains from one weight to another."""
    higher, lower = (areas_under(variant(task, label(weight)), task) for weight in (second, first))
    return difference(higher, lower)


def _excess(task: Task, weight: float) -> Estimate:
    """Return what a weight has above the paper's, less what a saturated gain may still gain."""
    areas = (areas_under(variant(task, label(each)), task) for each in (weight, PAPER_WEIGHT, 0.0))
    return estimate(lambda other, paper, dqn: other - paper - SATURATED * (paper - dqn), *areas)


def _data_needed(task: Task) -> str:
    comparisons, dqn = compare_arms(task), variant(task, DQN)
    eva = comparisons[label(PAPER_WEIGHT)]
    below = task.chance is not None and measure_arms(task)[DQN].final.value < task.chance
    return (
        f"of DQN's data, weight {PAPER_WEIGHT:g} needs {share(eva.data_share)} to reach DQN's final return"
        f"{', which random play exceeds' * below}, DQN itself {share(comparisons[DQN].data_share)} (looked for from "
        f"{eva.data_share_from:.0%} on), and {saving(eva.data_saved)} are saved; over the last fifth of its "
        f"training DQN's return still changes by {gained(late_change(dqn))}"
    )


def _areas(task: Task) -> str:
    return ", ".join(f"{number(each.area.value)} ({name})" for name, each in measure_arms(task).items())


_DATA = (
    "The data share is the number of transitions after which the mean learning curve, from where its window begins "
    "after exploration has decayed, first reaches the mean final return of DQN, divided by the length of DQN's "
    "training (P85)."
)

ONE_COIN = Experiment(
    name="maze-one-coin",
    title="EVA throughout training, one coin",
    claims=(
        Claim(
            "Fig. 2 centre",
            "EVA requires slightly more than half of the data to obtain the final performance of DQN.",
            "Holds if the whole interval of the data share is at most 60%, and EVA takes beyond doubt less than DQN "
            "itself to get there; in part if only the latter. " + _DATA,
        ),
        Claim(
            "Fig. 2 centre",
            "With one coin, a higher weight is better.",
            "Of the mean return over training: holds if it rises with every step of the weight, and both from 0 to 0.8 "
            "and from 0.4 to 0.8 beyond doubt; in part if so over one of these, and over both by the estimates.",
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
            "Holds if, beyond doubt, the mean return over training with weight 0.4 is above DQN's, and the data share "
            "below DQN's own; in part if that is true of one. " + _DATA,
        ),
        Claim(
            "Fig. 2 right",
            "With two coins, performance saturates around a weight of 0.4.",
            "Of the mean return over training: holds if, beyond doubt, 0.4 is above DQN, and no other weight above 0.4 "
            "by a quarter of that gain; in part if the latter only by the estimates.",
        ),
    ),
    arms=two_coins_arms,
    judge=judge_two_coins,
    remarks=(TUNED_WITH_ONE_COIN,),
)
