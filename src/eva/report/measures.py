"""How good a variant is, and how sure that is: estimates with 95% bootstrap intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eva.report.curves import FINAL_SHARE, WINDOW_SHARE, Task, Variant, curve, final_return
from eva.report.statistics import CONFIDENCE, FloatArray, interval, resample, resampled_means


@dataclass(frozen=True)
class Estimate:
    """A number and its 95% interval; infinite where something was never reached, NaN where one seed tells nothing."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measures:
    """A variant in numbers.

    Attributes:
        seeds: Of its runs.
        finals: The final return of each seed, see `final_return`.
        areas: The mean over training of each seed's learning curve: the area under it, divided by its length.
        final: Mean of the finals.
        area: Mean of the areas.
    """

    seeds: tuple[int, ...]
    finals: tuple[float, ...]
    areas: tuple[float, ...]
    final: Estimate
    area: Estimate


@dataclass(frozen=True)
class Comparison:
    """A variant against a baseline.

    Attributes:
        final_gain: What its final return is above the baseline's.
        area_gain: What its mean over training is above the baseline's.
        data_share: Transitions until its mean learning curve first reaches the baseline's final return, divided by the
            length of the baseline's training; infinite if it never does. The curve counts from where its window
            begins after exploration has decayed: before, random play may be as good as what is learned.
        data_share_from: The least share that can be told: where the curve begins to count.
        data_saved: What the baseline's own curve needs to get there, less that.
        num_reached: Seeds whose own learning curve reaches the baseline's final return.
    """

    final_gain: Estimate
    area_gain: Estimate
    data_share: Estimate
    data_share_from: float
    data_saved: Estimate
    num_reached: int


def estimate(statistic: Callable[..., FloatArray], *arms: FloatArray, confidence: float = CONFIDENCE) -> Estimate:
    """Return a statistic of means over seeds, and its bootstrap interval; each arm is resampled for itself.

    Args:
        statistic: From arrays of means (n, ...), one for each arm, to the n values (n,).
        arms: A row for each seed, (seeds, ...).
        confidence: Of the interval.
    """
    generator = np.random.default_rng(0)
    samples = statistic(*(resampled_means(arm, generator) for arm in arms))
    return _estimate(float(statistic(*(arm.mean(axis=0)[None] for arm in arms))[0]), samples, arms, confidence)


def aggregate_estimate(statistic: Callable[..., float], *arms: FloatArray) -> Estimate:
    """Return a statistic of scores (runs, games, ...), and its bootstrap interval, stratified by game."""
    return _estimate(float(statistic(*arms)), resample(statistic, *arms), arms)


def mean(values: FloatArray) -> Estimate:
    """Return the mean over seeds."""
    return estimate(lambda means: means, values)


def mean_by_episode(values: FloatArray) -> Estimate:
    """Return the mean of (episodes, networks), resampled by episode: its start is the same for each of the networks."""
    return mean(values.mean(axis=1))


def difference(first: FloatArray, second: FloatArray, confidence: float = CONFIDENCE) -> Estimate:
    """Return by how much the first mean over seeds is above the second."""
    return estimate(np.subtract, first, second, confidence=confidence)


def measure(task: Task, variant: Variant) -> Measures:
    """Reduce a variant to numbers."""
    finals, areas = final_returns(variant), areas_under(variant, task)
    return Measures(
        seeds=tuple(run.seed for run in variant.runs),
        finals=tuple(finals.tolist()),
        areas=tuple(areas.tolist()),
        final=mean(finals),
        area=mean(areas),
    )


def compare(task: Task, variant: Variant, baseline: Variant) -> Comparison:
    """Compare a variant with a baseline; one that is compared with itself tells when it reaches its own end."""
    length = baseline.runs[0].planned
    begin = WINDOW_SHARE * length + max(_end_of_exploration(each) for each in (variant, baseline))
    grid = task.grid[task.grid >= min(begin, task.grid[-1])]

    def drawn_together(variant: Variant) -> FloatArray:
        """Return what each seed has: its curve, area and final return, (seeds, G + 2)."""
        curves = [curve(run, grid) for run in variant.runs]
        return np.column_stack([curves, areas_under(variant, task), final_returns(variant)])

    def reached(mine: FloatArray, target: FloatArray) -> FloatArray:
        return first_reached(mine[:, :-2], target[:, -1], grid) / length

    def saved(mine: FloatArray, theirs: FloatArray) -> FloatArray:
        needed, taken = reached(mine, theirs), reached(theirs, theirs)
        return np.subtract(taken, needed, out=np.zeros_like(taken), where=np.isfinite(taken) | np.isfinite(needed))

    arms = [drawn_together(each) for each in dict.fromkeys((variant, baseline))]  # one, if they are the same

    def estimated(statistic: Callable[[FloatArray, FloatArray], FloatArray]) -> Estimate:
        return estimate(lambda *means: statistic(means[0], means[-1]), *arms)

    return Comparison(
        final_gain=estimated(lambda mine, theirs: mine[:, -1] - theirs[:, -1]),
        area_gain=estimated(lambda mine, theirs: mine[:, -2] - theirs[:, -2]),
        data_share=estimated(reached),
        data_share_from=float(grid[0]) / length,
        data_saved=estimated(saved),
        num_reached=int(np.isfinite(reached(arms[0], arms[-1].mean(axis=0)[None])).sum()),
    )


def late_change(variant: Variant) -> Estimate:
    """Return by how much the learning curve changes over the last fifth of training, mean over seeds."""
    shares = np.array([1 - FINAL_SHARE, 1.0])
    changes = np.diff([curve(run, shares * run.transitions) for run in variant.runs])
    return mean(changes[:, 0])


def final_returns(variant: Variant) -> FloatArray:
    """Return each seed's final return."""
    return np.array([final_return(run) for run in variant.runs])


def areas_under(variant: Variant, task: Task) -> FloatArray:
    """Return each seed's mean over its learning curve, from its first episode on; NaN if there is none."""
    curves = [curve(run, task.grid) for run in variant.runs]
    return np.array([float(np.nanmean(each)) if not np.isnan(each).all() else np.nan for each in curves])


def first_reached(curves: FloatArray, targets: FloatArray, grid: FloatArray) -> FloatArray:
    """Return where on the grid each curve first reaches its target, infinite if it never does: (n, G), (n,) -> (n,)."""
    rounding = 1e-9 * np.abs(targets)  # a curve that is flat reaches its own mean
    reached = curves >= (targets - rounding)[:, None]  # false where there is no value
    return np.where(reached.any(axis=1), grid[reached.argmax(axis=1)], np.inf)


def _end_of_exploration(variant: Variant) -> float:
    """Return the transitions after which epsilon no longer decays."""
    return float(variant.runs[0].config.get("exploration", {}).get("epsilon_decay_transitions", 0))


def _estimate(
    value: float, samples: FloatArray, arms: Sequence[FloatArray], confidence: float = CONFIDENCE
) -> Estimate:
    if min(map(len, arms)) < 2:
        return Estimate(value, np.nan, np.nan)
    low, high = interval(samples, confidence)
    return Estimate(value, float(low), float(high))
