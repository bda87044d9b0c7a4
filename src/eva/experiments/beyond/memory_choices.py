"""Why the paper's numbers are what they are: what each change does to the data needed and to the speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from eva.experiments.beyond.choices import (
    CHOICES,
    DEFAULT,
    FEW,
    LARGE,
    LONG,
    MANY,
    NUMBERS,
    OFTEN,
    READINGS,
    RECOMPUTED,
    SELDOM,
    SHORT,
    SMALL,
    Choice,
    arms,
)
from eva.experiments.framework.common import DOUBLE_DQN, PAPER_WEIGHT, margin
from eva.experiments.framework.definition import OURS, Claim, Experiment, Finding, Judgement, Table
from eva.experiments.framework.evidence import Evidence, variant
from eva.experiments.framework.judge import Effect, are_all_below, both, effect, is_below, rises
from eva.experiments.framework.words import brief, brief_gain, brief_share, gained, measured_by, plain, seeds, times
from eva.report.curves import Task, Variant
from eva.report.measures import Comparison, Estimate, areas_under, compare, difference, mean
from eva.report.plots import Intervals, Panel, intervals_files
from eva.report.statistics import CONFIDENCE
from eva.report.verdict import number


@dataclass(frozen=True)
class Row:
    """A choice in numbers: against its reference, and how fast it is, as a share of the reference's speed."""

    comparison: Comparison
    speed: Estimate
    margin: float

    @property
    def effect(self) -> Effect:
        """What the choice does to the mean return over training."""
        return effect(self.comparison.area_gain, self.margin)


def measure(is_quick: bool) -> dict[str, Any]:
    """Return how fast each choice is on this machine."""
    from eva.timing.choice_speeds import measure_speeds  # imports torch: not to list runs

    return measure_speeds({arm.label: arm.jobs[0].config for arm in arms()}, is_quick)


def judge(evidence: Evidence) -> Judgement:
    """Judge the numbers, the readings, and what more plans, fewer neighbours and a larger memory give."""
    tasks = _tasks(evidence)
    speeds = evidence.measured
    rows = {DOUBLE_DQN: _row(tasks[SHORT], DOUBLE_DQN, DEFAULT, speeds)}
    rows |= {each.label: _row(tasks[each.task], each.label, each.reference, speeds) for each in CHOICES}
    certainty = seeds(len(variant(tasks[LONG], DEFAULT).runs))
    findings = (
        _none_better(NUMBERS, tasks, certainty),
        _none_better(READINGS, tasks, certainty),
        _recomputing(rows[RECOMPUTED.label], certainty),
        _lowest_frequency(rows, certainty),
        _rising(tasks[SHORT], (MANY.label, DEFAULT, FEW.label), certainty),
        _rising(tasks[LONG], (SMALL.label, DEFAULT, LARGE.label), certainty),
    )
    return Judgement(
        outcome=f"Of {len(CHOICES)} changes: {_by_effect(rows)}.",
        findings=findings,
        tables=(_table(tasks, rows, speeds),),
        figures={"choices": intervals_files(_figure(rows))},
        numbers={
            "choices": plain({name: {**asdict(row), "effect": row.effect} for name, row in rows.items()}),
            "microseconds": speeds["microseconds"],
        },
        lessons=_lessons(rows),
    )


def _tasks(evidence: Evidence) -> dict[str, Task]:
    """Return the tasks by name; the short one with the beginnings of the long runs of the default and Double DQN."""
    tasks = {task.name: task for task in evidence.tasks}
    short, length = tasks[SHORT], tasks[SHORT].runs[0].planned
    beginnings = [_beginning(variant(tasks[LONG], label), length) for label in (DEFAULT, DOUBLE_DQN)]
    return {**tasks, SHORT: replace(short, variants=(*beginnings, *short.variants))}


def _beginning(whole: Variant, length: int) -> Variant:
    """Return runs as if they had been ended earlier: no schedule depends on the length, so they begin the same."""
    runs = []
    for run in whole.runs:
        early = run.episode_steps <= length
        runs.append(
            replace(
                run,
                planned=length,
                transitions=length,
                episode_steps=run.episode_steps[early],
                episode_returns=run.episode_returns[early],
            )
        )
    return replace(whole, runs=tuple(runs))


