"""Figs. 3, 6 and 7: 55 Atari games, by the paper's protocol or a part of it."""

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from eva.errors import UserError
from eva.experiments.framework.common import (
    DOUBLE_DQN,
    DQN,
    LEARNERS,
    NO_CHANGES,
    PAPER_WEIGHT,
    PRIORITISED,
    WEIGHT,
    Changes,
    arm,
)
from eva.experiments.framework.definition import Arm, Claim, Expected, Experiment
from eva.experiments.framework.measures import Measure
from eva.experiments.paper.atari_scores import EARLY, END, IQM, MEAN, MEDIAN, OVER_TRAINING, figures, needed, score
from eva.games import GAME_SETS, game_name
from eva.presets import for_game, preset

EVA = "EVA"
NAME = "atari-55"
FRAMES = 200_000_000
NUM_SEEDS = 3
SMALL_FRAMES = 40_000_000  # shorter runs use the preset atari-small, in which EVA applies earlier (P92)
AGENTS: Mapping[str, Changes] = {DQN: NO_CHANGES, EVA: {WEIGHT: PAPER_WEIGHT}, **LEARNERS}


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
        games = self.games_name.replace(",", "-")
        if "," in self.games_name and len(self.games) > 3:
            games = f"{len(self.games)}-games-{hashlib.sha256(self.games_name.encode()).hexdigest()[:6]}"
        return f"atari-{games}-{self.frames / 1e6:g}M-frames-{self.num_seeds}-seed{'s' * (self.num_seeds > 1)}"

    def arms(self) -> tuple[Arm, ...]:
        """Return every agent in every game, with one thread for each run: many share a machine."""
        base = preset("atari" if self.frames >= SMALL_FRAMES else "atari-small")
        common = {WEIGHT: 0.0, "steps": self.frames // base.atari.frame_skip, "run.device": "auto", "run.threads": 1}
        found = []
        for game, (label, changes) in itertools.product(self.games, AGENTS.items()):
            config = for_game(base, game)
            folder = f"{config.name}/{label.lower().replace(', ', '-').replace(' ', '-')}/frames-{self.frames}"
            found.append(arm(game, label, folder, config, {**common, **changes}, seeds=range(self.num_seeds)))
        return tuple(found)


def cut_down(games: str | None, frames: int | None, num_seeds: int | None) -> Experiment:
    """Return the experiment, or part of it: games by names separated by commas or by the name of a set."""
    if (frames is not None and frames < 4) or (num_seeds is not None and num_seeds < 1):
        raise UserError("give --frames of at least 4 and --seeds of at least 1.")
    chosen = Scope().games
    if games is not None:
        chosen = GAME_SETS.get(games) or tuple(dict.fromkeys(game_name(word) for word in games.split(",")))
    scope = Scope(chosen, frames or FRAMES, num_seeds or NUM_SEEDS)
    if scope == Scope():
        return FULL
    sizes = f"{len(chosen)} of {len(Scope().games)} games, {scope.num_seeds} of {NUM_SEEDS} seeds"
    return replace(
        FULL,
        name=scope.name,
        title=f"Atari, cut down: {sizes}, {scope.frames:,} of {FRAMES:,} frames",
        question=QUESTION.format(scope.frames / 1e6),
        arms=scope.arms,
        notes=(
            "Games, seeds and frames are fewer than in the paper, and runs of less than 40M frames use a smaller "
            "memory, so that EVA applies earlier (P92).",
        ),
        arguments=f"{NAME} --games {scope.games_name} --frames {scope.frames} --seeds {scope.num_seeds}".split(),
    )


def _claim(figure: int, text: str, measure: Measure, arm: str, other: str | float, says: Expected = "better") -> Claim:
    return Claim(f"Fig. {figure}", text, measure, arm, other, says, margin=0)


MEDIAN_END = score(MEDIAN, END)
QUESTION = (
    "Does EVA learn Atari games faster than DQN, and how does it compare with Double DQN and prioritised replay, after "
    "{:g}M frames?"
)
FULL = Experiment(
    name=NAME,
    title="55 Atari games",
    question=QUESTION.format(FRAMES / 1e6),
    arms=Scope().arms,
    claims=(
        replace(_claim(3, "EVA improves the final performance (median).", MEDIAN_END, EVA, DQN), primary=True),
        _claim(3, "EVA improves the learning speed (median).", score(MEDIAN, OVER_TRAINING), EVA, DQN),
        _claim(3, "EVA improves the final performance (mean).", score(MEAN, END), EVA, DQN),
        _claim(3, "EVA improves the learning speed (mean).", score(MEAN, OVER_TRAINING), EVA, DQN),
        _claim(3, "EVA reaches DQN's end in 20% of its frames (median).", needed(MEDIAN), EVA, 0.2),
        _claim(3, "EVA reaches DQN's end in 20% of its frames (mean).", needed(MEAN), EVA, 0.2),
        _claim(7, "EVA outperforms Double DQN early.", score(MEDIAN, EARLY), EVA, DOUBLE_DQN),
        _claim(7, "EVA ends below Double DQN.", MEDIAN_END, EVA, DOUBLE_DQN, "worse"),
        _claim(7, "Prioritised Double DQN ends above EVA.", MEDIAN_END, PRIORITISED, EVA),
        _claim(7, "Prioritised Double DQN ends above Double DQN.", MEDIAN_END, PRIORITISED, DOUBLE_DQN),
    ),
    columns=(MEDIAN_END, score(IQM, END), score(MEAN, END), score(MEDIAN, OVER_TRAINING)),
    figures=figures,
    by_name_only=True,
)
