"""Scores that can be compared from one Atari game to the next."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from eva.games import PUBLISHED_SCORES

Score = TypeVar("Score", float, npt.NDArray[np.float64])


def human_normalised_score(game: str, score: Score) -> Score:
    """Return 100 (score - random) / (human - random), Eq. 7: 100 for a person, 0 for chance.

    It is linear: the mean of normalised scores is the normalised mean.
    """
    published = PUBLISHED_SCORES[game]
    return 100 * (score - published.random) / (published.human - published.random)
