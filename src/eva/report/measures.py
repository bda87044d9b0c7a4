"""How good a variant is, and how sure that is: estimates with 95% bootstrap intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eva.report.aggregate import FloatArray, interval, resample, resampled_means
from eva.report.curves import WINDOW_SHARE, Task, Variant, curve, final_return


@dataclass(frozen=True)
class Estimate:
    """A number and its 95% interval; infinite where something was never reached, or where one seed tells nothing."""

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
            length of the baseline's training; infinite if it never does. The curve counts from its first full window
            on: before, a few lucky episodes are all there is.
        num_reached: Seeds whose own learning curve reaches the baseline's final return.
    """

    final_gain: Estimate
    area_gain: Estimate
    data_share: Estimate
    num_reached: int


def estimate(statistic: Callable[..., FloatArray], *arms: FloatArray) -> Estimate:
    """Return a statistic of means over seeds, and its bootstrap interval; each arm is resampled for itself.

    Args:
        statistic: From arrays of means (n, ...), one for each arm, to the n values (n,).
        arms: A row for each seed, (seeds, ...).
    """
    generator = np.random.default_rng(0)
    samples = statistic(*(resampled_means(arm, generator) for arm in arms))
    return _estimate(float(statistic(*(arm.mean(axis=0)[None] for arm in arms))[0]), samples, arms)


def aggregate_estimate(statistic: Callable[..., float], *arms: FloatArray) -> Estimate:
    """Return a statistic of scores (runs, games, ...), and its bootstrap interval, stratified by game."""
    return _estimate(float(statistic(*arms)), resample(statistic, *arms), arms)


def mean(values: FloatArray) -> Estimate:
    """Return the mean over seeds."""
    return estimate(lambda means: means, values)


def stratified_mean(values: FloatArray) -> Estimate:
    """Return the mean of (n, groups), resampled for each group by itself: it speaks of these groups."""
    return estimate(lambda *means: np.mean(means, axis=0), *values.T)


def difference(first: FloatArray, second: FloatArray) -> Estimate:
    """Return by how much the first mean over seeds is above the second."""
    return estimate(np.subtract, first, second)


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
    targets, length = final_returns(baseline), baseline.runs[0].planned
    grid = task.grid[task.grid >= WINDOW_SHARE * length]
    curves = np.stack([curve(run, grid) for run in variant.runs])

    def data_share(curves: FloatArray, targets: FloatArray) -> FloatArray:
        return first_reached(curves, targets, grid) / length

    return Comparison(
        final_gain=difference(final_returns(variant), targets),
        area_gain=difference(areas_under(variant, task), areas_under(baseline, task)),
        data_share=estimate(data_share, curves, targets),
        num_reached=int(np.isfinite(data_share(curves, np.full(len(curves), targets.mean()))).sum()),
    )


def final_returns(variant: Variant) -> FloatArray:
    """Return each seed's final return."""
    return np.array([final_return(run) for run in variant.runs])


def areas_under(variant: Variant, task: Task) -> FloatArray:
    """Return each seed's mean over its learning curve, from its first episode on; NaN if there is none."""
    curves = [curve(run, task.grid) for run in variant.runs]
    return np.array([float(np.nanmean(each)) if not np.isnan(each).all() else np.nan for each in curves])


def first_reached(curves: FloatArray, targets: FloatArray, grid: FloatArray) -> FloatArray:
    """Return where on the grid each curve first reaches its target, infinite if it never does: (n, G), (n,) -> (n,)."""
    reached = curves >= targets[:, None]  # false where there is no value
    return np.where(reached.any(axis=1), grid[reached.argmax(axis=1)], np.inf)


def _estimate(value: float, samples: FloatArray, arms: Sequence[FloatArray]) -> Estimate:
    if min(map(len, arms)) < 2:
        return Estimate(value, -np.inf, np.inf)
    low, high = interval(samples)
    return Estimate(value, float(low), float(high))
