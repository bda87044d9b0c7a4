"""What arms are compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from eva.experiments.framework.evidence import Evidence
from eva.report.curves import GRID_POINTS, WINDOW_SHARE, Group, curve, final_return, late_returns
from eva.report.statistics import Estimate, FloatArray, bootstrap, difference, first_reached, mean


@dataclass(frozen=True)
class Measure:
    """A number for each unit of an arm, usually for each seed.

    Attributes:
        name: For tables.
        values: From evidence, task and label to one number for each unit, (n,).
        unit: What n counts.
        paired: Whether unit i of one arm belongs to unit i of another.
        higher_is_better: If false, a lower number is better.
        over_tasks: Whether it combines all tasks.
    """

    name: str
    values: Callable[[Evidence, str, str], FloatArray]
    unit: str = "seeds"
    paired: bool = False
    higher_is_better: bool = True
    over_tasks: bool = False

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

    In units of the baseline's training length; infinite if it is never reached. The curve counts from where its
    window begins after exploration has decayed: before, random play may be as good as what is learned.

    Attributes:
        baseline: Label of the baseline.
        margin: Share of (optimum - random play) by which the baseline's final return may be missed.
    """

    baseline: str = "DQN"
    margin: float = 0.05
    higher_is_better: bool = False

    def estimate(self, evidence: Evidence, task: str, label: str) -> Estimate:
        """Return the share of the baseline's transitions that the arm needs."""
        return self._bootstrap(evidence, task, label, None)

    def difference(self, evidence: Evidence, task: str, label: str, other: str | float) -> Estimate:
        """Return how much more the arm needs than another arm, or than a share."""
        if not isinstance(other, str):
            share = self.estimate(evidence, task, label)
            return replace(share, value=share.value - other, low=share.low - other, high=share.high - other)
        return self._bootstrap(evidence, task, label, other)

    def _bootstrap(self, evidence: Evidence, task: str, label: str, other: str | None) -> Estimate:
        whole, baseline = evidence.tasks[task], evidence.group(task, self.baseline)
        length = baseline.runs[0].planned
        labels = list(dict.fromkeys(each for each in (label, other, self.baseline) if each is not None))
        groups = {each: evidence.group(task, each) for each in labels}
        begin = WINDOW_SHARE * length + max(map(_end_of_exploration, groups.values()))
        grid = whole.grid[whole.grid >= min(begin, whole.grid[-1])]
        slack = self.margin * (whole.optimum - whole.chance) if whole.optimum and whole.chance is not None else 0.0

        def needed(*rows: FloatArray) -> float:
            """Rows (seeds, G + 1) hold each seed's curve and final return."""
            means = {each: arm.mean(axis=0) for each, arm in zip(labels, rows, strict=True)}
            target = means[self.baseline][-1] - slack
            mine, theirs = (
                0.0 if each is None else first_reached(means[each][:-1], target, grid) / length
                for each in (label, other)
            )
            return mine - theirs if np.isfinite(mine) or np.isfinite(theirs) else 0.0

        return bootstrap(needed, *(_curves_and_finals(groups[each], grid) for each in labels))


def _curves_and_finals(group: Group, grid: FloatArray) -> FloatArray:
    return np.column_stack([[curve(run, grid) for run in group.runs], [final_return(run) for run in group.runs]])


def _end_of_exploration(group: Group) -> float:
    return float(group.runs[0].config.get("exploration", {}).get("epsilon_decay_transitions", 0))


def mean_return(until: int | None = None) -> Measure:
    """Return the mean of the learning curve, over all of training or its first transitions."""

    def values(evidence: Evidence, task: str, label: str) -> FloatArray:
        grid = evidence.tasks[task].grid if until is None else np.linspace(0.0, until, GRID_POINTS + 1)
        runs = evidence.group(task, label).runs
        if until is not None:  # as if the run had ended there: no schedule depends on its length
            runs = tuple(replace(run, planned=until, transitions=min(until, run.transitions)) for run in runs)
        with np.errstate(invalid="ignore"):
            return np.array([_nanmean(curve(run, grid)) for run in runs])

    return Measure("mean return over training" if until is None else f"mean return, first {until:,}", values)


def _nanmean(values: FloatArray) -> float:
    return float(np.nanmean(values)) if not np.isnan(values).all() else np.nan


def single_episodes(name: str = "return of single episodes", occasion: int = -1) -> Measure:
    """Return the mean return of the single episodes that each network played on an occasion, with the arm's weight."""
    return Measure(
        name,
        lambda evidence, task, label: evidence.played(task, label, occasion).mean(axis=0),
        unit="networks",
        paired=True,
    )


def gain(name: str, over: Mapping[str, str]) -> Measure:
    """Return each seed's mean return over training less that of the arm that `over` names."""
    values = MEAN_RETURN.values
    return Measure(
        name, lambda evidence, task, label: values(evidence, task, label) - values(evidence, task, over[label])
    )


FINAL_RETURN = Measure(
    "final return",
    lambda evidence, task, label: np.array([final_return(run) for run in evidence.group(task, label).runs]),
)
MEAN_RETURN = mean_return()
DATA_SHARE = DataShare("share of DQN's transitions", FINAL_RETURN.values)
LATE_EPISODES = Measure(
    "return of late episodes",
    lambda evidence, task, label: late_returns(evidence.group(task, label).runs[0]),
    unit="episodes",
)
