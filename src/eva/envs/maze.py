"""The paper's coin maze, as the Gymnasium environment `eva/CoinMaze-v0` and as E mazes stepped at once."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from eva.envs.maze_dynamics import Mazes
from eva.envs.maze_layout import MOVE_NAMES, MOVES, MazeLayout
from eva.errors import UserError
from eva.types import EnvironmentSpec, Ints, Observations, StepOutcome

_GRID_LINE = (48, 48, 48)
_RENDER_SCALE = 24
_STATE = ("agents", "coins", "steps")  # the arrays of `Mazes` that change


class VectorCoinMaze:
    """E coin mazes that step together and reset when an episode ends (see `VectorEnvironment`)."""

    def __init__(self, mazes: Mazes, generator: np.random.Generator) -> None:
        """Step these mazes; `generator` draws the start states."""
        self._mazes = mazes
        self._generator = generator
        num, dtype = len(mazes.every), np.dtype(np.uint8)
        self.spec = EnvironmentSpec(num, len(MOVES), mazes.observation_shape, dtype, 1.0, MOVE_NAMES)

    def reset(self) -> Observations:
        """Start an episode in every maze and return the first observations."""
        self._mazes.place_at_random(self._mazes.every, self._generator)
        return self._mazes.draw(self._mazes.every)

    def step(self, actions: Ints) -> StepOutcome:
        """Take one action in every maze; later steps do not change the returned arrays."""
        rewards, terminated, truncated = self._mazes.step(actions)
        last_observations = self._mazes.draw(self._mazes.every)
        observations = last_observations.copy()
        ended = np.flatnonzero(terminated | truncated)
        if ended.size:
            self._mazes.place_at_random(ended, self._generator)
            observations[ended] = self._mazes.draw(ended)
        return StepOutcome(observations, rewards, terminated, truncated, last_observations)

    def get_state(self) -> dict[str, Any]:
        """Return copies of the arrays that change, and the generator's state."""
        arrays = {name: getattr(self._mazes, name).copy() for name in _STATE}
        return {**arrays, "generator": self._generator.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state that `get_state` returned for the same number of mazes with the same layout."""
        for name in _STATE:
            current = getattr(self._mazes, name)
            values = np.array(state[name], current.dtype)
            if values.shape != current.shape:
                raise ValueError(f"{name} has shape {values.shape}, these mazes need {current.shape}")
            setattr(self._mazes, name, values)
        self._generator.bit_generator.state = state["generator"]

    def close(self) -> None:
        """Do nothing: the mazes hold only memory."""


class CoinMaze(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """One coin maze with Gymnasium's interface.

    To start from a given state, pass the options `agent` (row, column) and `coins` [(row, column), ...] to `reset`;
    rows and columns do not count the border.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own)

    def __init__(
        self,
        layout: str | MazeLayout = "paper",
        num_coins: int = 1,
        max_episode_steps: int = 500,
        render_mode: str | None = None,
    ) -> None:
        """Build the maze; `layout` is an argument of `load_layout`."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(f"Choose the render mode 'rgb_array' or None, not {render_mode!r}.")
        self.render_mode = render_mode
        self._mazes = Mazes(1, layout, num_coins, max_episode_steps)
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
