"""The paper's coin maze: collect all coins in as few steps as possible.

One implementation of the dynamics serves two shells: `CoinMaze`, a Gymnasium environment registered as
`eva/CoinMaze-v0`, and `VectorCoinMaze`, which steps E mazes at once.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from eva.envs.layout import COIN_REWARD, MOVE_NAMES, MOVES, STEP_REWARD, MazeLayout, check_num_coins, load_layout
from eva.errors import UserError
from eva.ids import MAZE_ID
from eva.types import Bools, EnvironmentSpec, Floats, Ints, Observations, StepOutcome

AGENT, COIN, WALL, FLOOR = (0, 255, 255), (255, 255, 0), (128, 0, 128), (0, 0, 0)
_GRID_LINE = (48, 48, 48)
_RENDER_SCALE = 24
_STATE = ("agents", "coins", "steps")  # the arrays of `_Mazes` that change


class _Mazes:
    """E mazes as arrays over the F free cells of one layout. It neither ends nor starts an episode by itself."""

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
        """Move every agent; return what it earned and whether its episode terminated or was truncated, (E,) each."""
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


class VectorCoinMaze:
    """E coin mazes that step together and start anew when an episode ends (see `VectorEnvironment`)."""

    def __init__(
        self,
        num_environments: int,
        layout: str | MazeLayout,
        num_coins: int,
        generator: np.random.Generator,
        max_episode_steps: int = 500,
    ) -> None:
        """Build the mazes; `generator` draws the start states, `layout` is whatever `load_layout` takes."""
        self._mazes = _Mazes(num_environments, layout, num_coins, max_episode_steps)
        self._generator = generator

    @property
    def spec(self) -> EnvironmentSpec:
        """What an agent must know about these mazes."""
        return EnvironmentSpec(
            len(self._mazes.every),
            len(MOVES),
            self._mazes.observation_shape,
            np.dtype(np.uint8),
            reward_bound=1.0,
            action_names=MOVE_NAMES,
        )

    @property
    def layout(self) -> MazeLayout:
        """The map of every maze."""
        return self._mazes.layout

    def reset(self) -> Observations:
        """Start an episode in every maze and return the first observations."""
        self._mazes.place_at_random(self._mazes.every, self._generator)
        return self._mazes.draw(self._mazes.every)

    def step(self, actions: Ints) -> StepOutcome:
        """Take one action in every maze; the arrays returned are the caller's to keep."""
        rewards, terminated, truncated = self._mazes.step(actions)
        last_observations = self._mazes.draw(self._mazes.every)
        observations = last_observations.copy()
        ended = np.flatnonzero(terminated | truncated)
        if ended.size:
            self._mazes.place_at_random(ended, self._generator)
            observations[ended] = self._mazes.draw(ended)
        return StepOutcome(observations, rewards, terminated, truncated, last_observations)

    def get_state(self) -> dict[str, Any]:
        """Return all that decides the future, as copies: three arrays and the generator's state."""
        arrays = {name: getattr(self._mazes, name).copy() for name in _STATE}
        return {**arrays, "generator": self._generator.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state that `get_state` returned in equally many mazes of the same layout."""
        for name in _STATE:
            current = getattr(self._mazes, name)
            values = np.array(state[name], current.dtype)
            if values.shape != current.shape:
                raise ValueError(f"{name} has shape {values.shape}, these mazes need {current.shape}")
            setattr(self._mazes, name, values)
        self._generator.bit_generator.state = state["generator"]


class CoinMaze(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """One coin maze with Gymnasium's interface.

    `reset` takes the options `agent` (row, column) and `coins` [(row, column), ...] together, counted without the
    border, to start from a given state.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own)

    def __init__(
        self,
        layout: str | MazeLayout = "paper",
        num_coins: int = 1,
        max_episode_steps: int = 500,
        render_mode: str | None = None,
    ) -> None:
        """Build the maze; `layout` is whatever `load_layout` takes."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(f"Choose the render mode 'rgb_array' or none at all, not {render_mode!r}.")
        self.render_mode = render_mode
        self._mazes = _Mazes(1, layout, num_coins, max_episode_steps)
        self._running = False
        self.observation_space = gymnasium.spaces.Box(0, 255, self._mazes.observation_shape, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode, at random or from the state that `options` gives."""
        super().reset(seed=seed)
        if options:
            self._mazes.place(self._mazes.every, np.array([self._start_cells(options)]))
        else:
            self._mazes.place_at_random(self._mazes.every, self.np_random)
        self._running = True
        return self._mazes.draw(self._mazes.every)[0], {}

    def step(self, action: np.int64) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Take one action."""
        if not self._running:
            raise gymnasium.error.ResetNeeded("Call reset before the first step and after an episode's end.")
        (reward,), (terminated,), (truncated,) = self._mazes.step(np.array([action]))
        self._running = not (terminated or truncated)
        return self._mazes.draw(self._mazes.every)[0], float(reward), bool(terminated), bool(truncated), {}

    def render(self) -> NDArray[np.uint8] | None:
        """Return an enlarged image with grid lines, or None without a render mode."""
        if self.render_mode is None:
            return None
        image: NDArray[np.uint8] = (
            self._mazes.draw(self._mazes.every)[0].repeat(_RENDER_SCALE, axis=0).repeat(_RENDER_SCALE, axis=1)
        )
        image[::_RENDER_SCALE] = image[:, ::_RENDER_SCALE] = _GRID_LINE
        return image

    def _start_cells(self, options: dict[str, Any]) -> list[int]:
        """Return the free cells of the agent and the coins, in this order."""
        if set(options) != {"agent", "coins"}:
            raise UserError(f"Give the reset options 'agent' and 'coins' together, not {sorted(options)}.")
        cells = [self._mazes.layout.cell_at(*position) for position in (options["agent"], *options["coins"])]
        num_coins = self._mazes.num_coins
        if len(cells) != 1 + num_coins or len(set(cells)) != len(cells):
            raise UserError(f"Place the agent and {num_coins} coin(s) on distinct cells, not {len(cells)} on {cells}.")
        return cells


if MAZE_ID not in gymnasium.registry:
    gymnasium.register(MAZE_ID, entry_point="eva.envs.maze:CoinMaze")
