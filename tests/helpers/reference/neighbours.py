"""Exact nearest neighbours by brute force."""

from __future__ import annotations

import math

Embedding = list[float]


def squared_distance(x: Embedding, y: Embedding) -> float:
    """Return ||x - y||^2 by direct subtraction."""
    return math.fsum((x_i - y_i) ** 2 for x_i, y_i in zip(x, y, strict=True))


def nearest(keys: list[Embedding], born: list[int], query: Embedding, k: int) -> list[tuple[int, float]]:
    """Return (index, squared distance) of the k keys nearest to the query, nearest first, ties newest first."""
    distances = [squared_distance(key, query) for key in keys]
    order = sorted(range(len(keys)), key=lambda i: (distances[i], -born[i]))
    return [(i, distances[i]) for i in order[:k]]