def _row(task: Task, label: str, reference: str, speeds: dict[str, Any]) -> Row:
    here, there = (np.array(speeds["microseconds"][name]) for name in (label, reference))
    comparison = compare(task, variant(task, label), variant(task, reference))
    return Row(comparison, mean(there / here), margin(task))


def _none_better(choices: Sequence[Choice], tasks: dict[str, Task], certainty: str) -> Finding:
    """Judge several choices with intervals so wide that, together, they err no more often than one of 95%."""
    confidence = 1 - (1 - CONFIDENCE) / len(choices)
    gains = {}
    for each in choices:
        task = tasks[each.task]
        mine, reference = (areas_under(variant(task, name), task) for name in (each.label, each.reference))
        gains[each.label] = difference(mine, reference, confidence)
    best = max(gains, key=lambda label: gains[label].value)
    most = margin(tasks[LONG])
    return Finding(
        are_all_below(list(gains.values()), most),
        f"the largest gain in the mean return over training, of {len(gains)}, is that of '{best}': "
        f"{gained(gains[best], confidence)}",
        f"{certainty}, {len(gains)} intervals of 95% together; a gain of up to {number(most)} counts as none",
    )


def _recomputing(row: Row, certainty: str) -> Finding:
    gains_little = is_below(row.comparison.area_gain, row.margin)
    return Finding(
        gains_little if gains_little == "does not hold" else both(gains_little, is_below(row.speed, 1.0)),
        f"it changes the mean return over training by {gained(row.comparison.area_gain)} and has "
        f"{times(row.speed)} times the speed",
        f"{certainty}, and over rounds in turn; a gain of up to {number(row.margin)} counts as none",
    )


def _lowest_frequency(rows: dict[str, Row], certainty: str) -> Finding:
    often, seldom = rows[OFTEN.label], rows[SELDOM.label]
    return Finding(
        both(is_below(often.comparison.area_gain, often.margin), is_below(seldom.comparison.area_gain)),
        f"against planning every 20 steps, the mean return over training changes by "
        f"{gained(often.comparison.area_gain)} with plans at every step, by {gained(seldom.comparison.area_gain)} with "
        "plans every 100",
        f"{certainty}; a gain of up to {number(often.margin)} counts as none",
    )


def _rising(task: Task, labels: tuple[str, str, str], certainty: str) -> Finding:
    """Judge that the second is better than the first, and the third better still."""
    least, middle, most = (areas_under(variant(task, label), task) for label in labels)
    steps, whole = [difference(middle, least), difference(most, middle)], difference(most, least)
    areas = ", ".join(
        f"{number(each.mean())} ({label})" for each, label in zip((least, middle, most), labels, strict=True)
    )
    return Finding(
        rises(steps, [whole]),
        f"mean return over training {areas}; from the first to the last {gained(whole)}",
        certainty,
    )


def _by_effect(rows: dict[str, Row]) -> str:
    """Return how many choices have each effect, and which, without Double DQN."""
    kinds: dict[str, list[str]] = {}
    for each in CHOICES:
        kinds.setdefault(rows[each.label].effect, []).append(each.label)
    return "; ".join(f"{len(labels)} {kind} ({', '.join(labels)})" for kind, labels in sorted(kinds.items()))


def _lessons(rows: dict[str, Row]) -> tuple[str, ...]:
    telling = [
        f"'{each.label}' is {rows[each.label].effect}: it changes the mean return over training by "
        f"{gained(rows[each.label].comparison.area_gain)}, at {times(rows[each.label].speed)} times the speed."
        for each in CHOICES
        if rows[each.label].effect in ("better", "worse")
    ]
    first = (
        f"In the maze with two coins, {DOUBLE_DQN} and weight {PAPER_WEIGHT:g}, of {len(CHOICES)} changes of the "
        f"default: {_by_effect(rows)}. Among so many, one or two may be better or worse by chance."
    )
    return (first, *telling)


