"""Exact values of the maze, compared with value iteration in plain Python and with the optimal return."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eva.envs.maze_dynamics import Mazes
from eva.envs.maze_layout import load_layout, optimal_return
from eva.envs.maze_values import MazeValues, are_optimal
from tests.helpers.reference.maze import MOVES, free_cells, move

MAPS = ["...\n", "..\n..\n", ".#.\n...\n", "....\n.##.\n....\n", ".....\n"]
Cell = tuple[int, int]


def iterated_values(
    rows: list[str], coins: frozenset[Cell], discount: float
) -> dict[tuple[Cell, frozenset[Cell]], list[float]]:
    """Return Q* of every state that holds some of `coins`, by value iteration from 0 until nothing changes."""
    cells = free_cells(rows)
    subsets = [frozenset(s) for size in range(1, len(coins) + 1) for s in itertools.combinations(sorted(coins), size)]
    values = {(cell, left): [0.0] * len(MOVES) for left in subsets for cell in cells}
    while True:
        change = 0.0
        for (cell, left), before in list(values.items()):
            after = []
            for action in MOVES:
                entered = move(set(cells), cell, action)
                remaining = left - {entered}
                reward = -0.01 + (1.0 if entered in left else 0.0)
                after.append(reward + (discount * max(values[entered, remaining]) if remaining else 0.0))
            change = max(change, *(abs(a - b) for a, b in zip(after, before, strict=True)))
            values[cell, left] = after
        if change == 0.0:
            return values


@given(st.sampled_from(MAPS), st.integers(1, 3), st.sampled_from([0.0, 0.5, 0.9, 0.99]), st.data())
def test_values_match_value_iteration(text: str, num_coins: int, discount: float, data: st.DataObject) -> None:
    layout = load_layout(text)
    cells = free_cells(list(layout.rows))
    chosen = data.draw(st.lists(st.sampled_from(range(len(cells))), min_size=1, max_size=num_coins, unique=True))
    expected = iterated_values(list(layout.rows), frozenset(cells[i] for i in chosen), discount)
    agents = np.arange(len(cells))
    coins = np.zeros((len(cells), len(cells)), np.bool_)
    coins[:, chosen] = True
    found = MazeValues(layout, discount)(agents, coins)
    left = frozenset(cells[i] for i in chosen)
    np.testing.assert_allclose(found, [expected[cell, left] for cell in cells], rtol=0, atol=1e-12)


@pytest.mark.parametrize("num_coins", [1, 2])
def test_without_a_discount_the_mean_value_is_the_optimal_return(num_coins: int) -> None:
    layout = load_layout("....\n.##.\n....\n")
    num_cells = len(layout.positions)
    starts = np.array(list(itertools.permutations(range(num_cells), 1 + num_coins)))
    mazes = Mazes(len(starts), layout, num_coins, 500)
    mazes.place(mazes.every, starts)
    values = MazeValues(layout, 1.0)(mazes.agents, mazes.coins).max(axis=1)
    assert values.mean() == pytest.approx(optimal_return(layout, num_coins), abs=1e-12)
    assert math.perm(num_cells, 1 + num_coins) == len(values)


def test_actions_with_equal_values_are_all_optimal() -> None:
    values = np.array([[0.3, 0.1 + 0.2, 0.2, 0.1], [0.5, 0.4, 0.3, 0.2]])
    assert are_optimal(values).tolist() == [[True, True, False, False], [True, False, False, False]]
