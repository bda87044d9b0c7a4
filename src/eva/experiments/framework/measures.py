"""What arms are compared by."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

import numpy as np

from eva.config import EVALUATION_EPSILON
from eva.experiments.framework.evidence import Evidence
from eva.report.curves import FINAL_SHARE, GRID_POINTS, curve, final_return, late_returns
from eva.report.statistics import (
    Draw,
    Estimate,
    FloatArray,
    bootstrap,
    by_run,
    difference,
    first_reached,
    known_mean,
    mean,
)

BASELINE, GREEDY = "DQN", 0.0
Values = Callable[[Evidence, str, str], FloatArray]
"""From evidence, task and label to one number for each unit of an arm, (n,)."""


@dataclass(frozen=True)
class Measure:
    """A number for each unit of an arm, usually for each seed."""

    name: str
    values: Values
    unit: str = "seeds"  # what n counts
    paired: bool = False  # whether unit i of one arm belongs to unit i of another
    higher_is_better: bool = True
    over_tasks: bool = False  # whether it combines all tasks

    def estimate(self, evidence: Evidence, task: str, label: str) -> Estimate:
        """Return the mean over units."""
        return mean(self.values(evidence, task, label))

    def difference(self, evidence: Evidence, task: str, label: str, other: str | float) -> Estimate:
        """Return how much the arm is above another arm or a level."""
        theirs = self.values(evidence, task, other) if isinstance(other, str) else other
        return difference(self.values(evidence, task, label), theirs, paired=self.paired)


Number = Callable[[Mapping[str, FloatArray], str], float]
"""From the values of several arms and the label of one to its number."""


@dataclass(frozen=True)
class ArmMeasure(Measure):
    """One number for all runs of an arm, with a bootstrap CI; it may depend on the baseline's runs too.

    `values`, (seeds, ...), are what is resampled. `number` prepares what does not change between resamples.
    """

    _: KW_ONLY
    number: Callable[[Evidence, str], Number]
    draw: Draw = by_run

    def estimate(self, evidence: Evidence, task: str, label: str) -> Estimate:
        """Return the arm's number."""
        return self.difference(evidence, task, label, 0.0)

    def difference(self, evidence: Evidence, task: str, label: str, other: str | float) -> Estimate:
        """Return how much the arm is above another arm or a level."""
        labels = list(dict.fromkeys(each for each in (label, other, BASELINE) if isinstance(each, str)))
        number = self.number(evidence, task)

        def gain(*drawn: FloatArray) -> float:
            arms = dict(zip(labels, drawn, strict=True))
            mine, theirs = (number(arms, each) if isinstance(each, str) else each for each in (label, other))
            return 0.0 if np.isinf(mine) and mine == theirs else mine - theirs  # 0: neither reaches the level

        return bootstrap(gain, *(self.values(evidence, task, each) for each in labels), draw=self.draw)


def _evaluation_curves(evidence: Evidence, task: str, label: str, epsilon: float = GREEDY) -> FloatArray:
    """Return each seed's mean return at each evaluation, (seeds, evaluations)."""
    curves: FloatArray = evidence.evaluations(task, label, epsilon).mean(axis=1).T
    return curves


def _share_needed(evidence: Evidence, task: str) -> Number:
    """Return when the mean greedy return first reaches the baseline's final one less the margin, as a share of its run.

    Between evaluations the mean greedy return is interpolated linearly.
    """
    margin = evidence.tasks[task].margin

    def share(arms: Mapping[str, FloatArray], label: str) -> float:
        target = float(_late(arms[BASELINE]).mean()) - margin
        points = arms[label].shape[1]
        done = np.linspace(0.0, 1.0, points + 1)[1:]
        grid = np.linspace(done[0], 1.0, GRID_POINTS + 1)
        return first_reached(np.interp(grid, done, arms[label].mean(axis=0)), target, grid)

    return share


def _late(curves: FloatArray, fifths_before_end: int = 0) -> FloatArray:
    """Return the evaluations in the last fifth of training, or one before it: (seeds, evaluations) -> (seeds, some)."""
    count = max(1, round(FINAL_SHARE * curves.shape[1]))
    end = curves.shape[1] - count * fifths_before_end
    return curves[:, max(0, end - count) : end]


def evaluated(name: str, epsilon: float, *, late: bool = False, paired: bool = False) -> Measure:
    """Return the mean return of the evaluations with an epsilon: throughout training, or in its last fifth."""

    def values(evidence: Evidence, task: str, label: str) -> FloatArray:
        curves = _evaluation_curves(evidence, task, label, epsilon)
        means: FloatArray = (_late(curves) if late else curves).mean(axis=1)
        return means

    return Measure(name, values, paired=paired)


def _rise(evidence: Evidence, task: str, label: str) -> FloatArray:
    curves = _evaluation_curves(evidence, task, label, EVALUATION_EPSILON)
    rises: FloatArray = _late(curves).mean(axis=1) - _late(curves, 1).mean(axis=1)
    return rises / evidence.tasks[task].margin


def greedy_mean(until: int) -> Measure:
    """Return the mean greedy return over the first transitions of a run."""

    def values(evidence: Evidence, task: str, label: str) -> FloatArray:
        period = evidence.arms[task, label].jobs[0].config.evaluation.period_transitions or until
        means: FloatArray = _evaluation_curves(evidence, task, label)[:, : until // period].mean(axis=1)
        return means

    return Measure(f"greedy return, first {until:,}", values)


def _mean_return(evidence: Evidence, task: str, label: str) -> FloatArray:
    """Return the mean of each run's learning curve."""
    return known_mean(np.array([curve(run, evidence.tasks[task].grid) for run in evidence.group(task, label).runs]))


def gain(name: str, over: Mapping[str, str]) -> Measure:
    """Return each seed's greedy return over training less that of the arm that `over` names."""
    values = GREEDY_MEAN.values
    return Measure(name, lambda e, task, label: values(e, task, label) - values(e, task, over[label]))


FINAL_RETURN = Measure("final return", lambda e, *arm: np.array([final_return(x) for x in e.group(*arm).runs]))
MEAN_RETURN = Measure("mean return over training", _mean_return)
LARGEST_Q = Measure("largest abs(Q)", lambda e, *arm: np.array([np.max([x.largest_abs_q for x in e.group(*arm).runs])]))
GREEDY_MEAN = evaluated("greedy return over training", GREEDY)
GREEDY_FINAL = evaluated("final greedy return", GREEDY, late=True)
SLIGHTLY_RANDOM_FINAL = evaluated(f"final return, epsilon {EVALUATION_EPSILON:g}", EVALUATION_EPSILON, late=True)
RISE = Measure("rise over the last fifth of training, in margins", _rise)
DATA_SHARE = ArmMeasure(
    "transitions to DQN's end, of its run", _evaluation_curves, higher_is_better=False, number=_share_needed
)
LATE_EPISODES = Measure("return of late episodes", lambda e, *arm: late_returns(e.group(*arm).runs[0]), "episodes")


def num_failed(evidence: Evidence, task: str, label: str) -> int:
    """Return how many runs of an arm end no better than random play: by greedy episodes, if there are any."""
    arm, chance = evidence.arms[task, label], evidence.tasks[task].chance if task in evidence.tasks else None
    if not arm.jobs or chance is None:
        return 0
    is_evaluated = arm.jobs[0].config.evaluation.period_transitions is not None
    final = (GREEDY_FINAL if is_evaluated else FINAL_RETURN).values(evidence, task, label)
    return int((final <= chance).sum())
