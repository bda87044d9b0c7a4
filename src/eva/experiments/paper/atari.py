"""Figs. 3, 6 and 7: 55 Atari games, by the paper's protocol or a part of it, in human-normalised scores."""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from eva.errors import UserError
from eva.experiments.framework.arms import DOUBLE_DQN, DQN, LEARNERS, PAPER_WEIGHT, PRIORITISED, WEIGHT, Changes, arm
from eva.experiments.framework.definition import Arm, Claim, Expected, Experiment, Figures, curves
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import ArmMeasure, Measure, Number
from eva.games import GAME_SETS, game_name, human_normalised_score
from eva.presets import for_game, preset
from eva.report import statistics
from eva.report.curves import WINDOW_SHARE, curve
from eva.report.plots import Chart, Drawing, Line
from eva.report.statistics import FloatArray

EVA, NAME = "EVA", "atari-55"
GAMES = GAME_SETS["paper-55"]
FRAMES, NUM_SEEDS = 200_000_000, 3
SMALL_FRAMES = 40_000_000  # shorter runs use the preset atari-small, in which EVA applies earlier (P92)
AGENTS: Mapping[str, Changes] = {DQN: {}, EVA: {WEIGHT: PAPER_WEIGHT}, **LEARNERS}
STATISTICS = {
    "median": statistics.median_score,
    "interquartile mean": statistics.interquartile_mean,
    "mean": statistics.mean_score,
    "optimality gap of the": statistics.optimality_gap,
}
MEDIAN, IQM, MEAN, GAP = STATISTICS
END, OVER_TRAINING, EARLY = "at the end", "over training", "over the first quarter"
EARLY_SHARE = 0.25


