"""Estimates with 95% confidence intervals, verdicts, and statistics over games.

Means and differences of means use Student's and Welch's t intervals, statistics without a t interval a percentile
bootstrap. Scores are arrays (runs, games).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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


Tails = Callable[[float], tuple[float, float]]


def _unknown(_: float) -> tuple[float, float]:
    return math.nan, math.nan


@dataclass(frozen=True)
class Estimate:
    """A number, its 95% CI, and the number of units it is estimated from.

    The CI is NaN for a single unit. Numbers are infinite if a level is never reached. `tails(x)` is the confidence that
    the true number is at most x, and that it is at least x: 2.5% and 97.5% at the CI's low end.
    """

    value: float
    low: float
    high: float
    n: int
    tails: Tails = field(default=_unknown, repr=False, compare=False)

    @property
    def interval(self) -> list[float] | None:
        """Both ends of the CI, or None for a single unit."""
        return None if math.isnan(self.low) else [self.low, self.high]

    @property
    def numbers(self) -> dict[str, float]:
        """Value, CI and n by name."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}

    def __neg__(self) -> "Estimate":
        return Estimate(-self.value, -self.high, -self.low, self.n, lambda x: self.tails(-x)[::-1])


def mean(values: FloatArray) -> Estimate:
    """Return the mean with Student's t interval."""
    n = len(values)
    return _student(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan, n - 1, n)


def _student(value: float, error: float, freedom: float, n: int) -> Estimate:
    """Return an estimate with a standard error and its degrees of freedom; without an error the CI is NaN."""
    if math.isnan(error):
        return Estimate(value, np.nan, np.nan, n)
    if error == 0:
        return Estimate(value, value, value, n, lambda x: (float(x >= value), float(x <= value)))
    half = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))

    def tails(x: float) -> tuple[float, float]:
        below = (x - value) / error
        return float(stats.t.cdf(below, freedom)), float(stats.t.sf(below, freedom))

    return Estimate(value, value - half, value + half, n, tails)


def known_mean(values: FloatArray) -> FloatArray:
    """Return the mean of the values in each row that are not NaN, (n, ...) -> (n,); NaN where there are none."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: FloatArray = np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1)
    return means


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
        return _student(value, np.nan, 0, n)
    variances = np.array([arm.var(ddof=1) / len(arm) for arm in (first, second)])
    total = variances.sum()
    parts = variances / total if total > 0 else np.ones(2)
    freedom = 1 / (parts**2 / (np.array([len(first), len(second)]) - 1)).sum()
    return _student(value, float(np.sqrt(total)), freedom, n)


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
    return Estimate(
        value, float(low), float(high), n, lambda x: (float(np.mean(samples <= x)), float(np.mean(samples >= x)))
    )


def verdict(gain: Estimate, margin: float) -> Verdict:
    """Judge a difference: "no difference" if its CI lies within the margin, else "undecided" if it includes 0."""
    if -margin < gain.low and gain.high < margin:
        return "no difference"
    if gain.low > 0:
        return "better"
    return "worse" if gain.high < 0 else "undecided"


def p_value(gain: Estimate, margin: float) -> float:
    """Return the smallest level at which a difference is decided: above 0, below 0, or within the margin.

    `verdict` decides at the level 0.05, with 95% CIs. NaN without a CI.
    """
    if gain.interval is None:
        return math.nan
    not_above, not_below = gain.tails(0.0)
    not_within = max(gain.tails(-margin)[0], gain.tails(margin)[1])
    return min(1.0, 2 * min(not_above, not_below, not_within))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the number of tests (Holm, 1979); NaN counts as a test that decides nothing."""
    order = sorted(range(len(p_values)), key=lambda i: (math.isnan(p_values[i]), p_values[i]))
    adjusted, largest = [math.nan] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = math.nan if math.isnan(p_values[i]) else largest
    return adjusted


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


def interquartile_mean(scores: FloatArray) -> Any:
    """Return the mean of the middle half of all runs and games; of curves, (runs, games, G), at each point."""
    values = scores.reshape(-1, *scores.shape[2:])
    cut = len(values) // 4
    return np.partition(values, (cut, len(values) - cut - 1), axis=0)[cut : len(values) - cut].mean(axis=0)


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
