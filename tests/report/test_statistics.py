"""Statistics: agreement with rliable on recorded scores, with plain Python on generated ones, and known answers."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from eva.report.statistics import (
    Estimate,
    FloatArray,
    Verdict,
    bootstrap,
    by_run,
    by_run_and_game,
    difference,
    first_reached,
    interquartile_mean,
    mean,
    mean_interval,
    mean_score,
    median_score,
    optimality_gap,
    papers_uncertainty,
    performance_profile,
    probability_of_improvement,
    resample,
    verdict,
)

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "rliable_golden.json").read_text())
POINTS = (median_score, interquartile_mean, mean_score, partial(optimality_gap, target=1.0))
ARMS = pytest.mark.parametrize("arm", ["DQN", "EVA"])
SCORES = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.integers(-3, 3).map(float))
RETURNS = st.lists(st.floats(-1e3, 1e3).map(lambda value: round(value, 2)), min_size=2, max_size=12)
Sample = Callable[[np.random.Generator, tuple[int, int]], FloatArray]


def golden_scores(arm: str) -> FloatArray:
    scores = np.array(GOLDEN["scores"][arm])
    assert scores.shape == (3, 55)
    return scores


def percentiles(samples: FloatArray) -> FloatArray:
    ends: FloatArray = np.quantile(samples, [0.025, 0.975], axis=0)
    return ends


def assert_close(estimate: Estimate, value: float, error: float, n: int) -> None:
    expected = [value, value - error, value + error]
    np.testing.assert_allclose([estimate.value, estimate.low, estimate.high], expected, rtol=1e-9, atol=1e-9)
    assert estimate.n == n


@ARMS
def test_aggregates_match_rliable(arm: str) -> None:
    assert GOLDEN["order"] == ["median", "iqm", "mean", "optimality_gap"]
    points = [point(golden_scores(arm)) for point in POINTS]
    np.testing.assert_allclose(points, GOLDEN["point"][arm], rtol=1e-12)


@ARMS
def test_bootstrap_intervals_match_rliable(arm: str) -> None:
    width = np.diff(GOLDEN["ci95_reps20000"][arm], axis=0)[0]
    for index, point in enumerate(POINTS):
        found = bootstrap(point, golden_scores(arm), draw=by_run_and_game, num_resamples=4_000)
        ends = np.array(GOLDEN["ci95_reps20000"][arm])[:, index]
        assert found.value == pytest.approx(GOLDEN["point"][arm][index], rel=1e-12)
        assert (np.abs(np.array([found.low, found.high]) - ends) < 0.08 * width[index]).all()


def test_probability_of_improvement_matches_rliable() -> None:
    value = probability_of_improvement(golden_scores("EVA"), golden_scores("DQN"))
    assert value == pytest.approx(GOLDEN["probability_of_improvement_EVA_over_DQN"], rel=1e-12)


@ARMS
def test_profiles_match_rliable(arm: str) -> None:
    thresholds, scores = np.array(GOLDEN["tau"]), golden_scores(arm)
    np.testing.assert_allclose(performance_profile(scores, thresholds), GOLDEN["profile"][arm], rtol=1e-12)
    samples = resample(lambda x: performance_profile(x, thresholds), scores, draw=by_run_and_game)
    np.testing.assert_allclose(percentiles(samples), GOLDEN["profile_ci"][arm], atol=0.015)


@given(SCORES, st.integers(1, 4))
def test_probability_of_improvement_matches_plain_python(first: FloatArray, num_runs: int) -> None:
    second = np.roll(np.resize(first, (num_runs, first.shape[1])), 1, axis=1)
    wins = [
        statistics.fmean((x > y) + 0.5 * (x == y) for x, y in itertools.product(a.tolist(), b.tolist()))
        for a, b in zip(first.T, second.T, strict=True)
    ]
    assert probability_of_improvement(first, second) == pytest.approx(statistics.fmean(wins))
    assert probability_of_improvement(second, first) == pytest.approx(1 - statistics.fmean(wins))


@given(SCORES)
def test_aggregates_match_plain_python(scores: FloatArray) -> None:
    flat = sorted(scores.ravel().tolist())
    cut = len(flat) // 4
    means = [statistics.fmean(column) for column in scores.T.tolist()]
    assert interquartile_mean(scores) == pytest.approx(statistics.fmean(flat[cut : len(flat) - cut]))
    assert median_score(scores) == pytest.approx(statistics.median(means))
    assert mean_score(scores) == pytest.approx(statistics.fmean(means))
    assert optimality_gap(scores, 2.0) == pytest.approx(statistics.fmean(2 - min(value, 2) for value in flat))
    profile = performance_profile(scores, np.array([-1.0, 0.5]))
    assert profile.tolist() == pytest.approx([sum(v > t for v in flat) / len(flat) for t in (-1.0, 0.5)])


@given(RETURNS)
def test_mean_has_students_t_interval(values: list[float]) -> None:
    n = len(values)
    error = stats.t.ppf(0.975, n - 1) * statistics.stdev(values) / math.sqrt(n)
    assert_close(mean(np.array(values)), statistics.fmean(values), error, n)


@given(RETURNS, RETURNS)
def test_difference_has_welchs_t_interval(first: list[float], second: list[float]) -> None:
    value, n = statistics.fmean(first) - statistics.fmean(second), min(len(first), len(second))
    a, b = (statistics.variance(arm) / len(arm) for arm in (first, second))
    error = 0.0
    if a + b > 0:
        freedom = (a + b) ** 2 / (a**2 / (len(first) - 1) + b**2 / (len(second) - 1))
        error = stats.t.ppf(0.975, freedom) * math.sqrt(a + b)
    assert_close(difference(np.array(first), np.array(second)), value, error, n)


def test_difference_matches_scipy() -> None:
    first, second = np.random.default_rng(0).normal(size=10), np.random.default_rng(1).exponential(size=6)
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    found = difference(first, second)
    np.testing.assert_allclose([found.low, found.high], expected, rtol=1e-12)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=9))
def test_paired_difference_is_the_mean_of_the_differences(pairs: list[tuple[float, float]]) -> None:
    first, second = np.array(pairs).T
    assert difference(first, second, paired=True) == mean(np.array([a - b for a, b in pairs]))


@given(RETURNS, st.floats(-9, 9))
def test_difference_from_a_constant_shifts_the_mean(values: list[float], constant: float) -> None:
    level = mean(np.array(values))
    expected = level.value - constant
    assert_close(difference(np.array(values), constant), expected, level.high - level.value, len(values))


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_constant_arms_give_intervals_without_warnings(spread: float) -> None:
    # Warnings are errors in this suite; scipy.stats.ttest_ind warns if an arm is constant.
    found = difference(np.full(7, 0.25), np.array([0.5 - spread, 0.5, 0.5 + spread]))
    error = stats.t.ppf(0.975, 2) * spread / math.sqrt(3)
    assert_close(found, -0.25, error, 3)


def test_single_unit_has_no_interval() -> None:
    for found in (mean(np.array([3.0])), difference(np.array([4.0]), 1.0), difference(np.array([4.0]), np.ones(5))):
        assert (found.value, found.n) == (3.0, 1)
        assert math.isnan(found.low)
        assert math.isnan(found.high)


def test_mean_interval_keeps_the_other_axes() -> None:
    values = np.random.default_rng(2).normal([0.0, 10.0], [1.0, 3.0], size=(6, 2))
    low, high = mean_interval(values)
    assert low.shape == high.shape == (2,)
    alone = mean(values[:, 1])
    np.testing.assert_allclose([low[1], high[1]], [alone.low, alone.high])


def _coverage(sample: Sample, num_seeds: int, num_simulations: int = 4_000) -> float:
    """Return how often the interval of a difference of two equal distributions covers 0."""
    generator = np.random.default_rng(0)
    arms = (sample(generator, (num_simulations, num_seeds)) for _ in range(2))
    estimates = [difference(first, second) for first, second in zip(*arms, strict=True)]
    return statistics.fmean(each.low <= 0 <= each.high for each in estimates)


@pytest.mark.parametrize(
    "sample",
    [
        lambda generator, shape: generator.normal(size=shape),
        lambda generator, shape: generator.exponential(size=shape),
        lambda generator, shape: generator.integers(2, size=shape) + 0.05 * generator.normal(size=shape),
    ],
    ids=["normal", "exponential", "bimodal"],
)
def test_intervals_of_ten_seeds_cover_the_true_difference(sample: Sample) -> None:
    assert _coverage(sample, 10) >= 0.94


def test_intervals_of_five_normal_seeds_cover_the_true_difference() -> None:
    assert _coverage(lambda generator, shape: generator.normal(size=shape), 5) == pytest.approx(0.954, abs=0.005)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.04, 0.04, "no difference"),
        (0.01, 0.04, "no difference"),
        (0.01, 0.05, "better"),
        (0.2, 0.3, "better"),
        (-0.05, -0.01, "worse"),
        (-0.3, -0.2, "worse"),
        (-0.01, 0.3, "undecided"),
        (-0.3, 0.3, "undecided"),
        (0.0, 0.3, "undecided"),
        (math.nan, math.nan, "undecided"),
        (0.2, math.inf, "better"),
        (-math.inf, math.inf, "undecided"),
    ],
)
def test_verdict_depends_on_interval_and_margin(low: float, high: float, expected: Verdict) -> None:
    opposite = {"better": "worse", "worse": "better"}.get(expected, expected)
    assert verdict(Estimate(0.0, low, high, 9), 0.05) == expected
    assert verdict(Estimate(0.0, -high, -low, 9), 0.05) == opposite
    assert verdict(-Estimate(0.0, low, high, 9), 0.05) == opposite


def test_verdict_without_margin_is_never_no_difference() -> None:
    assert verdict(Estimate(0.0, 0.0, 0.0, 9), 0.0) == "undecided"


@pytest.mark.parametrize(("draw", "num_runs"), [(by_run_and_game, 3), (partial(by_run_and_game, num_runs=1), 1)])
def test_draws_stay_in_their_game(draw: Any, num_runs: int) -> None:
    scores = np.arange(12.0).reshape(3, 4)
    drawn = [draw(scores, np.random.default_rng(seed)) for seed in range(50)]
    assert all(each.shape == (num_runs, 4) for each in drawn)
    assert all((each % 4 == np.arange(4)).all() for each in drawn)
    assert any(len(set((row // 4).tolist())) > 1 for each in drawn for row in each), "games are drawn independently"
    assert {float(value) for each in drawn for value in each.ravel()} == set(scores.ravel().tolist())


def test_draws_by_run_keep_games_together() -> None:
    scores = np.arange(12.0).reshape(3, 4)
    drawn = [by_run(scores, np.random.default_rng(seed)) for seed in range(50)]
    assert all((np.diff(each, axis=1) == 1).all() and each.shape == (3, 4) for each in drawn)
    assert {float(value) for each in drawn for value in each.ravel()} == set(scores.ravel().tolist())


def test_arms_are_drawn_independently_and_repeatably() -> None:
    arm = np.arange(5.0)[:, None]
    first, second = (resample(lambda x, y: [x.mean(), y.mean()], arm, arm, draw=by_run) for _ in range(2))
    assert first.shape == (2_000, 2)
    assert abs(np.corrcoef(first.T)[0, 1]) < 0.1
    np.testing.assert_array_equal(first, second)


def test_bootstrap_matches_plain_python() -> None:
    values = np.random.default_rng(1).gamma(2.0, size=9)
    generator = np.random.default_rng(0)
    picks = [generator.integers(9, size=9).tolist() for _ in range(2_000)]
    medians = sorted(statistics.median(values[i] for i in pick) for pick in picks)
    found = bootstrap(lambda arm: float(np.median(arm)), values)
    assert (found.value, found.n) == (float(np.median(values)), 9)
    # The ends are samples: of the two next to a quantile, the outer one.
    assert found.low == medians[math.floor(0.025 * 1_999)]
    assert found.high == medians[math.ceil(0.975 * 1_999)]


def test_bootstrap_intervals_may_end_at_infinity() -> None:
    found = bootstrap(lambda arm: float(arm.max()), np.array([0.5] * 9 + [math.inf]))
    assert (found.value, found.low, found.high) == (math.inf, 0.5, math.inf)
    assert math.isnan(bootstrap(np.mean, np.ones(1)).low)


def test_first_reached_is_a_grid_point_or_infinite() -> None:
    grid = np.array([0.0, 10.0, 20.0, 30.0])
    curve = np.array([math.nan, 0.2, 0.5, 0.4])
    assert [first_reached(curve, target, grid) for target in (0.2, 0.3, 0.6)] == [10.0, 20.0, math.inf]
    assert first_reached(np.full(4, np.nan), 0.0, grid) == math.inf


def test_papers_uncertainty_draws_one_run_per_game() -> None:
    # Two games with runs 0 and 2, 10 and 14: the mean of one run of each has mean 6.5 and variance (1 + 4) / 4.
    scores = np.array([[0.0, 10.0], [2.0, 14.0]])
    center, deviation = papers_uncertainty(mean_score, scores, num_resamples=20_000)
    assert float(center) == pytest.approx(6.5, abs=0.03)
    assert float(deviation) == pytest.approx(math.sqrt(1.25), abs=0.02)
    over_time = np.stack([scores, 2 * scores], axis=-1)
    means, _ = papers_uncertainty(lambda x: x.mean(axis=(0, 1)), over_time)
    assert means.tolist() == pytest.approx([6.5, 13.0], rel=0.02)
