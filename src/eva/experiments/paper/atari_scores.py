"""Human-normalised scores over games: the paper's mean and median, and their CIs stratified by game."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from eva.errors import UserError
from eva.experiments.framework.definition import Figures, curves
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import Measure
from eva.games import human_normalised_score
from eva.report.curves import WINDOW_SHARE, curve
from eva.report.plots import Chart, Line
from eva.report.statistics import (
    Estimate,
    FloatArray,
    bootstrap,
    by_run_and_game,
    first_reached,
    interquartile_mean,
    mean_score,
    median_score,
    papers_uncertainty,
    performance_profile,
)

Statistic = Literal["median", "interquartile mean", "mean"]
MEDIAN: Statistic = "median"
IQM: Statistic = "interquartile mean"
MEAN: Statistic = "mean"
STATISTICS = {MEDIAN: median_score, IQM: interquartile_mean, MEAN: mean_score}
BASELINE = "DQN"
END, OVER_TRAINING, EARLY = "at the end", "over training", "over the first quarter"
EARLY_SHARE = 0.25
HUMAN = 100.0


@dataclass(frozen=True, eq=False)
class Curves:
    """Human-normalised learning curves, (runs, games, G), at shares of training, (G,), where every run has a value."""

    shares: FloatArray
    num_frames: float
    by_label: dict[str, FloatArray]

    def scores(self, label: str, when: str) -> FloatArray:
        """Return a score for each run and game, (runs, games)."""
        curves = self.by_label[label]
        if when == END:
            return curves[..., -1]
        part = curves[..., self.shares <= (EARLY_SHARE if when == EARLY else 1.0)]
        return part.mean(axis=-1) if part.size else np.full(part.shape[:-1], np.nan)


def curves_of(evidence: Evidence) -> Curves:
    """Return the curves of all arms over all games."""
    grid = next(iter(evidence.tasks.values())).grid
    shares = grid / grid[-1]
    curves = {
        label: np.stack([_scores_of(evidence, game, label, grid) for game in evidence.tasks], axis=1)
        for label in evidence.labels(next(iter(evidence.tasks)))
    }
    known = np.isfinite(np.concatenate(list(curves.values()))).all(axis=(0, 1)) & (shares >= WINDOW_SHARE)
    if not known.any():
        raise UserError("a run has no finished episode to judge: give more --frames.")
    num_frames = grid[-1] * evidence.runs[0].config["atari"]["frame_skip"]
    return Curves(shares[known], num_frames, {label: each[..., known] for label, each in curves.items()})


def _scores_of(evidence: Evidence, game: str, label: str, grid: FloatArray) -> FloatArray:
    runs = evidence.group(game, label).runs
    return np.stack([human_normalised_score(game, curve(run, grid)) for run in runs])


@dataclass(frozen=True)
class OverGames(Measure):
    """A number over all games, with a bootstrap CI stratified by game.

    Attributes:
        number: From curves and a label to the number.
    """

    number: Callable[[Curves, str], float] = lambda curves, label: np.nan
    over_tasks: bool = True

    def estimate(self, evidence: Evidence, task: str, label: str) -> Estimate:
        """Return the number of one arm."""
        return self.difference(evidence, task, label, 0.0)

    def difference(self, evidence: Evidence, task: str, label: str, other: str | float) -> Estimate:
        """Return the difference of two arms' numbers, or of one arm's and a level."""
        curves = curves_of(evidence)
        labels = list(dict.fromkeys(each for each in (label, other, BASELINE) if isinstance(each, str)))

        def gain(*drawn: FloatArray) -> float:
            these = replace(curves, by_label=dict(zip(labels, drawn, strict=True)))
            return self.number(these, label) - (self.number(these, other) if isinstance(other, str) else other)

        return bootstrap(gain, *(curves.by_label[each] for each in labels), draw=by_run_and_game)


def score(statistic: Statistic, when: str) -> OverGames:
    """Return a statistic of the human-normalised scores: 0 is random play, 100 a human."""
    over_games = STATISTICS[statistic]
    return OverGames(
        f"{statistic} score {when}",
        lambda evidence, _, label: curves_of(evidence).scores(label, when).mean(axis=1),
        number=lambda curves, label: over_games(curves.scores(label, when)),
    )


def needed(statistic: Statistic) -> OverGames:
    """Return the share of the frames after which the curve over games reaches the baseline's end."""
    over_games = STATISTICS[statistic]

    def share(curves: Curves, label: str) -> float:
        means = np.array([over_games(curves.by_label[label][..., i]) for i in range(len(curves.shares))])
        return first_reached(means, over_games(curves.scores(BASELINE, END)), curves.shares)

    name = f"share of frames to {BASELINE}'s end ({statistic})"
    return OverGames(name, lambda *_: np.empty(0), higher_is_better=False, number=share)


def figures(evidence: Evidence) -> Figures:
    """Draw median and mean over training (Fig. 3), performance profiles, and every game."""
    found = curves_of(evidence)
    frames = (found.shares * found.num_frames / 1e6).tolist()
    charts = {}
    for name, over_games in (
        ("median", lambda x: np.median(x.mean(axis=0), axis=0)),
        ("mean", lambda x: x.mean(axis=(0, 1))),
    ):
        lines = []
        for label, each in found.by_label.items():
            mean, deviation = papers_uncertainty(over_games, each, num_resamples=500)
            lines.append(Line(label, frames, *(end.tolist() for end in (mean, mean - deviation, mean + deviation))))
        charts[name] = Chart("millions of frames", f"{name} human-normalised score", lines, markers=False)
    thresholds = np.linspace(0, 4 * HUMAN, 81)
    profiles = {label: performance_profile(found.scores(label, END), thresholds).tolist() for label in found.by_label}
    lines = [Line(label, thresholds.tolist(), profile) for label, profile in profiles.items()]
    charts["profiles"] = Chart("human-normalised score", "share of runs above it", lines, markers=False)
    return {**charts, "games": curves(evidence)["curves"]}
