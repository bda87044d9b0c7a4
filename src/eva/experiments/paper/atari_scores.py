"""Human-normalised scores over games: the paper's mean and median, and their CIs stratified by game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from eva.errors import UserError
from eva.experiments.framework.definition import Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import Measure
from eva.games import human_normalised_score
from eva.report.curves import WINDOW_SHARE, curve
from eva.report.plots import Chart, Line, chart_files, figure_files
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
STATISTICS: dict[Statistic, Callable[[FloatArray], float]] = {
    MEDIAN: median_score,
    IQM: interquartile_mean,
    MEAN: mean_score,
}
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
    tasks = list(evidence.tasks.values())
    grid = tasks[0].grid
    shares = grid / grid[-1]
    curves = {
        label: np.stack(
            [
                np.stack(
                    [
                        human_normalised_score(task.name, curve(run, grid))
                        for run in evidence.group(task.name, label).runs
                    ]
                )
                for task in tasks
            ],
            axis=1,
        )
        for label in evidence.labels(tasks[0].name)
    }
    known = np.isfinite(np.concatenate(list(curves.values()))).all(axis=(0, 1)) & (shares >= WINDOW_SHARE)
    if not known.any():
        raise UserError("a run has no finished episode to judge: give more --frames.")
    num_frames = grid[-1] * evidence.runs[0].config["atari"]["frame_skip"]
    return Curves(shares[known], num_frames, {label: each[..., known] for label, each in curves.items()})


@dataclass(frozen=True)
class OverGames(Measure):
    """A statistic over games with a bootstrap CI, stratified by game."""

    arrays: Callable[[Curves, str], tuple[FloatArray, ...]] = field(default=lambda curves, label: ())
    statistic: Callable[..., float] = mean_score
    over_tasks: bool = True

    def estimate(self, evidence: Evidence, task: str, label: str) -> Estimate:
        """Return the statistic of one arm."""
        return bootstrap(self.statistic, *self.arrays(curves_of(evidence), label), draw=by_run_and_game)

    def difference(self, evidence: Evidence, task: str, label: str, other: str | float) -> Estimate:
        """Return the difference of two arms' statistics, or of one arm's and a level."""
        curves = curves_of(evidence)
        mine = self.arrays(curves, label)
        if not isinstance(other, str):
            level = other
            return bootstrap(lambda *x: self.statistic(*x) - level, *mine, draw=by_run_and_game)
        theirs, n = self.arrays(curves, other), len(mine)
        return bootstrap(
            lambda *x: self.statistic(*x[:n]) - self.statistic(*x[n:]), *mine, *theirs, draw=by_run_and_game
        )


def score(statistic: Statistic, when: str) -> OverGames:
    """Return a statistic of the human-normalised scores: 0 is random play, 100 a human."""
    return OverGames(
        f"{statistic} score {when}",
        lambda evidence, _, label: curves_of(evidence).scores(label, when).mean(axis=1),
        arrays=lambda curves, label: (curves.scores(label, when),),
        statistic=STATISTICS[statistic],
    )


def needed(statistic: Statistic, baseline: str = "DQN") -> OverGames:
    """Return the share of the frames after which the curve over games reaches the baseline's end."""
    point = STATISTICS[statistic]

    def share(curves: FloatArray, ends: FloatArray, shares: FloatArray) -> float:
        over_games = np.array([point(curves[..., i]) for i in range(curves.shape[-1])])
        return first_reached(over_games, point(ends), shares[0, 0])

    return OverGames(
        f"share of frames to {baseline}'s end ({statistic})",
        lambda evidence, _, label: np.empty(0),
        higher_is_better=False,
        arrays=lambda curves, label: (
            curves.by_label[label],
            curves.scores(baseline, END),
            np.broadcast_to(curves.shares, curves.by_label[label].shape),
        ),
        statistic=share,
    )


def figures(evidence: Evidence) -> Figures:
    """Draw median and mean over training (Fig. 3), performance profiles, and every game."""
    curves = curves_of(evidence)
    frames = (curves.shares * curves.num_frames / 1e6).tolist()
    charts: dict[str, Chart] = {}
    for name, over_games in (
        ("median", lambda x: np.median(x.mean(axis=0), axis=0)),
        ("mean", lambda x: x.mean(axis=(0, 1))),
    ):
        lines = []
        for label, each in curves.by_label.items():
            mean, deviation = papers_uncertainty(over_games, each, num_resamples=500)
            lines.append(Line(label, frames, *(end.tolist() for end in (mean, mean - deviation, mean + deviation))))
        charts[name] = Chart("millions of frames", f"{name} human-normalised score", lines, markers=False)
    thresholds = np.linspace(0, 4 * HUMAN, 81)
    profiles = {label: performance_profile(curves.scores(label, END), thresholds).tolist() for label in curves.by_label}
    lines = [Line(label, thresholds.tolist(), y, y, y) for label, y in profiles.items()]
    charts["profiles"] = Chart("human-normalised score", "share of runs above it", lines, markers=False)
    files = {name: chart_files(chart) for name, chart in charts.items()}
    return {**files, "games": figure_files(list(evidence.tasks.values()))}
