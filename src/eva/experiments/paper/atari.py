"""Figs. 3, 6 and 7: 55 Atari games, by the paper's protocol or a part of it, in human-normalised scores."""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from eva.experiments.framework.arms import DOUBLE_DQN, DQN, LEARNERS, PAPER_WEIGHT, PRIORITISED, WEIGHT, Changes, arm
from eva.experiments.framework.definition import Arm, Claim, Expected, Experiment, Figures, Row, Table, curves
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import FINAL_RETURN, Measure
from eva.experiments.framework.over_games import (
    EARLY,
    END,
    GAP,
    IQM,
    MEAN,
    MEDIAN,
    OVER_TRAINING,
    Suite,
    curves_of,
    improvement,
    needed,
    papers_lines,
    profiles,
    score,
)
from eva.games import DOPAMINE, GAME_SETS, dopamine_dqn, game_name, human_normalised_score
from eva.presets import for_game, preset
from eva.report.plots import Chart, Drawing

EVA, NAME = "EVA", "atari-55"
GAMES = GAME_SETS["paper-55"]
FRAMES, NUM_SEEDS = 200_000_000, 3
SMALL_FRAMES = 40_000_000  # shorter runs use the preset atari-small, in which EVA applies earlier (P92)
MILLION = 1_000_000
AGENTS: Mapping[str, Changes] = {DQN: {}, EVA: {WEIGHT: PAPER_WEIGHT}, **LEARNERS}
SHOWN = 3  # of Dopamine's published numbers: after 1, 2 and 5 million frames
TWO_AGENTS = (DQN, EVA)
"""The agents of a smaller version."""
SEEDS = range(4_000, 5_000)
SUITE = Suite(human_normalised_score)


def arms(games: Sequence[str], frames: int, num_seeds: int, agents: Sequence[str] = tuple(AGENTS)) -> tuple[Arm, ...]:
    """Return some agents in every game, with one thread for each run: many share a machine."""
    base = preset("atari" if frames >= SMALL_FRAMES else "atari-small")
    shared = {WEIGHT: 0.0, "steps": frames // base.atari.frame_skip, "run.device": "auto", "run.threads": 1}
    found = []
    for game, label in itertools.product(games, agents):
        config, changes = for_game(base, game), AGENTS[label]
        folder = f"{config.name}/{label.lower().replace(', ', '-').replace(' ', '-')}/frames-{frames}"
        found.append(arm(game, label, folder, config, {**shared, **changes}, seeds=SEEDS[:num_seeds]))
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
        arms=partial(arms, chosen, frames, num_seeds, TWO_AGENTS),
        claims=_claims_about(frames) if num_seeds >= NUM_SEEDS else (),
        tables=lambda evidence: (_beside_dopamine(evidence, chosen),),
        notes=(
            "Games, seeds or frames are fewer than in the paper: the claims are about this many, and with fewer than "
            f"{NUM_SEEDS} seeds there are none. Runs of less than 40M frames use a smaller memory, so that EVA applies "
            "earlier (P92).",
        ),
        arguments=f"{NAME} --games {given} --frames {frames} --seeds {num_seeds}".split(),
    )


def _claims_about(frames: int) -> tuple[Claim, ...]:
    """Return the claims of the full experiment about EVA and DQN, after fewer frames."""
    prefix = f"After {frames / MILLION:g}M frames: "
    return tuple(
        replace(each, text=prefix + each.text)
        for each in FULL.claims
        if each.arm in TWO_AGENTS and (each.compared_with in TWO_AGENTS or isinstance(each.compared_with, float))
    )


def _beside_dopamine(evidence: Evidence, games: Sequence[str]) -> Table:
    """Compare the runs with weight 0 with Dopamine's DQN, where its figures are known."""
    rows: list[Row] = []
    for game in games:
        published = [f"{mean:,.1f} ({deviation:,.1f})" for mean, deviation in dopamine_dqn(game).values()][:SHOWN]
        if published:
            rows.append((game, FINAL_RETURN.estimate(evidence, game, DQN), *published))
    shown = list(dopamine_dqn("pong"))[:SHOWN]
    return Table(
        "The baseline beside Dopamine's",
        ("game", "our DQN, final return", *(f"Dopamine, {i}M frames" for i in shown)),
        tuple(rows),
        f"Dopamine: its {DOPAMINE}, mean of a million frames over 5 seeds (standard deviation). It uses sticky "
        "actions, a memory of a million and a larger network, so that only the order of magnitude can be compared.",
    )


def figures(evidence: Evidence) -> Figures:
    """Draw median and mean over training (Fig. 3), performance profiles, and every game."""
    found, run = curves_of(evidence, SUITE), evidence.runs[0]
    frames = found.shares * next(iter(evidence.tasks.values())).grid[-1] * run.config["atari"]["frame_skip"] / 1e6
    charts: dict[str, Drawing] = {
        name: Chart(
            "millions of frames",
            f"{name} human-normalised score",
            papers_lines(found, name, frames),
            markers=False,
        )
        for name in (MEDIAN, MEAN)
    }
    return {**charts, "profiles": profiles(found, "human-normalised score"), **curves(evidence)}


def _claim(
    figure: int, text: str, measure: Measure, other: str | float, says: Expected = "better", arm: str = EVA
) -> Claim:
    return Claim(f"Fig. {figure}", text, measure, arm, other, says, margin=0)


MEDIAN_END, MEAN_END = score(SUITE, MEDIAN, END), score(SUITE, MEAN, END)
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
        _claim(3, "EVA improves the learning speed (median).", score(SUITE, MEDIAN, OVER_TRAINING), DQN),
        _claim(3, "EVA improves the final performance (mean).", MEAN_END, DQN),
        _claim(3, "EVA improves the learning speed (mean).", score(SUITE, MEAN, OVER_TRAINING), DQN),
        _claim(3, "EVA reaches DQN's end in 20% of its frames (median).", needed(SUITE, MEDIAN), 0.2),
        _claim(3, "EVA reaches DQN's end in 20% of its frames (mean).", needed(SUITE, MEAN), 0.2),
        _claim(7, "EVA outperforms Double DQN early.", score(SUITE, MEDIAN, EARLY), DOUBLE_DQN),
        _claim(7, "EVA ends below Double DQN.", MEDIAN_END, DOUBLE_DQN, "worse"),
        _claim(7, "Prioritised Double DQN ends above EVA.", MEDIAN_END, EVA, arm=PRIORITISED),
        _claim(7, "Prioritised Double DQN ends above Double DQN.", MEDIAN_END, DOUBLE_DQN, arm=PRIORITISED),
    ),
    columns=(
        MEDIAN_END,
        score(SUITE, IQM, END),
        MEAN_END,
        score(SUITE, GAP, END),
        score(SUITE, MEDIAN, OVER_TRAINING),
        improvement(SUITE),
    ),
    figures=figures,
    by_name_only=True,
)
