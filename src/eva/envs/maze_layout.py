"""Text maps of the coin maze, and the best mean return each allows. Imports no library but NumPy."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eva.errors import UserError, nearest_name
from eva.types import Bools, Ints

COIN_REWARD = 1.0
STEP_REWARD = -0.01
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # (row, column) of actions 0 to 3: left, right, up, down
MOVE_NAMES = ("left", "right", "up", "down")

# The paper's picture is lost: `paper` matches its "195K" states with two coins, `open` its "4K" with one (P14).
_PILLARS = "..#.......#.."
_OPEN_ROW = "............."
LAYOUTS = {
    "paper": "\n".join((_OPEN_ROW, _PILLARS, _PILLARS, _PILLARS, _OPEN_ROW)),
    "open": "\n".join((_OPEN_ROW,) * 5),
}

MAX_COIN_SETS = 2_000_000
"""`optimal_return` returns None if a table over sets of coins or pairs of cells would have more rows than this."""

_Steps = NDArray[np.int16]  # wide enough for every path within that limit, at a quarter of the memory traffic
_CHUNK = 8192  # coin sets joined with all agent cells at once: a few megabytes that stay in the cache


@dataclass(frozen=True)
class MazeLayout:
    """A map whose free cells (F of them, numbered row by row) are all connected."""

    rows: tuple[str, ...]  # the map without its border, `#` for a wall and `.` for a free cell

    def __post_init__(self) -> None:
        lengths = {len(row) for row in self.rows}
        invalid = sorted(set("".join(self.rows)) - set("#."))
        if len(lengths) > 1:
            raise UserError(f"Make all rows of the maze map equally long, not {min(lengths)} to {max(lengths)} cells.")
        if invalid:
            raise UserError(f"Use only '#' for walls and '.' for free cells in the maze map, not {invalid[0]!r}.")
        if "." not in "".join(self.rows):
            raise UserError("Give the maze map at least one free cell, written '.'.")
        if (_distances(self.successors, np.array([0])) < 0).any():
            raise UserError("Connect all free cells of the maze map: some cannot be reached from others.")

    @cached_property
    def walls(self) -> Bools:
        """(H + 2, W + 2) where the walls are, with a border of them around the map."""
        return np.pad(np.array([[cell == "#" for cell in row] for row in self.rows]), 1, constant_values=True)

    @cached_property
    def positions(self) -> Ints:
        """(F, 2) row and column of each free cell, without the border."""
        return np.argwhere(~self.walls) - 1

    @cached_property
    def pixels(self) -> Ints:
        """(F,) where each free cell lies in the flattened map with its border."""
        return np.flatnonzero(~self.walls)

    @cached_property
    def successors(self) -> Ints:
        """(F, A) the free cell each action leads to from each; walking into a wall stays."""
        targets = self.pixels[:, None] + np.array(MOVES) @ np.array([self.walls.shape[1], 1])
        reached = np.where(self.walls.ravel()[targets], self.pixels[:, None], targets)
        return np.searchsorted(self.pixels, reached)

    def cell_at(self, row: int, column: int) -> int:
        """Return the number of the free cell at `row` and `column`, counted without the border."""
        height, width = len(self.rows), len(self.rows[0])
        if not (0 <= row < height and 0 <= column < width and self.rows[row][column] == "."):
            raise UserError(f"Choose a free cell of the {height} x {width} maze instead of ({row}, {column}).")
        return int(np.searchsorted(self.pixels, (row + 1) * (width + 2) + column + 1))


def resolved(layout: str) -> str:
    """Return a layout's name, or the text of its map if it has none, so that configs contain no file paths."""
    return layout if layout in LAYOUTS else "\n".join(load_layout(layout).rows) + "\n"


def check_recorded(layout: str) -> None:
    """Raise UserError unless the layout of a recorded run is what `resolved` returned: it must not name a file."""
    if layout not in LAYOUTS and "\n" not in layout:
        raise UserError(f"maze.layout is {layout[:100]!r}, but in a run it must be {' or '.join(LAYOUTS)}, or a map.")


