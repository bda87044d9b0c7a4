"""Exact values of the coin maze: shortest paths between its cells, and dynamic programming over the coins left."""

import numpy as np

from eva.envs.maze_layout import COIN_REWARD, STEP_REWARD, MazeLayout
from eva.types import Bools, Floats, Ints


class MazeValues:
    """Q* of a maze with any number of coins and one discount. A time limit is assumed not to matter.

    Values are computed for each set of coins when it is first met, and kept.
    """

    def __init__(self, layout: MazeLayout, discount: float) -> None:
        self._successors = layout.successors
        self._discount = discount
        self._entering: dict[frozenset[int], Floats] = {}  # by the coins left

    def __call__(self, agents: Ints, coins: Bools) -> Floats:
        """Return Q*, (n, A), of the states with the agent in cell `agents`, (n,), and coins left in `coins`, (n, F)."""
        sets = [frozenset(row.nonzero()[0].tolist()) for row in coins]
        return np.array([self._entering_cells(left)[self._successors[a]] for a, left in zip(agents, sets, strict=True)])

    def _entering_cells(self, coins: frozenset[int]) -> Floats:
        """Return the value of the step that enters each cell, (F,), while `coins` are left.

        The fixed point of Bellman's optimality equation is exact after as many sweeps as the longest shortest path to
        the next coin has steps. Before, the value of a cell is a lower bound.
        """
        if coins not in self._entering:
            collected = {c: COIN_REWARD + self._discount * self._best(c, coins - {c}) for c in coins}
            values, entering = np.full(len(self._successors), np.finfo(np.float64).min), np.empty(0)
            while True:
                swept = self._discount * values
                swept[list(collected)] = list(collected.values())
                entering, before = STEP_REWARD + swept, entering
                if np.array_equal(entering, before):
                    break
                values = entering[self._successors].max(axis=1)
            self._entering[coins] = entering
        return self._entering[coins]

    def _best(self, cell: int, coins: frozenset[int]) -> float:
        """Return V* of standing in `cell` while `coins` are left; 0 at the episode's end."""
        return float(self._entering_cells(coins)[self._successors[cell]].max()) if coins else 0.0


def are_optimal(q_star: Floats) -> Bools:
    """Return which actions are optimal, (n, A), for Q*, (n, A): ties, which differ by rounding only, all are."""
    optimal: Bools = q_star >= q_star.max(axis=1, keepdims=True) - 1e-9
    return optimal
