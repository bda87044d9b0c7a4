"""Figs. 3, 4 and 7 on MinAtar: EVA, n-step and Double DQN in five small games."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eva.experiments.framework.arms import DOUBLE_DQN, DQN, PAPER_WEIGHT, WEIGHT, Changes, arm, evaluations
from eva.experiments.framework.definition import OURS, Arm, Claim, Expected, Experiment, Figures, Row, Table, curves
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import FINAL_RETURN, GREEDY, GREEDY_MEAN, MEAN_RETURN, Measure
from eva.experiments.framework.over_games import (
    EARLY,
    END,
    IQM,
    MEAN,
    MEDIAN,
    OVER_TRAINING,
    Suite,
    curves_of,
    improvement,
    interval_lines,
    needed,
    papers_lines,
    profiles,
    score,
)
from eva.games import MINATAR_SCORES, minatar_normalised_score
from eva.presets import for_game, preset
from eva.report.plots import Chart, Drawing
from eva.report.reading import RunRecord
from eva.report.statistics import MARGIN_SHARE, FloatArray, mean

EVA, N_STEP, DOUBLE_EVA = "EVA", "n-step", f"{DOUBLE_DQN} + EVA"
LOW, REFRESHED = "EVA, weight 0.2", "EVA, refreshed embeddings"
MILLION = 1_000_000
STEPS = {
    "asterix": 3 * MILLION,  # DQN has not learned these two after a million
    "breakout": MILLION,
    "freeway": MILLION,
    "seaquest": 3 * MILLION,
    "space_invaders": MILLION,
}
SHORT, DOUBTFUL = ("breakout", "freeway", "space_invaders"), ("asterix", "breakout")
SEEDS = tuple(range(4_000, 4_005))
FEW_SEEDS = SEEDS[:3]
NUM_POINTS, NUM_EPISODES = 10, 5  # of greedy evaluation
ALL = Suite(minatar_normalised_score)
THREE = Suite(minatar_normalised_score, SHORT, ", three games")
TWO = Suite(minatar_normalised_score, DOUBTFUL, ", two games")
MARGIN = 100 * MARGIN_SHARE  # of normalised scores
THRESHOLDS = np.linspace(0, 200, 81)

VARIANTS: dict[str, tuple[float, Changes, str]] = {
    DQN: (0.0, {}, ""),
    EVA: (PAPER_WEIGHT, {}, ""),
    N_STEP: (PAPER_WEIGHT, {"eva.trace": "n-step"}, "-n-step"),
    DOUBLE_DQN: (0.0, {"learner.double": True}, "-double"),
    DOUBLE_EVA: (PAPER_WEIGHT, {"learner.double": True}, "-double"),
    LOW: (0.2, {}, ""),
    REFRESHED: (PAPER_WEIGHT, {"eva.embeddings": "refreshed"}, "-refreshed"),
}
"""Weight, other changes of the preset, and what distinguishes the folder of each arm."""
GROUPS: tuple[tuple[Sequence[str], Sequence[str], Sequence[int]], ...] = (
    (tuple(STEPS), (DQN, EVA), SEEDS),
    (SHORT, (N_STEP, DOUBLE_DQN, DOUBLE_EVA), FEW_SEEDS),
    (DOUBTFUL, (LOW, REFRESHED), FEW_SEEDS),
)
"""Games, arms and seeds that belong together."""


def arms() -> tuple[Arm, ...]:
    """Return every arm, game by game."""
    return tuple(
        _arm(game, label, seeds)
        for game in STEPS
        for games, labels, seeds in GROUPS
        for label in labels
        if game in games
    )


def _arm(game: str, label: str, seeds: Sequence[int]) -> Arm:
    config, steps = for_game(preset("minatar"), game), STEPS[game]
    weight, changes, suffix = VARIANTS[label]
    played = evaluations(steps // NUM_POINTS, NUM_EPISODES, weight, epsilons=(GREEDY,))
    fields = {"steps": steps, WEIGHT: weight, **played, **changes}
    return arm(game, label, f"{config.name}/weight-{weight:g}{suffix}", config, fields, seeds=seeds)


def last_episodes(run: RunRecord, num_episodes: int = 100) -> float:
    """Return the mean return of a run's last training episodes, as in the published curves (P155)."""
    return float(run.episode_returns[-num_episodes:].mean())


def _last_episodes(evidence: Evidence, task: str, label: str) -> FloatArray:
    return np.array([last_episodes(run) for run in evidence.group(task, label).runs])


LAST_EPISODES = Measure("return of the last 100 episodes", _last_episodes)
MOST_BELOW, STANDARD_ERRORS, MOST_FAILURES = 0.15, 2.0, 1


def agrees(ours: FloatArray, published: float) -> bool:
    """Return whether a baseline's runs are not below a published score, by the rule of P156."""
    error = ours.std(ddof=1) / np.sqrt(len(ours)) if len(ours) > 1 else 0.0
    return bool(ours.mean() >= (1 - MOST_BELOW) * published or published - ours.mean() <= STANDARD_ERRORS * error)


def baseline(evidence: Evidence) -> Table:
    """Compare the runs with weight 0 with the published DQN after the same number of frames."""
    rows: list[Row] = []
    num = 0
    for game, steps in STEPS.items():
        ours, published = LAST_EPISODES.values(evidence, game, DQN), MINATAR_SCORES[game].dqn_by_frames[steps]
        num += agrees(ours, published)
        answer = "yes" if agrees(ours, published) else "no"
        rows.append((game, f"{steps:,}", published, mean(ours), f"{100 * ours.mean() / published:.0f}%", answer))
    verdict = "agrees" if num >= len(STEPS) - MOST_FAILURES else "does not agree"
    return Table(
        "The baseline beside the published DQN",
        ("game", "frames", "published", "ours, last 100 episodes", "ours / published", "agrees"),
        tuple(rows),
        f"The baseline {verdict} with the published DQN: in {num} of {len(STEPS)} games it is not more than 15% below "
        "it, or within 2 of our standard errors. Rule: [P156](../../docs/protocol.md#p156).",
    )