def _table(tasks: dict[str, Task], rows: dict[str, Row], speeds: dict[str, Any]) -> Table:
    cells = []
    for label, task in ((DOUBLE_DQN, SHORT), *((each.label, each.task) for each in CHOICES)):
        row = rows[label]
        gains = [brief_gain(gain) for gain in (row.comparison.area_gain, row.comparison.final_gain)]
        cells.append([label, *gains, brief_share(row.comparison.data_share), brief(row.speed), row.effect, task])
    length = tasks[SHORT].runs[0].planned
    own = brief_share(compare(tasks[SHORT], *[variant(tasks[SHORT], DEFAULT)] * 2).data_share)
    least = max(row.comparison.data_share_from for row in rows.values())
    caption = (
        "Differences to the default, the share of its transitions after which the mean learning curve first reaches "
        f"its final return (looked for from {least:.0%} on, when exploration has decayed; the default itself, over the "
        f"first {length:,}: {own}), and transitions per second as a multiple of the default's; 95% bootstrap "
        "intervals, over seeds and over rounds in turn. With two environments the reference is a shared value buffer. "
        f"Speed: one thread's processor time, {measured_by(speeds)}."
    )
    heads = ["", "mean return over training", "final return", "share of the data", "speed", "effect", "compared over"]
    return Table(caption, heads, cells)


def _figure(rows: dict[str, Row]) -> Intervals:
    comparisons = [row.comparison for row in rows.values()]
    return Intervals(
        tuple(rows),
        (
            Panel("mean return over training,\nless the default's", [each.area_gain for each in comparisons], 0.0),
            Panel("share of the default's data", [each.data_share for each in comparisons]),
            Panel("speed, as a multiple\nof the default's", [row.speed for row in rows.values()], 1.0),
        ),
    )


_NO_BETTER = (
    "Of the mean return over training: holds if the whole interval of every gain lies below 5% of the optimal return, "
    "and does not if one lies wholly above; intervals are widened for their number."
)
_RISES = (
    "Of the mean return over training: holds if both steps change it as said, and from the first to the last beyond "
    "doubt; in part if only the latter."
)
EXPERIMENT = Experiment(
    name="memory-choices",
    title="Which of EVA's choices matter, two coins",
    claims=(
        Claim(OURS, "No other k, M, T, period or size of the memory that was tried is better.", _NO_BETTER),
        Claim(OURS, "The other readings of P2, P6, P8 and P23 are no better than ours.", _NO_BETTER),
        Claim(
            OURS,
            "Recomputing the values of remembered states costs more than it gains.",
            "Holds if, beyond doubt, it gains less than 5% of the optimal return over training and is slower; in part "
            "if that is true of one. Does not hold if it gains more beyond doubt.",
        ),
        Claim(
            "Section 5.2",
            "Planning every 20 steps is the lowest frequency that does not harm performance.",
            "Of the mean return over training: holds if, beyond doubt, planning at every step gains less than 5% of "
            "the optimal return, and planning every 100 steps loses; in part if that is true of one.",
        ),
        Claim("Section 5.2", "Performance decreases as the number of neighbours increases: 1, 5, 20.", _RISES),
        Claim(OURS, "A larger memory is better: 5,000, 50,000, 200,000 states.", _RISES),
    ),
    arms=arms,
    judge=judge,
    measure=measure,
    remarks=(
        "Better or worse: the mean return over training differs beyond doubt, and by at least 5% of the optimal "
        "return. No difference: the whole interval lies within that. Undecided: else (P121).",
        f"These are {len(CHOICES)} comparisons at 95% each, most with the same runs, and with five seeds intervals are "
        "too narrow: one or two may be beyond doubt by chance, and then they tend to err together.",
        f"All learn by {DOUBLE_DQN}, with weight {PAPER_WEIGHT:g}: the five runs of the default differ least with it, "
        "and with DQN few learn anything in so short a time (P122). It was chosen after these runs of the default had "
        "been seen: they may have been lucky, which would favour the default in every comparison.",
        f"The default and {DOUBLE_DQN} are the runs of baselines; most comparisons are with their first transitions. "
        "Sizes of the memory are compared over 150,000, since up to 50,000 nothing is forgotten (P122).",
        "The paper says the two things of Atari.",
        "M and k count entries, and one memory may come up several times: the 5 that a decision reads are about two "
        "different ones (P35).",
        "P8 makes a difference with several environments only, so it is compared with two, which halves the updates "
        "for each transition (P122).",
    ),
)
