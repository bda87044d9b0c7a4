"""Estimates with 95% confidence intervals, verdicts, and statistics over games.

Means and differences of means use Student's and Welch's t intervals, statistics without a t interval a percentile
bootstrap. Scores are arrays (runs, games).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

FloatArray = npt.NDArray[np.float64]
Draw = Callable[[FloatArray, np.random.Generator], FloatArray]
Verdict = Literal["better", "worse", "no difference", "undecided"]

RESAMPLES = 2_000
CONFIDENCE = 0.95
MARGIN_SHARE = 0.05
"""Differences below this share of (optimum - random play) count as none."""


@dataclass(frozen=True)
class Estimate:
    """A number, its 95% CI, and the number of units it is estimated from.

    The CI is NaN for a single unit. Numbers are infinite if a level is never reached.
    """

    value: float
    low: float
    high: float
    n: int

    @property
    def interval(self) -> list[float] | None:
        """Both ends of the CI, or None for a single unit."""
        return None if math.isnan(self.low) else [self.low, self.high]

    def __neg__(self) -> "Estimate":
        return Estimate(-self.value, -self.high, -self.low, self.n)


def mean(values: FloatArray) -> Estimate:
    """Return the mean with Student's t interval."""
    low, high = mean_interval(values)
    return Estimate(float(values.mean()), float(low), float(high), len(values))


def mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Student's t interval of the mean over the first axis: (n, ...) -> two arrays (...)."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan), np.full(values.shape[1:], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) * stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)
    center = values.mean(axis=0)
    return center - error, center + error


def difference(first: FloatArray, second: FloatArray | float, *, paired: bool = False) -> Estimate:
    """Return mean(first) - mean(second).

    The CI is Welch's t interval. If `second` is a number, or if the values are paired unit by unit, it is Student's t
    interval of the differences.
    """
    if not isinstance(second, np.ndarray) or paired:
        return mean(first - second)
    value, n = float(first.mean() - second.mean()), min(len(first), len(second))
    if n < 2:
        return Estimate(value, np.nan, np.nan, n)
    variances = np.array([arm.var(ddof=1) / len(arm) for arm in (first, second)])
    total = variances.sum()
    if total == 0:
        return Estimate(value, value, value, n)
    freedom = 1 / ((variances / total) ** 2 / (np.array([len(first), len(second)]) - 1)).sum()
    error = float(np.sqrt(total) * stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
    return Estimate(value, value - error, value + error, n)


def bootstrap(
    statistic: Callable[..., float], *arms: FloatArray, draw: Draw | None = None, num_resamples: int = RESAMPLES
) -> Estimate:
    """Return a statistic with its percentile bootstrap CI. Each arm is resampled on its own.

    The ends of the CI are samples of the statistic, so they may be infinite.
    """
    value, n = float(statistic(*arms)), min(map(len, arms))
    if n < 2:
        return Estimate(value, np.nan, np.nan, n)
    samples = resample(statistic, *arms, draw=draw or by_run, num_resamples=num_resamples)
    low = np.quantile(samples, (1 - CONFIDENCE) / 2, method="lower")
    high = np.quantile(samples, (1 + CONFIDENCE) / 2, method="higher")
    return Estimate(value, float(low), float(high), n)


def verdict(gain: Estimate, margin: float) -> Verdict:
    """Judge a difference: "no difference" if its CI lies within the margin, else "undecided" if it includes 0."""
    if -margin < gain.low and gain.high < margin:
        return "no difference"
    if gain.low > 0:
        return "better"
    return "worse" if gain.high < 0 else "undecided"


def resample(
    statistic: Callable[..., Any], *arms: FloatArray, draw: Draw, num_resamples: int = RESAMPLES
) -> FloatArray:
    """Return the statistic of every resample, (resamples, ...)."""
    generator = np.random.default_rng(0)
    return np.stack([np.asarray(statistic(*(draw(arm, generator) for arm in arms))) for _ in range(num_resamples)])


def by_run(values: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Draw as many runs as there are, with replacement."""
    return values[generator.integers(len(values), size=len(values))]


def by_run_and_game(scores: FloatArray, generator: np.random.Generator, num_runs: int | None = None) -> FloatArray:
    """Draw `num_runs`, by default as many as there are, with replacement, for each game separately."""
    picks = generator.integers(len(scores), size=(num_runs or len(scores), scores.shape[1]))
    return scores[picks, np.arange(scores.shape[1])]


def papers_uncertainty(
    statistic: Callable[[FloatArray], Any], scores: FloatArray, num_resamples: int = RESAMPLES
) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the statistic when one run per game is drawn at random (Fig. 3)."""
    samples = resample(statistic, scores, draw=partial(by_run_and_game, num_runs=1), num_resamples=num_resamples)
    return samples.mean(axis=0), samples.std(axis=0)


def interquartile_mean(scores: FloatArray) -> float:
    """Return the mean of the middle half of all values, over runs and games."""
    return float(stats.trim_mean(scores, 0.25, axis=None))


def median_score(scores: FloatArray) -> Any:
    """Return the median over games of the mean over runs; of curves, (runs, games, G), at each point."""
    return np.median(scores.mean(axis=0), axis=0)


def mean_score(scores: FloatArray) -> Any:
    """Return the mean over games of the mean over runs; of curves, (runs, games, G), at each point."""
    return scores.mean(axis=(0, 1))


def optimality_gap(scores: FloatArray, target: float = 100.0) -> float:
    """Return how far values are below the target on average; 100 is a human."""
    return float(target - np.minimum(scores, target).mean())


def probability_of_improvement(first: FloatArray, second: FloatArray) -> float:
    """Return how likely a run of the first is above one of the second, ties being half: mean over games."""
    gains = first[:, None] - second
    return float(((gains > 0) + 0.5 * (gains == 0)).mean())


def performance_profile(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Return the share of all values above each threshold."""
    shares: FloatArray = (scores[..., None] > thresholds).mean(axis=(0, 1))
    return shares


def first_reached(curve: FloatArray, target: float, grid: FloatArray) -> float:
    """Return the grid point at which the curve first reaches the target; infinite if it never does."""
    reached = curve >= target - 1e-9 * abs(target)  # a flat curve reaches its own mean; NaN never does
    return float(grid[reached.argmax()]) if reached.any() else np.inf
