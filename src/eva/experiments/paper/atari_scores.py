"""How Atari is judged: by human-normalised scores over games, with bootstrap intervals and the paper's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from eva.errors import UserError
from eva.experiments.framework.common import DOUBLE_DQN, DQN, PRIORITISED
from eva.experiments.framework.definition import Finding, Judgement, Table
from eva.experiments.framework.evidence import Evidence, variant
from eva.experiments.framework.judge import both, is_above, is_below
from eva.experiments.framework.words import brief, gained, plain, seeds, share
from eva.games import human_normalised_score
from eva.report.curves import WINDOW_SHARE, curve
from eva.report.measures import Estimate, aggregate_estimate, first_reached
from eva.report.plots import Chart, Line, chart_files, figure_files
from eva.report.statistics import (
    FloatArray,
    interquartile_mean,
    mean_score,
    median_score,
    optimality_gap,
    papers_uncertainty,
    performance_profile,
    probability_of_improvement,
)

EVA = "EVA"
LABELS = (DQN, EVA, DOUBLE_DQN, PRIORITISED)
HUMAN = 100.0
END_SHARE, EARLY_SHARE = 0.2, 0.25  # 40M of 200M frames; "early stages"
AGGREGATES: dict[str, Callable[[FloatArray], float]] = {
    "median": median_score,
    "interquartile mean": interquartile_mean,
    "mean": mean_score,
    "optimality gap": lambda scores: optimality_gap(scores, HUMAN),
}


@dataclass(frozen=True, eq=False)
class Scores:
    """Human-normalised scores by variant.

    Attributes:
        shares: Of the training, (G,): where the curves have a full window, and values in every run.
        num_frames: Of the training.
        curves: (runs, games, G).
    """

    shares: FloatArray
    num_frames: float
    curves: dict[str, FloatArray]

    def finals(self, label: str) -> FloatArray:
        """Return the scores at the end: the last window of the curves (P18, P91), (runs, games)."""
        return self.curves[label][..., -1]

    def averages(self, label: str, until: float = 1.0) -> FloatArray:
        """Return the means over training, or over its beginning, (runs, games)."""
        curves = self.curves[label][..., self.shares <= until]
        return curves.mean(axis=-1) if curves.size else np.full(curves.shape[:-1], np.nan)


def judge(evidence: Evidence, *, in_full: bool) -> Judgement:
    """Judge EVA against DQN and its enhancements; what was cut down is measured, but not judged."""
    scores = _scores(evidence)
    findings = [_faster_and_higher(scores), _end_reached(scores), _early_but_lower(scores), _prioritised_best(scores)]
    if not in_full:
        findings = [replace(finding, verdict="not judged") for finding in findings]
    finals = {label: aggregate_estimate(median_score, scores.finals(label)) for label in LABELS}
    ends = ", ".join(f"{each.value:.1f} ({label})" for label, each in finals.items())
    return Judgement(
        outcome=f"Median human-normalised scores over {_games(len(evidence.tasks))} at the end: {ends}.",
        findings=tuple(findings),
        tables=(_aggregates(scores), _by_game(evidence)),
        figures={
            "median": chart_files(_over_training(scores, "median", lambda x: np.median(x.mean(axis=0), axis=0))),
            "mean": chart_files(_over_training(scores, "mean", lambda x: x.mean(axis=(0, 1)))),
            "profiles": chart_files(_profiles(scores)),
            "games": figure_files(evidence.tasks),
        },
        numbers=_numbers(scores),
    )


def _scores(evidence: Evidence) -> Scores:
    grid = evidence.tasks[0].grid
    shares = grid / grid[-1]
    curves: dict[str, FloatArray] = {}
    for label in LABELS:
        games = [
            [human_normalised_score(task.name, curve(run, grid)) for run in variant(task, label).runs]
            for task in evidence.tasks
        ]
        curves[label] = np.stack([np.stack(runs) for runs in games], axis=1)
    whole = np.isfinite(np.concatenate(list(curves.values()))).all(axis=(0, 1)) & (shares >= WINDOW_SHARE)
    if not whole.any():
        raise UserError("a run has no finished episode to judge: give more --frames.")
    num_frames = grid[-1] * evidence.runs[0].config["atari"]["frame_skip"]
    return Scores(shares[whole], num_frames, {label: each[..., whole] for label, each in curves.items()})


def _faster_and_higher(scores: Scores) -> Finding:
    gains = {
        f"{name} {when}": _gain(point, getter(EVA), getter(DQN))
        for name, point in (("mean", mean_score), ("median", median_score))
        for when, getter in (("at the end", scores.finals), ("over training", scores.averages))
    }
    halves = [is_above(gain) for gain in gains.values()]
    verdict = both(both(halves[0], halves[1]), both(halves[2], halves[3]))
    return Finding(verdict, f"EVA less DQN: {_listed(gains)}", _certainty(scores))


def _end_reached(scores: Scores) -> Finding:
    needed = {}
    for name, point in (("mean", np.mean), ("median", np.median)):

        def data_share(curves: FloatArray, finals: FloatArray, point: Callable[..., FloatArray] = point) -> float:
            over_games = point(curves.mean(axis=0), axis=0)
            target = np.atleast_1d(point(finals.mean(axis=0)))
            return float(first_reached(over_games[None], target, scores.shares)[0])

        needed[name] = aggregate_estimate(data_share, scores.curves[EVA], scores.finals(DQN))
    verdict = both(*(is_below(each, np.nextafter(END_SHARE, 1)) for each in needed.values()))  # or just there
    told = "; ".join(f"{name} {share(each)}" for name, each in needed.items())
    return Finding(verdict, f"share of DQN's frames to reach DQN's end: {told}", _certainty(scores))


def _early_but_lower(scores: Scores) -> Finding:
    early = _gain(median_score, scores.averages(EVA, EARLY_SHARE), scores.averages(DOUBLE_DQN, EARLY_SHARE))
    late = _gain(median_score, scores.finals(EVA), scores.finals(DOUBLE_DQN))
    measured = f"median of EVA less that of Double DQN: {_listed({'early': early, 'at the end': late})}"
    return Finding(both(is_above(early), is_below(late)), measured, _certainty(scores))


def _prioritised_best(scores: Scores) -> Finding:
    gains = {
        label: _gain(median_score, scores.finals(PRIORITISED), scores.finals(label)) for label in (EVA, DOUBLE_DQN)
    }
    measured = f"median of Double DQN with prioritised replay, less that of {_listed(gains)}"
    return Finding(both(*(is_above(gain) for gain in gains.values())), measured, _certainty(scores))


def _gain(point: Callable[[FloatArray], float], first: FloatArray, second: FloatArray) -> Estimate:
    return aggregate_estimate(lambda x, y: point(x) - point(y), first, second)


def _listed(gains: dict[str, Estimate]) -> str:
    return "; ".join(f"{name} {gained(gain)}" for name, gain in gains.items())


def _certainty(scores: Scores) -> str:
    num_runs, num_games, _ = scores.curves[DQN].shape
    return f"{seeds(num_runs)}, {_games(num_games)}, each drawn by itself"


def _games(count: int) -> str:
    return f"{count} game{'s' * (count > 1)}"


def _aggregates(scores: Scores) -> Table:
    rows = []
    for label in LABELS:
        finals = scores.finals(label)
        cells = [brief(aggregate_estimate(point, finals)) for point in AGGREGATES.values()]
        mean, deviation = papers_uncertainty(median_score, finals)
        better = "" if label == DQN else _improvement(finals, scores.finals(DQN))
        rows.append([label, *cells, f"{float(mean):.1f} ± {float(deviation):.1f}", better])
    heads = ["", *AGGREGATES, "median, the paper's way", "probability of improvement over DQN"]
    caption = (
        f"Human-normalised scores (100 is a person, 0 is chance) of the last {WINDOW_SHARE:.0%} of training, with 95% "
        "intervals stratified by game. The paper's way: mean and standard deviation, one seed for each game chosen at "
        "random."
    )
    return Table(caption, heads, rows)


def _improvement(first: FloatArray, second: FloatArray) -> str:
    return brief(aggregate_estimate(probability_of_improvement, first, second))


def _by_game(evidence: Evidence) -> Table:
    rows = []
    for task in evidence.tasks:
        ends = [[curve(run, task.grid)[-1] for run in variant(task, label).runs] for label in LABELS]
        rows.append([task.name, *(f"{np.mean(each):,.1f}" for each in ends)])
    return Table("Score in each game, mean over seeds.", ["game", *LABELS], rows)


def _over_training(scores: Scores, name: str, over_games: Callable[[FloatArray], FloatArray]) -> Chart:
    lines = []
    for label in LABELS:
        mean, deviation = papers_uncertainty(over_games, scores.curves[label], num_resamples=500)
        ends = [end.tolist() for end in (mean, mean - deviation, mean + deviation)]
        lines.append(Line(label, (scores.shares * scores.num_frames / 1e6).tolist(), *ends))
    return Chart("millions of frames", f"{name} human-normalised score", lines, markers=False)


def _profiles(scores: Scores) -> Chart:
    thresholds = np.linspace(0, 4 * HUMAN, 81)
    lines = []
    for label in LABELS:
        y = performance_profile(scores.finals(label), thresholds).tolist()
        lines.append(Line(label, thresholds.tolist(), y, y, y))
    return Chart("human-normalised score", "share of runs above it", lines, markers=False)


def _numbers(scores: Scores) -> dict[str, object]:
    content = {
        label: {
            "finals": scores.finals(label).tolist(),
            **{name: asdict(aggregate_estimate(point, scores.finals(label))) for name, point in AGGREGATES.items()},
        }
        for label in LABELS
    }
    return {"human_normalised_scores": plain(content)}