def arms(games: Sequence[str], frames: int, num_seeds: int) -> tuple[Arm, ...]:
    """Return every agent in every game, with one thread for each run: many share a machine."""
    base = preset("atari" if frames >= SMALL_FRAMES else "atari-small")
    shared = {WEIGHT: 0.0, "steps": frames // base.atari.frame_skip, "run.device": "auto", "run.threads": 1}
    found = []
    for game, (label, changes) in itertools.product(games, AGENTS.items()):
        config = for_game(base, game)
        folder = f"{config.name}/{label.lower().replace(', ', '-').replace(' ', '-')}/frames-{frames}"
        found.append(arm(game, label, folder, config, {**shared, **changes}, seeds=range(num_seeds)))
    return tuple(found)


def cut_down(games: str | None, frames: int | None, num_seeds: int | None) -> Experiment:
    """Return the experiment, or part of it: games by names separated by commas or by the name of a set."""
    chosen = GAMES
    if games is not None:
        chosen = GAME_SETS.get(games) or tuple(dict.fromkeys(game_name(word) for word in games.split(",")))
    frames, num_seeds = frames or FRAMES, num_seeds or NUM_SEEDS
    if (chosen, frames, num_seeds) == (GAMES, FRAMES, NUM_SEEDS):
        return FULL
    given = {names: name for name, names in GAME_SETS.items()}.get(chosen, ",".join(chosen))
    folder = given.replace(",", "-")
    if "," in given and len(chosen) > 3:
        folder = f"{len(chosen)}-games-{hashlib.sha256(given.encode()).hexdigest()[:6]}"
    sizes = f"{len(chosen)} of {len(GAMES)} games, {num_seeds} of {NUM_SEEDS} seeds, {frames:,} of {FRAMES:,} frames"
    return replace(
        FULL,
        name=f"atari-{folder}-{frames / 1e6:g}M-frames-{num_seeds}-seed{'s' * (num_seeds > 1)}",
        title=f"Atari, cut down: {sizes}",
        question=QUESTION.format(frames / 1e6),
        arms=partial(arms, chosen, frames, num_seeds),
        notes=(
            "Games, seeds and frames are fewer than in the paper, and runs of less than 40M frames use a smaller "
            "memory, so that EVA applies earlier (P92).",
        ),
        arguments=f"{NAME} --games {given} --frames {frames} --seeds {num_seeds}".split(),
    )


@dataclass(frozen=True, eq=False)
class Curves:
    """Human-normalised learning curves, (runs, games, G), at shares of training, (G,), where every run has a value."""

    shares: FloatArray
    num_frames: float
    by_label: dict[str, FloatArray]

    def scores(self, curves: FloatArray, when: str) -> FloatArray:
        """Return a score for each run and game, (runs, games), from curves at these shares."""
        if when == END:
            return curves[..., -1]
        part = curves[..., self.shares <= (EARLY_SHARE if when == EARLY else 1.0)]
        return part.mean(axis=-1) if part.size else np.full(part.shape[:-1], np.nan)


@lru_cache(maxsize=1)
def curves_of(evidence: Evidence) -> Curves:
    """Return the curves of all arms over all games."""
    first_game, first_task = next(iter(evidence.tasks.items()))
    grid = first_task.grid
    shares = grid / grid[-1]

    def scores(game: str, label: str) -> FloatArray:
        return np.stack([human_normalised_score(game, curve(run, grid)) for run in evidence.group(game, label).runs])

    by_label = {
        label: np.stack([scores(game, label) for game in evidence.tasks], axis=1)
        for label in evidence.labels(first_game)
    }
    known = np.isfinite(np.concatenate(list(by_label.values()))).all(axis=(0, 1)) & (shares >= WINDOW_SHARE)
    if not known.any():
        raise UserError("a run has no finished episode to judge: give more --frames.")
    num_frames = grid[-1] * evidence.runs[0].config["atari"]["frame_skip"]
    return Curves(shares[known], num_frames, {label: each[..., known] for label, each in by_label.items()})


OverGames = partial(
    ArmMeasure,
    values=lambda evidence, _, label: curves_of(evidence).by_label[label],
    over_tasks=True,
    draw=statistics.by_run_and_game,
)
"""A measure over all games, whose bootstrap is stratified by game."""


def score(statistic: str, when: str) -> ArmMeasure:
    """Return a statistic of the human-normalised scores: 0 is random play, 100 a human."""
    over_games = STATISTICS[statistic]

    def number(evidence: Evidence, _: str) -> Number:
        found = curves_of(evidence)
        return lambda arms, label: over_games(found.scores(arms[label], when))

    return OverGames(f"{statistic} score {when}", number=number)


def needed(statistic: str) -> ArmMeasure:
    """Return the share of the frames after which the curve over games reaches DQN's end."""
    over_games = STATISTICS[statistic]

    def number(evidence: Evidence, _: str) -> Number:
        found = curves_of(evidence)

        def share(arms: Mapping[str, FloatArray], label: str) -> float:
            end = over_games(found.scores(arms[DQN], END))
            return statistics.first_reached(over_games(arms[label]), end, found.shares)

        return share

    return OverGames(f"share of frames to {DQN}'s end ({statistic})", number=number, higher_is_better=False)


def improvement(evidence: Evidence, _: str) -> Number:
    """Prepare the probability that a run of an arm ends above one of DQN."""
    ends, likely = curves_of(evidence).scores, statistics.probability_of_improvement
    return lambda arms, label: likely(ends(arms[label], END), ends(arms[DQN], END))


def figures(evidence: Evidence) -> Figures:
    """Draw median and mean over training (Fig. 3), performance profiles, and every game."""
    found, thresholds, profiles = curves_of(evidence), np.linspace(0, 400, 81), []
    charts: dict[str, Drawing] = {}
    for name in (MEDIAN, MEAN):
        lines = []
        for label, each in found.by_label.items():
            mean, deviation = statistics.papers_uncertainty(STATISTICS[name], each, num_resamples=500)
            frames = found.shares * found.num_frames / 1e6
            lines.append(Line(label, frames, mean, mean - deviation, mean + deviation))
        charts[name] = Chart("millions of frames", f"{name} human-normalised score", lines, markers=False)
    for label, each in found.by_label.items():
        profile = statistics.performance_profile(found.scores(each, END), thresholds)
        profiles.append(Line(label, thresholds, profile))
    charts["profiles"] = Chart("human-normalised score", "share of runs above it", profiles, markers=False)
    return {**charts, **curves(evidence)}


def _claim(
    figure: int, text: str, measure: Measure, other: str | float, says: Expected = "better", arm: str = EVA
) -> Claim:
    return Claim(f"Fig. {figure}", text, measure, arm, other, says, margin=0)


MEDIAN_END, MEAN_END = score(MEDIAN, END), score(MEAN, END)
IMPROVEMENT = OverGames(f"probability of improvement over {DQN}", number=improvement)
QUESTION = (
    "Does EVA learn Atari games faster than DQN, and how does it compare with Double DQN and prioritised replay, after "
    "{:g}M frames?"
)
FULL = Experiment(
    name=NAME,
    title="55 Atari games",
    question=QUESTION.format(FRAMES / 1e6),
    arms=partial(arms, GAMES, FRAMES, NUM_SEEDS),
    claims=(
        replace(_claim(3, "EVA improves the final performance (median).", MEDIAN_END, DQN), primary=True),
        _claim(3, "EVA improves the learning speed (median).", score(MEDIAN, OVER_TRAINING), DQN),
        _claim(3, "EVA improves the final performance (mean).", MEAN_END, DQN),
        _claim(3, "EVA improves the learning speed (mean).", score(MEAN, OVER_TRAINING), DQN),
        _claim(3, "EVA reaches DQN's end in 20% of its frames (median).", needed(MEDIAN), 0.2),
        _claim(3, "EVA reaches DQN's end in 20% of its frames (mean).", needed(MEAN), 0.2),
        _claim(7, "EVA outperforms Double DQN early.", score(MEDIAN, EARLY), DOUBLE_DQN),
        _claim(7, "EVA ends below Double DQN.", MEDIAN_END, DOUBLE_DQN, "worse"),
        _claim(7, "Prioritised Double DQN ends above EVA.", MEDIAN_END, EVA, arm=PRIORITISED),
        _claim(7, "Prioritised Double DQN ends above Double DQN.", MEDIAN_END, DOUBLE_DQN, arm=PRIORITISED),
    ),
    columns=(MEDIAN_END, score(IQM, END), MEAN_END, score(GAP, END), score(MEDIAN, OVER_TRAINING), IMPROVEMENT),
    figures=figures,
    by_name_only=True,
)
