"""Figs. 3, 6 and 7: 55 Atari games, by the paper's protocol or cut down (P91, P92)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from eva.config import Config
from eva.errors import UserError
from eva.experiments.framework.common import DOUBLE_DQN, DQN, PAPER_WEIGHT, PRIORITISED
from eva.experiments.framework.definition import Arm, Claim, Experiment
from eva.experiments.paper.atari_scores import EVA, judge
from eva.games import GAME_SETS, game_name
from eva.presets import for_game, preset
from eva.runs.sweep.jobs import Job

NAME = "atari-55"
FRAMES = 200_000_000
NUM_SEEDS = 3
SMALL_FRAMES = 40_000_000  # shorter runs take the preset for laptops, in which EVA begins earlier (P92)


@dataclass(frozen=True)
class Scope:
    """How much of the paper's protocol is run; by default all of it."""

    games: tuple[str, ...] = GAME_SETS["paper-55"]
    frames: int = FRAMES
    num_seeds: int = NUM_SEEDS

    @property
    def name(self) -> str:
        """What tells results from those of another scope."""
        if self == Scope():
            return NAME
        sets = {games: name for name, games in GAME_SETS.items()}
        if self.games in sets:
            games = sets[self.games]
        elif len(self.games) < 4:
            games = "-".join(self.games)
        else:
            games = f"{len(self.games)}-games-{hashlib.sha256(','.join(self.games).encode()).hexdigest()[:6]}"
        return f"atari-{games}-{self.frames / 1e6:g}M-frames-{self.num_seeds}-seed{'s' * (self.num_seeds > 1)}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return what is typed after `eva experiment` for it."""
        sets = {games: name for name, games in GAME_SETS.items()}
        games = sets.get(self.games, ",".join(self.games))
        return (NAME, "--games", games, "--frames", str(self.frames), "--seeds", str(self.num_seeds))

    @property
    def title(self) -> str:
        """One line, which says if this is not what the paper did."""
        if self == Scope():
            return "55 Atari games"
        return (
            f"Atari, cut down: {len(self.games)} of {len(Scope().games)} games, {self.num_seeds} of {NUM_SEEDS} seeds, "
            f"{self.frames:,} of {FRAMES:,} frames"
        )


def cut_down(games: str | None, frames: int | None, num_seeds: int | None) -> Experiment:
    """Return the experiment, or part of it.

    Args:
        games: Names with commas between them, or of a set of them.
        frames: Of each run.
        num_seeds: For each game and variant.
    """
    if (frames is not None and frames < 4) or (num_seeds is not None and num_seeds < 1):
        raise UserError("give --frames of at least 4 and --seeds of at least 1.")
    chosen = Scope().games
    if games is not None:
        chosen = GAME_SETS.get(games) or tuple(dict.fromkeys(game_name(word) for word in games.split(",")))
    return experiment(Scope(chosen, frames or FRAMES, num_seeds or NUM_SEEDS))


def experiment(scope: Scope) -> Experiment:
    """Return the experiment in a scope."""
    return Experiment(
        name=scope.name,
        title=scope.title,
        claims=_CLAIMS,
        arms=partial(arms, scope),
        judge=partial(judge, in_full=scope == Scope()),
        remarks=() if scope == Scope() else (_CUT_DOWN,),
        by_name_only=True,
        arguments=() if scope == Scope() else scope.arguments,
    )


def arms(scope: Scope) -> tuple[Arm, ...]:
    """Return every variant in every game."""
    return tuple(
        Arm(game, label, tuple(_job(scope, game, label, seed) for seed in range(scope.num_seeds)))
        for game in scope.games
        for label in (DQN, EVA, DOUBLE_DQN, PRIORITISED)
    )


def _job(scope: Scope, game: str, label: str, seed: int) -> Job:
    base = for_game(preset("atari" if scope.frames >= SMALL_FRAMES else "atari-small"), game)
    run = replace(base.run, threads=1, checkpoints_kept=1, stop_when_diverged=False)  # many at a time; P132
    steps = scope.frames // base.atari.frame_skip
    config = _variant(replace(base, seed=seed, steps=steps, run=run), label)
    arm = label.lower().replace(", ", "-").replace(" ", "-")
    return Job(Path(base.name, arm, f"frames-{scope.frames}", f"seed-{seed}"), config)


def _variant(config: Config, label: str) -> Config:
    return replace(
        config,
        eva=replace(config.eva, nonparametric_weight=PAPER_WEIGHT if label == EVA else 0.0),
        learner=replace(config.learner, double=label in (DOUBLE_DQN, PRIORITISED)),
        replay=replace(config.replay, prioritised=label == PRIORITISED),
    )


_CUT_DOWN = (
    "This is not what the paper did: games, seeds and frames were cut down, and runs of less than 40M frames take a "
    "smaller memory, so that EVA begins earlier (P92). It shows that the protocol works, not what it shows in full."
)
_CLAIMS = (
    Claim(
        "Fig. 3",
        "EVA improves the learning speed as well as the final performance level.",
        "Of the mean and the median human-normalised score over games: holds if both are above DQN's, at the end and "
        "on average over training, beyond doubt; in part if one of the four is.",
    ),
    Claim(
        "Fig. 3",
        "EVA achieves the end performance of the baseline in 40 million frames.",
        "Of the mean and the median human-normalised score over games: holds if both curves reach DQN's end within 20% "
        "of its frames, beyond doubt; in part if one does.",
    ),
    Claim(
        "Fig. 7",
        "EVA significantly outperforms Double DQN in early stages of training, but achieves a lower final score.",
        "Of the median human-normalised score: holds if EVA is above Double DQN on average over the first quarter, and "
        "below it at the end, both beyond doubt; in part if one of the two.",
    ),
    Claim(
        "Fig. 7",
        "Double DQN with prioritised replay achieves higher performance than either approach in isolation.",
        "Of the final median human-normalised score: holds if it is above EVA's and Double DQN's beyond doubt; in part "
        "if above one of the two.",
    ),
)
FULL = experiment(Scope())
