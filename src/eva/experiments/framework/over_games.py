"""Measures over several games: statistics of normalised learning curves, with a bootstrap stratified by game."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from eva.errors import UserError
from eva.experiments.framework.arms import DQN
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import ArmMeasure, Number
from eva.report import statistics
from eva.report.curves import WINDOW_SHARE, curve
from eva.report.plots import Chart, Line
from eva.report.statistics import FloatArray

STATISTICS = {
    "median": statistics.median_score,
    "interquartile mean": statistics.interquartile_mean,
    "mean": statistics.mean_score,
    "optimality gap of the": statistics.optimality_gap,
}
MEDIAN, IQM, MEAN, GAP = STATISTICS
END, OVER_TRAINING, EARLY = "at the end", "over training", "over the first quarter"
EARLY_SHARE = 0.25
DRAWN_RESAMPLES = 500
THRESHOLDS = np.linspace(0, 400, 81)


@dataclass(frozen=True)
class Suite:
    """Games that are judged together."""

    normalise: Callable[[str, FloatArray], FloatArray]  # scores of a game; 0 is random play
    games: tuple[str, ...] = ()  # tasks of the experiment; by default all
    name: str = ""  # ends the names of its measures


@dataclass(frozen=True, eq=False)
class Curves:
    """Normalised learning curves, (runs, games, G), at shares of training, (G,), where every run has a value."""

    shares: FloatArray
    by_label: dict[str, FloatArray]

    def scores(self, curves: FloatArray, when: str) -> FloatArray:
        """Return a score for each run and game, (runs, games), from curves at these shares."""
        if when == END:
            return curves[..., -1]
        part = curves[..., self.shares <= (EARLY_SHARE if when == EARLY else 1.0)]
        return part.mean(axis=-1) if part.size else np.full(part.shape[:-1], np.nan)


@lru_cache(maxsize=8)
def curves_of(evidence: Evidence, suite: Suite) -> Curves:
    """Return the curves of the arms that every game of a suite has."""
    games = suite.games or tuple(evidence.tasks)
    grids = {game: evidence.tasks[game].grid for game in games}
    shares = grids[games[0]] / grids[games[0]][-1]

    def scores(game: str, label: str) -> FloatArray:
        return np.stack([suite.normalise(game, curve(run, grids[game])) for run in evidence.group(game, label).runs])

    labels = [label for label in evidence.labels(games[0]) if all(label in evidence.labels(game) for game in games)]
    by_label = {label: np.stack([scores(game, label) for game in games], axis=1) for label in labels}
    known = shares >= WINDOW_SHARE
    for each in by_label.values():
        known &= np.isfinite(each).all(axis=(0, 1))
    if not known.any():
        raise UserError("a run has no finished episode to judge: give more --frames.")
    return Curves(shares[known], {label: each[..., known] for label, each in by_label.items()})


def _measure(suite: Suite, name: str, number: Callable[[Evidence, str], Number], higher_is_better: bool) -> ArmMeasure:
    return ArmMeasure(
        name + suite.name,
        values=lambda evidence, _, label: curves_of(evidence, suite).by_label[label],
        over_tasks=True,
        higher_is_better=higher_is_better,
        draw=statistics.by_run_and_game,
        number=number,
    )


def score(suite: Suite, statistic: str, when: str) -> ArmMeasure:
    """Return a statistic of the normalised scores."""
    over_games = STATISTICS[statistic]

    def number(evidence: Evidence, _: str) -> Number:
        found = curves_of(evidence, suite)
        return lambda arms, label: over_games(found.scores(arms[label], when))

    return _measure(suite, f"{statistic} score {when}", number, higher_is_better=True)


def needed(suite: Suite, statistic: str, margin: float = 0.0) -> ArmMeasure:
    """Return the share of the frames after which the curve over games reaches DQN's end less a margin."""
    over_games = STATISTICS[statistic]

    def number(evidence: Evidence, _: str) -> Number:
        found = curves_of(evidence, suite)

        def share(arms: Mapping[str, FloatArray], label: str) -> float:
            end = over_games(found.scores(arms[DQN], END)) - margin
            return statistics.first_reached(over_games(arms[label]), end, found.shares)

        return share

    return _measure(suite, f"share of frames to {DQN}'s end ({statistic})", number, higher_is_better=False)


def improvement(suite: Suite) -> ArmMeasure:
    """Return the probability that a run of an arm ends above one of DQN."""

    def number(evidence: Evidence, _: str) -> Number:
        ends, likely = curves_of(evidence, suite).scores, statistics.probability_of_improvement
        return lambda arms, label: likely(ends(arms[label], END), ends(arms[DQN], END))

    return _measure(suite, f"probability of improvement over {DQN}", number, higher_is_better=True)


def papers_lines(found: Curves, statistic: str, x: FloatArray) -> list[Line]:
    """Return every arm's curve with the paper's uncertainty: mean and deviation over one run of each game."""
    lines = []
    for label, each in found.by_label.items():
        mean, deviation = statistics.papers_uncertainty(STATISTICS[statistic], each, num_resamples=DRAWN_RESAMPLES)
        lines.append(Line(label, x, mean, mean - deviation, mean + deviation))
    return lines


def interval_lines(found: Curves, statistic: str, x: FloatArray, labels: Sequence[str]) -> list[Line]:
    """Return the curves of some arms with 95% CIs, stratified by game."""
    over_games, lines = STATISTICS[statistic], []
    ends = [(1 - statistics.CONFIDENCE) / 2, (1 + statistics.CONFIDENCE) / 2]
    for label in labels:
        each = found.by_label[label]
        samples = statistics.resample(over_games, each, draw=statistics.by_run_and_game, num_resamples=DRAWN_RESAMPLES)
        lines.append(Line(label, x, over_games(each), *np.quantile(samples, ends, axis=0)))
    return lines


def profiles(found: Curves, score_name: str, thresholds: FloatArray = THRESHOLDS) -> Chart:
    """Draw the share of runs that end above each score."""
    lines = [
        Line(label, thresholds, statistics.performance_profile(found.scores(each, END), thresholds))
        for label, each in found.by_label.items()
    ]
    return Chart(score_name, "share of runs above it", lines, markers=False)
