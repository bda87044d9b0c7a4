"""The games of Atari and MinAtar: names, the paper's sets, published and random scores."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from eva.errors import UserError, nearest_name
from eva.ids import MINATAR_PREFIX

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Score = TypeVar("Score", float, "npt.NDArray[np.float64]")


MINATAR_GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


@dataclass(frozen=True)
class PublishedScores:
    """Mean scores in an Atari game (see data/README.md)."""

    random: float
    human: float


@dataclass(frozen=True)
class MinAtarScores:
    """Mean scores in a game of MinAtar (see data/README.md)."""

    random: float  # measured by us
    dqn_by_frames: Mapping[int, float]  # the published DQN's learning curve

    @property
    def dqn(self) -> float:
        """The published DQN's last score."""
        return self.dqn_by_frames[max(self.dqn_by_frames)]


def _read(name: str) -> list[dict[str, str]]:
    with Path(__file__).with_name("data").joinpath(name).open(newline="") as file:
        return list(csv.DictReader(file))


def _read_minatar() -> dict[str, MinAtarScores]:
    random = {row["game"]: float(row["random"]) for row in _read("minatar_random.csv")}
    curves: dict[str, dict[int, float]] = {game: {} for game in MINATAR_GAMES}
    for row in _read("minatar_dqn.csv"):
        curves[row["game"]][int(row["frames"])] = float(row["score"])
    return {game: MinAtarScores(random[game], curves[game]) for game in MINATAR_GAMES}


PUBLISHED_SCORES = {
    row["game"]: PublishedScores(float(row["random"]), float(row["human"])) for row in _read("atari57_human_random.csv")
}
"""Scores of the usual 57 Atari games, by name."""

MINATAR_SCORES = _read_minatar()
"""Scores of MinAtar's five games, by name."""

DOPAMINE = "DQN (Adam + MSE in JAX)"
"""The DQN of Dopamine that is nearest to ours."""


def dopamine_dqn(game: str) -> dict[int, tuple[float, float]]:
    """Return Dopamine's returns in an Atari game, mean and standard deviation over seeds, by millions of frames."""
    rows = [row for row in _read("dopamine_dqn.csv") if (row["agent"], row["game"]) == (DOPAMINE, game)]
    return {int(row["frames_M"]): (float(row["mean_train_return"]), float(row["std_over_5_seeds"])) for row in rows}


GAME_SETS = {
    "paper-55": tuple(game for game in PUBLISHED_SCORES if game not in ("defender", "surround")),  # our guess (P19)
    "tuning-5": ("pong", "hero", "frostbite", "ms_pacman", "qbert"),
}
"""The games of the paper's results, and the games that its hyper-parameters were tuned on."""


_ALE_ID = re.compile(r"(?:ale_py:)?(?:ALE/)?([A-Za-z]+?)(?:NoFrameskip|Deterministic)?(?:-ram\w*)?-v\d+")
_BY_LETTERS = {game.replace("_", ""): game for game in PUBLISHED_SCORES}


def game_name(word: str) -> str:
    """Return the canonical name of an Atari game: `ms_pacman` for `Ms. Pacman`, `MsPacman` or `ms-pacman`."""
    return _name("Atari", word, PUBLISHED_SCORES)


def atari_game_of_id(environment_id: str) -> str | None:
    """Return the game of an id of the Arcade Learning Environment (`ALE/Pong-v5`, `PongNoFrameskip-v4`), or None."""
    match = _ALE_ID.fullmatch(environment_id)
    return None if match is None else _BY_LETTERS.get(match[1].lower())


def minatar_game_name(word: str) -> str:
    """Return the canonical name of a game of MinAtar: `space_invaders` for `SpaceInvaders` or `Space Invaders`."""
    return _name("MinAtar", word, MINATAR_GAMES)


def _name(suite: str, word: str, games: Iterable[str]) -> str:
    by_letters = {game.replace("_", ""): game for game in games}
    letters = re.sub(r"[^a-z0-9]", "", word.lower())
    if letters not in by_letters:
        raise UserError(f"there is no {suite} game '{word}': {nearest_name(word.lower(), by_letters.values())}")
    return by_letters[letters]


def minatar_id(game: str, version: int = 0) -> str:
    """Return the Gymnasium id of a game of MinAtar."""
    return f"{MINATAR_PREFIX}{game.title().replace('_', '')}-v{version}"


_MINATAR_IDS = {minatar_id(game, version): (game, version) for game in MINATAR_GAMES for version in (0, 1)}


def minatar_game(environment_id: str) -> tuple[str, int]:
    """Return the game and the version (1: minimal actions) that an id of MinAtar names."""
    if environment_id not in _MINATAR_IDS:
        hint = nearest_name(environment_id, _MINATAR_IDS)
        raise UserError(f"there is no environment {environment_id!r}: {hint}")
    return _MINATAR_IDS[environment_id]


def human_normalised_score(game: str, score: Score) -> Score:
    """Return 100 (score - random) / (human - random), Eq. 7: 100 is human, 0 is random.

    It is linear: the mean of normalised scores is the normalised mean.
    """
    published = PUBLISHED_SCORES[game]
    return 100 * (score - published.random) / (published.human - published.random)


def minatar_normalised_score(game: str, score: Score) -> Score:
    """Return 100 (score - random) / (DQN - random): 100 is the published DQN after 4.9M frames, 0 is random (P154)."""
    known = MINATAR_SCORES[game]
    return 100 * (score - known.random) / (known.dqn - known.random)
