"""The dynamics of the coin maze, for any number of mazes at once. Imports no library but NumPy."""

import functools

import numpy as np

from eva.envs.maze_layout import COIN_REWARD, MOVES, STEP_REWARD, MazeLayout, check_num_coins, load_layout
from eva.errors import UserError
from eva.types import Bools, Floats, Ints, Observations

AGENT, COIN, WALL, FLOOR = (0, 255, 255), (255, 255, 0), (128, 0, 128), (0, 0, 0)
_RANDOM_EPISODES = 10_000


class Mazes:
    """E mazes as arrays over the F free cells of one layout. The caller starts episodes."""

    def __init__(self, num_environments: int, layout: str | MazeLayout, num_coins: int, max_episode_steps: int) -> None:
        self.layout = load_layout(layout)
        check_num_coins(self.layout, num_coins)
        if max_episode_steps < 1:
            raise UserError(f"Allow at least 1 step for each episode, not {max_episode_steps}.")
        self.num_coins = num_coins
        self.max_episode_steps = max_episode_steps
        num_cells = len(self.layout.positions)
        self.agents: Ints = np.zeros(num_environments, np.int64)  # (E,) the free cell each agent stands on
        self.coins: Bools = np.zeros((num_environments, num_cells), np.bool_)  # (E, F) where coins are left
        self.steps: Ints = np.zeros(num_environments, np.int64)  # (E,) taken in this episode
        self.every: Ints = np.arange(num_environments)
        self._blank = np.where(self.layout.walls[..., None], WALL, FLOOR).astype(np.uint8)
        self.observation_shape = self._blank.shape

    def place(self, which: Ints, cells: Ints) -> None:
        """Start episodes in the R environments `which`: `cells` (R, 1 + C) are the agent's and the coins'."""
        self.agents[which] = cells[:, 0]
        self.coins[which] = False
        self.coins[which[:, None], cells[:, 1:]] = True
        self.steps[which] = 0

    def place_at_random(self, which: Ints, generator: np.random.Generator) -> None:
        """Start episodes in the environments `which`, uniformly over distinct free cells."""
        every_cell = np.broadcast_to(np.arange(self.coins.shape[1]), (len(which), self.coins.shape[1]))
        self.place(which, generator.permuted(every_cell, axis=1)[:, : 1 + self.num_coins])

    def step(self, actions: Ints) -> tuple[Floats, Bools, Bools]:
        """Move every agent; return (rewards, terminated, truncated), each of shape (E,)."""
        self.agents = self.layout.successors[self.agents, actions]
        collected = self.coins[self.every, self.agents]
        self.coins[self.every, self.agents] = False
        self.steps += 1
        terminated: Bools = np.logical_not(self.coins.any(axis=1))
        truncated = (self.steps >= self.max_episode_steps) & ~terminated
        return collected * COIN_REWARD + STEP_REWARD, terminated, truncated

    def draw(self, which: Ints) -> Observations:
        """Return new images of the environments `which`, one pixel for each cell."""
        images = np.repeat(self._blank.reshape(1, -1, 3), len(which), axis=0)
        environments, cells = np.nonzero(self.coins[which])
        images[environments, self.layout.pixels[cells]] = COIN
        images[self.every[: len(which)], self.layout.pixels[self.agents[which]]] = AGENT
        return images.reshape(-1, *self.observation_shape)


@functools.cache
def random_return(layout: MazeLayout, num_coins: int, max_episode_steps: int) -> float | None:
    """Return the mean return of random play over 10,000 episodes, always the same ones.

    None if it could take long: for a large maze, many coins or long episodes.
    """
    if len(layout.positions) > 1_000 or num_coins * max_episode_steps > 5_000:
        return None
    mazes, generator = Mazes(_RANDOM_EPISODES, layout, num_coins, max_episode_steps), np.random.default_rng(0)
    mazes.place_at_random(mazes.every, generator)
    returns, goes_on = np.zeros(_RANDOM_EPISODES), np.ones(_RANDOM_EPISODES, np.bool_)
    while goes_on.any():
        rewards, terminated, truncated = mazes.step(generator.integers(len(MOVES), size=_RANDOM_EPISODES))
        returns += goes_on * rewards
        goes_on &= ~(terminated | truncated)
    return float(returns.mean())
