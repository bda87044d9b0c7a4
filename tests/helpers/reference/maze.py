"""The coin maze, one cell and one set at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import combinations

Cell = tuple[int, int]

MOVES = {0: (0, -1), 1: (0, 1), 2: (-1, 0), 3: (1, 0)}
CYAN, YELLOW, PURPLE, BLACK = [0, 255, 255], [255, 255, 0], [128, 0, 128], [0, 0, 0]


def free_cells(rows: list[str]) -> list[Cell]:
    """List the free cells, row by row."""
    return [(r, c) for r, row in enumerate(rows) for c, cell in enumerate(row) if cell == "."]


def move(free: set[Cell], cell: Cell, action: int) -> Cell:
    """Return where an action leads."""
    target = (cell[0] + MOVES[action][0], cell[1] + MOVES[action][1])
    return target if target in free else cell


class ReferenceMaze:
    """One maze in one episode."""

    def __init__(self, rows: list[str], agent: Cell, coins: set[Cell], max_episode_steps: int = 500) -> None:
        self.rows, self.agent, self.coins = rows, agent, set(coins)
        self.steps_left = max_episode_steps
        self.free = set(free_cells(rows))

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Return reward, terminated, truncated."""
        self.agent = move(self.free, self.agent, action)
        reward = -0.01
        if self.agent in self.coins:
            self.coins.remove(self.agent)
            reward = 0.99
        self.steps_left -= 1
        if not self.coins:
            return reward, True, False
        return reward, False, self.steps_left == 0

    def observation(self) -> list[list[list[int]]]:
        """Paint the map with its border, one pixel for each cell."""
        image = []
        for r in range(-1, len(self.rows) + 1):
            image.append([])
            for c in range(-1, len(self.rows[0]) + 1):
                if (r, c) == self.agent:
                    colour = CYAN
                elif (r, c) in self.coins:
                    colour = YELLOW
                else:
                    colour = BLACK if (r, c) in self.free else PURPLE
                image[-1].append(colour)
        return image


def fewest_steps(rows: list[str], agent: Cell, coins: frozenset[Cell]) -> int:
    """Search (agent, coins left) breadth first until no coin is left."""
    free = set(free_cells(rows))
    queue, seen = deque([(agent, coins, 0)]), {(agent, coins)}
    while queue:
        cell, left, steps = queue.popleft()
        if not left:
            return steps
        for action in MOVES:
            target = move(free, cell, action)
            state = (target, left - {target})
            if state not in seen:
                seen.add(state)
                queue.append((*state, steps + 1))
    raise ValueError("some coin cannot be reached")


def mean_optimal_return(rows: list[str], num_coins: int) -> float:
    """Average the best return over every start state."""
    returns = [num_coins - 0.01 * fewest_steps(rows, *start) for start in starts(rows, num_coins)]
    return sum(returns) / len(returns)


def mean_random_return(rows: list[str], num_coins: int, max_episode_steps: int) -> float:
    """Average the expected return of random actions over every start state."""
    free = set(free_cells(rows))

    @cache
    def expected(agent: Cell, coins: frozenset[Cell], steps_left: int) -> float:
        if not coins or steps_left == 0:
            return 0.0
        targets = [move(free, agent, action) for action in MOVES]
        futures = [(cell in coins) - 0.01 + expected(cell, coins - {cell}, steps_left - 1) for cell in targets]
        return sum(futures) / len(futures)

    returns = [expected(*start, max_episode_steps) for start in starts(rows, num_coins)]
    return sum(returns) / len(returns)


def starts(rows: list[str], num_coins: int) -> Iterator[tuple[Cell, frozenset[Cell]]]:
    """List every start state: the agent's cell and the coins'."""
    for agent in free_cells(rows):
        for coins in combinations([cell for cell in free_cells(rows) if cell != agent], num_coins):
            yield agent, frozenset(coins)
