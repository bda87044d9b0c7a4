"""The Atari games: names, the paper's sets, human and random scores."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from eva.errors import UserError, nearest_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Score = TypeVar("Score", float, "npt.NDArray[np.float64]")


@dataclass(frozen=True)
class PublishedScores:
    """Mean scores in one game (see data/README.md)."""

    random: float
    human: float


def _read() -> dict[str, PublishedScores]:
    with Path(__file__).with_name("data").joinpath("atari57_human_random.csv").open(newline="") as file:
        return {row["game"]: PublishedScores(float(row["random"]), float(row["human"])) for row in csv.DictReader(file)}


PUBLISHED_SCORES = _read()
"""Scores of the usual 57 games, by name."""

GAME_SETS = {
    "paper-55": tuple(game for game in PUBLISHED_SCORES if game not in ("defender", "surround")),  # our guess (P19)
    "tuning-5": ("pong", "hero", "frostbite", "ms_pacman", "qbert"),
}
"""The games of the paper's results, and the games that its hyper-parameters were tuned on."""

_BY_LETTERS = {game.replace("_", ""): game for game in PUBLISHED_SCORES}


def game_name(word: str) -> str:
    """Return the canonical name of a game: `ms_pacman` for `Ms. Pacman`, `MsPacman` or `ms-pacman`."""
    letters = re.sub(r"[^a-z0-9]", "", word.lower())
    if letters not in _BY_LETTERS:
        raise UserError(f"there is no Atari game '{word}': {nearest_name(word.lower(), PUBLISHED_SCORES)}")
    return _BY_LETTERS[letters]


def human_normalised_score(game: str, score: Score) -> Score:
    """Return 100 (score - random) / (human - random), Eq. 7: 100 is human, 0 is random.

    It is linear: the mean of normalised scores is the normalised mean.
    """
    published = PUBLISHED_SCORES[game]
    return 100 * (score - published.random) / (published.human - published.random)
