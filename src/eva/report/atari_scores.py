"""Scores that can be compared from one Atari game to the next."""

from __future__ import annotations

from eva.games import PUBLISHED_SCORES


def human_normalised_score(game: str, score: float) -> float:
    """Return 100 (score - random) / (human - random), Eq. 7: 100 for a person, 0 for chance.

    It is linear: the mean of normalised scores is the normalised mean.
    """
    published = PUBLISHED_SCORES[game]
    return 100 * (score - published.random) / (published.human - published.random)
