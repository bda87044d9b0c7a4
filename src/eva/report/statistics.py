"""Statistics over runs, games and episodes, with a random generator of their own.

Scores are arrays (runs, games): a column for each game or other task, and in it a value for each run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Draw = Callable[[FloatArray, np.random.Generator], FloatArray]

RESAMPLES = 2_000
CONFIDENCE = 0.95


def resampled_means(values: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return the mean over the first axis of many resamples: (n, ...) -> (resamples, ...)."""
    picks = generator.integers(len(values), size=(RESAMPLES, len(values)))
    # Each value's share of each resample: one product instead of an array (resamples, n, ...).
    shares = np.stack([np.bincount(pick, minlength=len(values)) for pick in picks]) / len(values)
    means: FloatArray = np.tensordot(shares, values, axes=1)
    return means


def mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the 95% bootstrap interval of the mean over the first axis: (n, ...) -> two arrays (...)."""
    levels = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    low, high = np.quantile(resampled_means(values, np.random.default_rng(0)), levels, axis=0)
    return low, high


def interquartile_mean(scores: FloatArray) -> float:
    """Return the mean of the middle half of all values, runs and games alike."""
    cut = int(0.25 * scores.size)
    return float(np.sort(scores, axis=None)[cut : scores.size - cut].mean())


def median_score(scores: FloatArray) -> float:
    """Return the median over games of the mean over runs."""
    return float(np.median(scores.mean(axis=0)))


def mean_score(scores: FloatArray) -> float:
    """Return the mean over games of the mean over runs."""
    return float(scores.mean(axis=0).mean())


def optimality_gap(scores: FloatArray, target: float = 1.0) -> float:
    """Return by how much, on average, values fall short of `target`; what is above it does not count."""
    return float(target - np.minimum(scores, target).mean())


def probability_of_improvement(first: FloatArray, second: FloatArray) -> float:
    """Return how likely a run of the first is above one of the second, ties being half: mean over games."""
    above = (first[:, None] > second).mean(axis=(0, 1))
    equal = (first[:, None] == second).mean(axis=(0, 1))
    return float((above + 0.5 * equal).mean())


def performance_profile(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Return the share of all values above each threshold."""
    shares: FloatArray = (scores[..., None] > thresholds).mean(axis=(0, 1))
    return shares


def stratified(scores: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Draw as many runs as there are, with replacement, for each game by itself."""
    picks = generator.integers(len(scores), size=scores.shape[:2])
    return scores[picks, np.arange(scores.shape[1])]


def one_run_per_game(scores: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Draw one run for each game: (runs, games, ...) -> (1, games, ...)."""
    picks = generator.integers(len(scores), size=(1, scores.shape[1]))
    return scores[picks, np.arange(scores.shape[1])]


def resample(
    statistic: Callable[..., Any], *arms: FloatArray, draw: Draw = stratified, num_resamples: int | None = None
) -> FloatArray:
    """Return the statistic of many resamples, (resamples, ...); each arm is drawn for itself."""
    generator = np.random.default_rng(0)
    rounds = range(num_resamples or RESAMPLES)
    return np.stack([np.asarray(statistic(*(draw(arm, generator) for arm in arms))) for _ in rounds])


def interval(samples: FloatArray, confidence: float = CONFIDENCE) -> tuple[FloatArray, FloatArray]:
    """Return the percentile interval over the first axis; its ends are samples, so that they may be infinite."""
    low = np.quantile(samples, (1 - confidence) / 2, axis=0, method="lower")
    high = np.quantile(samples, (1 + confidence) / 2, axis=0, method="higher")
    return low, high


def papers_uncertainty(
    statistic: Callable[[FloatArray], Any], scores: FloatArray, num_resamples: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the statistic when one run for each game is chosen at random (Fig. 3)."""
    samples = resample(statistic, scores, draw=one_run_per_game, num_resamples=num_resamples)
    return samples.mean(axis=0), samples.std(axis=0)