def load_layout(layout: str | MazeLayout) -> MazeLayout:
    """Return a layout from its name, the path of a text file, or the text of a map (which contains a newline).

    A border of walls is always added around the map.
    """
    if isinstance(layout, MazeLayout):
        return layout
    text = LAYOUTS.get(layout, layout)
    if "\n" not in text:
        try:
            if Path(layout).is_fifo() or Path(layout).is_char_device():
                raise ValueError("not a regular file")
            text = Path(layout).read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError) as error:
            raise UserError(f"No layout or map file is called {layout!r}: {nearest_name(layout, LAYOUTS)}") from error
    return MazeLayout(tuple(line.strip() for line in text.strip().splitlines()))


def optimal_return(layout: MazeLayout, num_coins: int) -> float | None:
    """Return the exact mean, over all start states, of the best undiscounted return: all coins in the fewest steps.

    None when the maze is too large to enumerate (see `MAX_COIN_SETS`). A time limit is assumed not to matter.
    """
    num_cells = len(layout.positions)
    check_num_coins(layout, num_coins)
    if num_cells**2 > MAX_COIN_SETS or any(
        math.comb(num_cells, size) > MAX_COIN_SETS for size in range(1, num_coins + 1)
    ):
        return None
    distances = _distances(layout.successors, np.arange(num_cells)).astype(np.int16)
    coins, tours = _shortest_tours(distances, num_coins)
    # No episode starts with the agent on a coin, so subtract those starts: tours[i] steps from coin i.
    total_steps = -int(tours.sum(dtype=np.int64))
    for start in range(0, len(coins), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        steps = (distances[coins[chunk]] + tours[chunk, :, None]).min(axis=1)  # (S, agent cells)
        total_steps += int(steps.sum(dtype=np.int64))
    num_starts = len(coins) * (num_cells - num_coins)
    return num_coins * COIN_REWARD + STEP_REWARD * total_steps / num_starts


def check_num_coins(layout: MazeLayout, num_coins: int) -> None:
    """Raise a `UserError` unless the agent and `num_coins` coins fit on distinct free cells."""
    most = len(layout.positions) - 1
    if most < 1:
        raise UserError("Give the maze map at least two free cells: one for the agent and one for a coin.")
    if not 1 <= num_coins <= most:
        raise UserError(f"Choose between 1 and {most} coins for this maze, not {num_coins}.")


def _distances(successors: Ints, sources: Ints) -> Ints:
    """Return the fewest steps between each free cell and each source, (F, S), -1 where no path exists."""
    reached = np.arange(len(successors))[:, None] == sources
    distances: Ints = np.where(reached, 0, -1)
    for steps in itertools.count(1):
        new = reached[successors].any(axis=1) & ~reached
        if not new.any():
            break
        distances[new] = steps
        reached |= new
    return distances


def _shortest_tours(distances: _Steps, num_coins: int) -> tuple[Ints, _Steps]:
    """Find the fewest steps from each coin of each coin set through the others: Held-Karp, for all sets at once.

    tour(S, i) = min over j in S - {i} of d(i, j) + tour(S - {i}, j), where the smaller sets are shared by many larger.

    Returns all sets of coins (S, C) in colexicographic order, and `tours` (S, C) beginning at each of their coins.
    """
    num_cells = len(distances)
    binomials = np.array([[math.comb(cell, size) for size in range(1, num_coins + 1)] for cell in range(num_cells)])
    coins: Ints = np.arange(num_cells)[:, None]
    tours: _Steps = np.zeros(coins.shape, np.int16)
    for size in range(2, num_coins + 1):
        flat = itertools.chain.from_iterable(itertools.combinations(range(num_cells), size))
        lexicographic = np.fromiter(flat, np.int64).reshape(-1, size)
        coins = (num_cells - 1 - lexicographic)[::-1, ::-1]
        longer: _Steps = np.empty(coins.shape, np.int16)
        for i in range(size):
            rest = np.delete(coins, i, axis=1)
            rank = binomials[rest, np.arange(size - 1)].sum(axis=1)  # where `rest` lies in the smaller table
            longer[:, i] = (distances[coins[:, i, None], rest] + tours[rank]).min(axis=1)
        tours = longer
    return coins, tours
