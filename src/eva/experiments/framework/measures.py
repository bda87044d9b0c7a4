"""What arms are compared by."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from eva.experiments.framework.evidence import Evidence
from eva.report.curves import GRID_POINTS, WINDOW_SHARE, curve, final_return, late_returns
from eva.report.statistics import Draw, Estimate, FloatArray, bootstrap, by_run, difference, first_reached, mean

BASELINE = "DQN"
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


def _curves_and_finals(evidence: Evidence, task: str, label: str) -> FloatArray:
    """Return each seed's learning curve and final return, (seeds, G + 2).

    The curve is NaN until its averaging window lies after the decay of epsilon: before, random play may be as good
    as what is learned.
    """
    runs, grid = evidence.group(task, label).runs, evidence.tasks[task].grid
    decay = runs[0].config.get("exploration", {}).get("epsilon_decay_transitions", 0)
    counts = grid >= min(decay + WINDOW_SHARE * evidence.group(task, BASELINE).runs[0].planned, grid[-1])
    return np.array([[*np.where(counts, curve(run, grid), np.nan), final_return(run)] for run in runs])


def _share_needed(evidence: Evidence, task: str) -> Number:
    """Return when the mean curve first reaches the baseline's final return less the margin, as a share of its run."""
    whole, length = evidence.tasks[task], evidence.group(task, BASELINE).runs[0].planned

    def share(arms: Mapping[str, FloatArray], label: str) -> float:
        target = float(arms[BASELINE][:, -1].mean()) - whole.margin
        return first_reached(arms[label][:, :-1].mean(axis=0), target, whole.grid) / length

    return share


def mean_return(until: int | None = None) -> Measure:
    """Return the mean of the learning curve, over all of training or its first transitions."""

    def values(evidence: Evidence, task: str, label: str) -> FloatArray:
        grid, runs = evidence.tasks[task].grid, evidence.group(task, label).runs
        if until is not None:  # as if the run had ended there: no schedule depends on its length
            if min(run.planned for run in runs) < until:
                return np.full(len(runs), np.nan)
            grid = np.linspace(0.0, until, GRID_POINTS + 1)
            runs = tuple(replace(run, planned=until, transitions=min(until, run.transitions)) for run in runs)
        curves = np.array([curve(run, grid) for run in runs])
        known = ~np.isnan(curves)
        with np.errstate(invalid="ignore"):
            means: FloatArray = np.where(known, curves, 0.0).sum(axis=1) / known.sum(axis=1)
        return means

    return Measure("mean return over training" if until is None else f"mean return, first {until:,}", values)


def single_episodes(name: str, *periods_before_end: int, unit: str = "networks", paired: bool = True) -> Measure:
    """Return the mean return of the single episodes that each network played in one evaluation or several."""

    def values(evidence: Evidence, task: str, label: str) -> FloatArray:
        means: FloatArray = np.mean([evidence.evaluation(task, label, i) for i in periods_before_end], axis=(0, 1))
        return means

    return Measure(name, values, unit, paired)


def gain(name: str, over: Mapping[str, str]) -> Measure:
    """Return each seed's mean return over training less that of the arm that `over` names."""
    values = MEAN_RETURN.values
    return Measure(name, lambda e, task, label: values(e, task, label) - values(e, task, over[label]))


FINAL_RETURN = Measure("final return", lambda e, *arm: np.array([final_return(x) for x in e.group(*arm).runs]))
MEAN_RETURN = mean_return()
LARGEST_Q = Measure("largest abs(Q)", lambda e, *arm: np.array([np.max([x.largest_abs_q for x in e.group(*arm).runs])]))
DATA_SHARE = ArmMeasure(
    "transitions to DQN's end, of its run", _curves_and_finals, higher_is_better=False, number=_share_needed
)
LATE_EPISODES = Measure("return of late episodes", lambda e, *arm: late_returns(e.group(*arm).runs[0]), "episodes")
