"""What arms are compared by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from eva.experiments.framework.evidence import Evidence
from eva.report.curves import GRID_POINTS, WINDOW_SHARE, curve, final_return, late_returns
from eva.report.statistics import Estimate, FloatArray, bootstrap, difference, first_reached, mean

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


@dataclass(frozen=True)
class DataShare(Measure):
    """Transitions until the mean learning curve reaches the baseline's final return less a margin, with bootstrap CIs.

    In units of the baseline's training length; infinite if it is never reached. Points count once their
    averaging window lies after the decay of epsilon: before, random play may be as good as what is learned.
    """

    higher_is_better: bool = False

    def estimate(self, evidence: Evidence, task: str, label: str) -> Estimate:
        """Return the share of the baseline's transitions that the arm needs."""
        return self.difference(evidence, task, label, 0.0)

    def difference(self, evidence: Evidence, task: str, label: str, other: str | float) -> Estimate:
        """Return how much more the arm needs than another arm, or than a share."""
        whole = evidence.tasks[task]
        labels = list(dict.fromkeys(each for each in (label, other, BASELINE) if isinstance(each, str)))
        runs = {each: evidence.group(task, each).runs for each in labels}
        length = runs[BASELINE][0].planned
        explorations = [arm[0].config.get("exploration", {}) for arm in runs.values()]
        begin = WINDOW_SHARE * length + max(each.get("epsilon_decay_transitions", 0) for each in explorations)
        grid = whole.grid[whole.grid >= min(begin, whole.grid[-1])]

        def needed(*rows: FloatArray) -> float:
            """Rows (seeds, G + 1) hold each seed's curve and final return."""
            means = {each: arm.mean(axis=0) for each, arm in zip(labels, rows, strict=True)}
            target = means[BASELINE][-1] - whole.margin
            mine, theirs = (
                first_reached(means[each][:-1], target, grid) / length if isinstance(each, str) else each
                for each in (label, other)
            )
            return mine - theirs if np.isfinite(mine) or np.isfinite(theirs) else 0.0

        rows = (np.array([[*curve(run, grid), final_return(run)] for run in runs[each]]) for each in labels)
        return bootstrap(needed, *rows)


def mean_return(until: int | None = None) -> Measure:
    """Return the mean of the learning curve, over all of training or its first transitions."""

    def values(evidence: Evidence, task: str, label: str) -> FloatArray:
        grid, runs = evidence.tasks[task].grid, evidence.group(task, label).runs
        if until is not None:  # as if the run had ended there: no schedule depends on its length
            grid = np.linspace(0.0, until, GRID_POINTS + 1)
            runs = tuple(replace(run, planned=until, transitions=min(until, run.transitions)) for run in runs)
        curves = np.array([curve(run, grid) for run in runs])
        known = ~np.isnan(curves)
        with np.errstate(invalid="ignore"):
            means: FloatArray = np.where(known, curves, 0.0).sum(axis=1) / known.sum(axis=1)
        return means

    return Measure("mean return over training" if until is None else f"mean return, first {until:,}", values)


def single_episodes(name: str = "return of single episodes", periods_before_end: int = 0) -> Measure:
    """Return the mean return of the single episodes that each network played in an evaluation."""

    def values(evidence: Evidence, task: str, label: str) -> FloatArray:
        means: FloatArray = evidence.evaluation(task, label, periods_before_end).mean(axis=0)
        return means

    return Measure(name, values, "networks", paired=True)


def gain(name: str, over: Mapping[str, str]) -> Measure:
    """Return each seed's mean return over training less that of the arm that `over` names."""
    values = MEAN_RETURN.values
    return Measure(name, lambda e, task, label: values(e, task, label) - values(e, task, over[label]))


FINAL_RETURN = Measure(
    "final return", lambda e, task, label: np.array([final_return(run) for run in e.group(task, label).runs])
)
MEAN_RETURN = mean_return()
DATA_SHARE = DataShare("share of DQN's transitions", FINAL_RETURN.values)
LATE_EPISODES = Measure(
    "return of late episodes", lambda e, task, label: late_returns(e.group(task, label).runs[0]), "episodes"
)
