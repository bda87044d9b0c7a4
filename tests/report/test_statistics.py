"""Statistics: agreement with rliable on recorded scores, with plain Python on generated ones, and known answers."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eva.report.statistics import (
    FloatArray,
    interquartile_mean,
    interval,
    mean_interval,
    mean_score,
    median_score,
    one_run_per_game,
    optimality_gap,
    papers_uncertainty,
    performance_profile,
    probability_of_improvement,
    resample,
    stratified,
)

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "rliable_golden.json").read_text())
POINTS = (median_score, interquartile_mean, mean_score, optimality_gap)
ARMS = pytest.mark.parametrize("arm", ["DQN", "EVA"])
SCORES = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.integers(-3, 3).map(float))


def golden_scores(arm: str) -> FloatArray:
    scores = np.array(GOLDEN["scores"][arm])
    assert scores.shape == (3, 55)
    return scores


@ARMS
def test_aggregates_are_rliables(arm: str) -> None:
    assert GOLDEN["order"] == ["median", "iqm", "mean", "optimality_gap"]
    np.testing.assert_allclose([point(golden_scores(arm)) for point in POINTS], GOLDEN["point"][arm], rtol=1e-12)


@ARMS
def test_intervals_are_rliables(arm: str) -> None:
    def points(scores: FloatArray) -> list[float]:
        return [point(scores) for point in POINTS]

    scores = golden_scores(arm)
    ends = interval(resample(points, scores, num_resamples=4_000))
    width = np.diff(GOLDEN["ci95_reps20000"][arm], axis=0)
    assert (np.abs(np.array(ends) - GOLDEN["ci95_reps20000"][arm]) < 0.08 * width).all()


def test_probability_of_improvement_is_rliables() -> None:
    value = probability_of_improvement(golden_scores("EVA"), golden_scores("DQN"))
    assert value == pytest.approx(GOLDEN["probability_of_improvement_EVA_over_DQN"], rel=1e-12)


@ARMS
def test_profiles_are_rliables(arm: str) -> None:
    thresholds, scores = np.array(GOLDEN["tau"]), golden_scores(arm)
    np.testing.assert_allclose(performance_profile(scores, thresholds), GOLDEN["profile"][arm], rtol=1e-12)
    ends = interval(resample(lambda x: performance_profile(x, thresholds), scores))
    np.testing.assert_allclose(ends, GOLDEN["profile_ci"][arm], atol=0.015)


@given(SCORES)
def test_aggregates_are_the_plain_ones(scores: FloatArray) -> None:
    flat = sorted(scores.ravel().tolist())
    cut = len(flat) // 4
    means = [statistics.fmean(column) for column in scores.T.tolist()]
    assert interquartile_mean(scores) == pytest.approx(statistics.fmean(flat[cut : len(flat) - cut]))
    assert median_score(scores) == pytest.approx(statistics.median(means))
    assert mean_score(scores) == pytest.approx(statistics.fmean(means))
    assert optimality_gap(scores, 2.0) == pytest.approx(statistics.fmean(2 - min(value, 2) for value in flat))
    profile = performance_profile(scores, np.array([-1.0, 0.5]))
    assert profile.tolist() == pytest.approx([sum(v > t for v in flat) / len(flat) for t in (-1.0, 0.5)])


@given(SCORES, st.integers(1, 4))
def test_probability_of_improvement_is_the_plain_one(first: FloatArray, num_runs: int) -> None:
    second = np.roll(np.resize(first, (num_runs, first.shape[1])), 1, axis=1)
    wins = [
        statistics.fmean((x > y) + 0.5 * (x == y) for x, y in itertools.product(a.tolist(), b.tolist()))
        for a, b in zip(first.T, second.T, strict=True)
    ]
    assert probability_of_improvement(first, second) == pytest.approx(statistics.fmean(wins))
    mirrored = probability_of_improvement(second, first)
    assert mirrored == pytest.approx(1 - statistics.fmean(wins))


@pytest.mark.parametrize(("draw", "num_runs"), [(stratified, 3), (one_run_per_game, 1)])
def test_what_is_drawn_stays_in_its_game(draw: Any, num_runs: int) -> None:
    scores = np.arange(12.0).reshape(3, 4)
    drawn = [draw(scores, np.random.default_rng(seed)) for seed in range(50)]
    assert all(each.shape == (num_runs, 4) for each in drawn)
    assert all((each % 4 == np.arange(4)).all() for each in drawn)
    assert any(len(set((row // 4).tolist())) > 1 for each in drawn for row in each), "games are drawn for themselves"
    assert {float(value) for each in drawn for value in each.ravel()} == set(scores.ravel().tolist())


def test_arms_are_drawn_independently_and_repeatably() -> None:
    arm = np.arange(5.0)[:, None]
    samples = resample(lambda x, y: [x.mean(), y.mean()], arm, arm)
    assert samples.shape == (2_000, 2)
    assert abs(np.corrcoef(samples.T)[0, 1]) < 0.1
    np.testing.assert_array_equal(samples, resample(lambda x, y: [x.mean(), y.mean()], arm, arm))


def test_the_interval_of_a_mean_agrees_with_the_shortcut() -> None:
    values = np.random.default_rng(1).normal(size=(7, 3))
    ends = interval(resample(lambda x: x.mean(axis=0), values, num_resamples=4_000))
    np.testing.assert_allclose(ends, mean_interval(values), atol=0.08)


def test_interval_ends_may_be_infinite() -> None:
    samples = np.array([0.5] * 90 + [math.inf] * 10)
    assert [float(end) for end in interval(samples)] == [0.5, math.inf]


def test_the_papers_uncertainty_is_that_of_one_run_per_game() -> None:
    # Two games with runs 0 and 2, 10 and 14: the mean of one run of each has mean 6.5 and variance (1 + 4) / 4.
    scores = np.array([[0.0, 10.0], [2.0, 14.0]])
    mean, deviation = papers_uncertainty(mean_score, scores, num_resamples=20_000)
    assert float(mean) == pytest.approx(6.5, abs=0.03)
    assert float(deviation) == pytest.approx(math.sqrt(1.25), abs=0.02)
    over_time = np.stack([scores, 2 * scores], axis=-1)
    means, _ = papers_uncertainty(lambda x: x.mean(axis=(0, 1)), over_time)
    assert means.tolist() == pytest.approx([6.5, 13.0], rel=0.02)