def over_the_games(evidence: Evidence) -> Table:
    """Return the statistics over the games of every suite."""
    measures = ((IQM, OVER_TRAINING), (IQM, END), (MEDIAN, END), (MEAN, END))
    task = next(iter(evidence.tasks))
    rows: list[Row] = []
    for name, suite in (("all five", ALL), (", ".join(SHORT), THREE), (", ".join(DOUBTFUL), TWO)):
        rows += [
            (name, label, *(score(suite, *each).estimate(evidence, task, label) for each in measures))
            for label in curves_of(evidence, suite).by_label
        ]
    return Table(
        "Over the games",
        ("games", "arm", *(f"{statistic}, {when}" for statistic, when in measures)),
        tuple(rows),
        "Scores: 0 is random play, 100 the published DQN after 4.9M frames. 95% CIs: bootstrap, stratified by game.",
    )


def figures(evidence: Evidence) -> Figures:
    """Draw the curves over games of Figs. 3, 4 and 7, performance profiles, and every game."""
    found, some = curves_of(evidence, ALL), curves_of(evidence, THREE)
    many, few = len(SEEDS), len(FEW_SEEDS)
    charts: dict[str, Drawing] = {}
    for figure, each, labels, note in (
        ("figure-3", found, (DQN, EVA), f"five games; band: 95% CI over {many} seeds"),
        ("figure-4", some, (DQN, EVA, N_STEP), f"three games; band: 95% CI over {many} seeds, {N_STEP}: {few}"),
        (
            "figure-7",
            some,
            (DQN, EVA, DOUBLE_DQN, DOUBLE_EVA),
            f"three games; band: 95% CI over {many} seeds, {DOUBLE_DQN}: {few}",
        ),
    ):
        lines = interval_lines(each, IQM, 100 * each.shares, labels)
        charts[figure] = Chart(f"% of training ({note})", f"{IQM} of normalised scores", lines, markers=False)
    for statistic in (MEDIAN, MEAN):
        lines = papers_lines(found, statistic, 100 * found.shares)
        title = "% of training (band: standard deviation over one run of each game)"
        charts[f"figure-3-{statistic}"] = Chart(title, f"{statistic} normalised score", lines, markers=False)
    return {**charts, "profiles": profiles(found, "normalised score", THRESHOLDS), **curves(evidence)}


def _speed(game: str) -> Claim:
    known = MINATAR_SCORES[game]
    margin = MARGIN_SHARE * (known.dqn - known.random)
    text = f"EVA learns {game.replace('_', ' ').title()} faster."
    return Claim("Fig. 3", text, MEAN_RETURN, EVA, DQN, "better", margin, task=game)


def _over(
    suite: Suite, where: str, text: str, arm: str, other: str, says: Expected, when: str = OVER_TRAINING
) -> Claim:
    task = suite.games[0] if suite.games else None
    return Claim(where, text, score(suite, IQM, when), arm, other, says, MARGIN, task)


EXPERIMENT = Experiment(
    name="minatar",
    title="MinAtar: five small games",
    question="Does EVA learn games faster than DQN, does n-step harm, and does EVA help Double DQN?",
    arms=arms,
    claims=(
        replace(_over(ALL, "Fig. 3", "EVA improves the learning speed.", EVA, DQN, "better"), primary=True),
        _over(ALL, "Fig. 3", "EVA improves the final performance.", EVA, DQN, "better", END),
        Claim("Fig. 3", "EVA needs fewer frames to reach DQN's end.", needed(ALL, IQM, MARGIN), EVA, DQN, "better", 0),
        Claim("Fig. 3", "A run with EVA is likely to end above one without.", improvement(ALL), EVA, 0.5, "better", 0),
        *map(_speed, STEPS),
        _over(THREE, "Fig. 4", "n-step is worse than DQN.", N_STEP, DQN, "worse"),
        _over(THREE, "Fig. 4", "n-step is worse than EVA's planning (TCP).", N_STEP, EVA, "worse"),
        _over(THREE, "Fig. 7", "EVA boosts Double DQN.", DOUBLE_EVA, DOUBLE_DQN, "better"),
        _over(THREE, "Fig. 7", "EVA outperforms Double DQN early.", EVA, DOUBLE_DQN, "better", EARLY),
        _over(TWO, OURS, "A weight of 0.2 is better than 0.4.", LOW, EVA, "better"),
        _over(TWO, OURS, "Refreshed embeddings are better than stored ones.", REFRESHED, EVA, "better"),
    ),
    columns=(MEAN_RETURN, FINAL_RETURN, LAST_EPISODES, GREEDY_MEAN),
    figures=figures,
    tables=lambda evidence: (over_the_games(evidence), baseline(evidence)),
    notes=(
        "Preset `minatar`, the same hyper-parameters in all arms; EVA applies once the memory is full, after 100,000 "
        "transitions. Asterix and Seaquest: 3M transitions, the others 1M. 5 seeds for DQN and EVA, 3 for the others.",
        "Returns are those of training episodes, as published, except for the greedy return: epsilon 0, the mean of "
        f"{NUM_EPISODES} episodes after every {100 // NUM_POINTS}% of training, with the weight of the arm.",
        "The published Seaquest was measured with an older version of the game (P154).",
    ),
    by_name_only=True,
)
