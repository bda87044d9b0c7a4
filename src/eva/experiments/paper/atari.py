"""Figs. 3, 6 and 7: 55 Atari games, by the paper's protocol or a part of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from eva.config import Config
from eva.errors import UserError
from eva.experiments.framework.common import DOUBLE_DQN, DQN, PAPER_WEIGHT, PRIORITISED
from eva.experiments.framework.definition import Arm, Claim, Experiment
from eva.experiments.paper.atari_scores import EARLY, END, IQM, MEAN, MEDIAN, OVER_TRAINING, figures, needed, score
from eva.games import GAME_SETS, game_name
from eva.presets import for_game, preset
from eva.runs.sweep.jobs import Job

EVA = "EVA"
NAME = "atari-55"
FRAMES = 200_000_000
NUM_SEEDS = 3
SMALL_FRAMES = 40_000_000  # shorter runs use the preset atari-small, in which EVA applies earlier (P92)


@dataclass(frozen=True)
class Scope:
    """Games, frames and seeds; by default the paper's."""

    games: tuple[str, ...] = GAME_SETS["paper-55"]
    frames: int = FRAMES
    num_seeds: int = NUM_SEEDS

    @property
    def games_name(self) -> str:
        """The name of a set of games, or all names."""
        return {games: name for name, games in GAME_SETS.items()}.get(self.games, ",".join(self.games))

    @property
    def name(self) -> str:
        """Folder of the results."""
        if self == Scope():
            return NAME
        games = self.games_name.replace(",", "-")
        if "," in self.games_name and len(self.games) > 3:
            games = f"{len(self.games)}-games-{hashlib.sha256(self.games_name.encode()).hexdigest()[:6]}"
        return f"atari-{games}-{self.frames / 1e6:g}M-frames-{self.num_seeds}-seed{'s' * (self.num_seeds > 1)}"

    @property
    def title(self) -> str:
        """One line that says if this is less than the paper's protocol."""
        if self == Scope():
            return "55 Atari games"
        return (
            f"Atari, cut down: {len(self.games)} of {len(Scope().games)} games, {self.num_seeds} of {NUM_SEEDS} seeds, "
            f"{self.frames:,} of {FRAMES:,} frames"
        )


def cut_down(games: str | None, frames: int | None, num_seeds: int | None) -> Experiment:
    """Return the experiment, or part of it.

    Args:
        games: Names separated by commas, or the name of a set.
        frames: Of each run.
        num_seeds: For each game and arm.
    """
    if (frames is not None and frames < 4) or (num_seeds is not None and num_seeds < 1):
        raise UserError("give --frames of at least 4 and --seeds of at least 1.")
    chosen = Scope().games
    if games is not None:
        chosen = GAME_SETS.get(games) or tuple(dict.fromkeys(game_name(word) for word in games.split(",")))
    return experiment(Scope(chosen, frames or FRAMES, num_seeds or NUM_SEEDS))


def experiment(scope: Scope) -> Experiment:
    """Return the experiment in a scope."""
    in_full = scope == Scope()
    arguments = (NAME, "--games", scope.games_name, "--frames", str(scope.frames), "--seeds", str(scope.num_seeds))
    return Experiment(
        name=scope.name,
        title=scope.title,
        question="Does EVA learn Atari games faster than DQN, and how does it compare with Double DQN and prioritised "
        f"replay, after {scope.frames / 1e6:g}M frames?",
        arms=partial(arms, scope),
        claims=_CLAIMS,
        columns=(score(MEDIAN, END), score(IQM, END), score(MEAN, END), score(MEDIAN, OVER_TRAINING)),
        figures=figures,
        notes=() if in_full else (_CUT_DOWN,),
        by_name_only=True,
        arguments=() if in_full else arguments,
    )


def arms(scope: Scope) -> tuple[Arm, ...]:
    """Return every arm in every game."""
    return tuple(
        Arm(game, label, tuple(_job(scope, game, label, seed) for seed in range(scope.num_seeds)))
        for game in scope.games
        for label in (DQN, EVA, DOUBLE_DQN, PRIORITISED)
    )


def _job(scope: Scope, game: str, label: str, seed: int) -> Job:
    base = for_game(preset("atari" if scope.frames >= SMALL_FRAMES else "atari-small"), game)
    run = replace(base.run, threads=1, checkpoints_kept=1, stop_when_diverged=False)  # many at a time; P132
    steps = scope.frames // base.atari.frame_skip
    config = _configured(replace(base, seed=seed, steps=steps, run=run), label)
    arm = label.lower().replace(", ", "-").replace(" ", "-")
    return Job(Path(base.name, arm, f"frames-{scope.frames}", f"seed-{seed}"), config)


def _configured(config: Config, label: str) -> Config:
    return replace(
        config,
        eva=replace(config.eva, nonparametric_weight=PAPER_WEIGHT if label == EVA else 0.0),
        learner=replace(config.learner, double=label in (DOUBLE_DQN, PRIORITISED)),
        replay=replace(config.replay, prioritised=label == PRIORITISED),
    )


_CUT_DOWN = (
    "Games, seeds and frames are fewer than in the paper, and runs of less than 40M frames use a smaller memory, so "
    "that EVA applies earlier (P92)."
)
_CLAIMS = (
    *(
        Claim("Fig. 3", text, score(statistic, when), EVA, DQN, "better", 0, primary=(statistic, when) == (MEDIAN, END))
        for statistic in (MEDIAN, MEAN)
        for when, text in (
            (END, f"EVA improves the final performance ({statistic})."),
            (OVER_TRAINING, f"EVA improves the learning speed ({statistic})."),
        )
    ),
    *(
        Claim(
            "Fig. 3",
            f"EVA reaches DQN's end in 20% of its frames ({statistic}).",
            needed(statistic),
            EVA,
            0.2,
            "better",
            0,
        )
        for statistic in (MEDIAN, MEAN)
    ),
    Claim("Fig. 7", "EVA outperforms Double DQN early.", score(MEDIAN, EARLY), EVA, DOUBLE_DQN, "better", 0),
    Claim("Fig. 7", "EVA ends below Double DQN.", score(MEDIAN, END), EVA, DOUBLE_DQN, "worse", 0),
    *(
        Claim(
            "Fig. 7", f"Prioritised Double DQN ends above {other}.", score(MEDIAN, END), PRIORITISED, other, "better", 0
        )
        for other in (EVA, DOUBLE_DQN)
    ),
)
FULL = experiment(Scope())
