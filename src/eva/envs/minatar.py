"""MinAtar's games (Young and Tian, 2019), as published: the only module that reads the package `minatar`."""

import importlib.util
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eva.errors import UserError
from eva.types import EnvironmentSpec, Ints, Observations, State, StepOutcome

ACTION_NAMES = ("noop", "left", "up", "right", "down", "fire")
_NOT_STATE = {
    "channels",
    "action_map",
    "ramping",
    "random",
}  # attributes of a game that never change, and its generator


@dataclass(eq=False)
class MinAtarGame:
    """One game. Its generator draws sticky actions and what the game draws, in the package's own order.

    For the same seed and actions, observations, rewards and ends equal those of `minatar.Environment`.
    """

    game: str  # as in `eva.games`
    seed: int
    _: KW_ONLY
    minimal_actions: bool = False  # without the actions that do nothing in this game
    repeat_action_probability: float = 0.1  # of repeating the previous action instead (P151)
    difficulty_ramping: bool = True  # enemies become faster in Asterix, Seaquest and Space Invaders (P151)
    max_episode_steps: int | None = None  # the step that reaches this number truncates the episode (P152)

    def __post_init__(self) -> None:
        self._game = _load(self.game)(ramping=self.difficulty_ramping)
        self._random = self._game.random = np.random.RandomState(self.seed)
        self.actions = tuple(self._game.minimal_action_set()) if self.minimal_actions else tuple(range(6))
        self.plane_names = tuple(self._game.channels)
        self._executed = 0
        self._num_steps = 0

    def begin(self) -> NDArray[np.uint8]:
        """Start an episode and return its first observation. The action before the episode can still be repeated."""
        self._game.reset()
        self._num_steps = 0
        return self.observation()

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Take an action and return (reward, terminated, truncated)."""
        if self._random.random_sample() >= self.repeat_action_probability:
            self._executed = self.actions[action]
        reward, is_over = self._game.act(self._executed)
        self._num_steps += 1
        return float(reward), bool(is_over), not is_over and self._num_steps == self.max_episode_steps

    def observation(self) -> NDArray[np.uint8]:
        """Return planes of 0 and 1, (10, 10, C)."""
        planes: NDArray[np.bool_] = self._game.state()
        return planes.view(np.uint8)

    def get_state(self) -> State:
        """Return the complete state: all attributes of the game that change, and the generator."""
        generator = self._random.get_state(legacy=False)
        return {
            "game": {name: _plain(vars(self._game)[name]) for name in self._state_names()},
            "generator": {**generator, "state": {**generator["state"], "key": generator["state"]["key"].copy()}},
            "executed": self._executed,
            "num_steps": self._num_steps,
        }

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned for the same game."""
        if sorted(state["game"]) != self._state_names():
            raise UserError(
                "the checkpoint holds another state than this game has: install the version of minatar that the run "
                "started with (provenance.json)."
            )
        for name, value in state["game"].items():
            setattr(self._game, name, _plain(value))
        self._random.set_state(state["generator"])
        self._executed, self._num_steps = state["executed"], state["num_steps"]

    def _state_names(self) -> list[str]:
        return sorted(set(vars(self._game)) - _NOT_STATE)


class VectorMinAtar:
    """E games that are stepped one after the other in this process and reset when an episode ends."""

    def __init__(self, games: Sequence[MinAtarGame]) -> None:
        """Use games that differ only in their seeds."""
        self._games = games
        names, planes = tuple(ACTION_NAMES[action] for action in games[0].actions), games[0].plane_names
        shape = games[0].observation().shape
        self.spec = EnvironmentSpec(
            len(games), len(names), shape, np.dtype(np.uint8), action_names=names, plane_names=planes
        )

    def reset(self) -> Observations:
        """Start an episode in every game and return the first observations."""
        return np.stack([game.begin() for game in self._games])

    def step(self, actions: Ints) -> StepOutcome:
        """Take one action in every game."""
        outcomes = [game.step(int(action)) for game, action in zip(self._games, actions, strict=True)]
        rewards, terminated, truncated = map(np.array, zip(*outcomes, strict=True))
        last_observations = np.stack([game.observation() for game in self._games])
        ended = np.flatnonzero(terminated | truncated).tolist()
        observations = last_observations.copy() if ended else last_observations
        for e in ended:
            observations[e] = self._games[e].begin()
        return StepOutcome(observations, rewards, terminated, truncated, last_observations)

    def get_state(self) -> State:
        """Return the state of every game."""
        return {str(e): game.get_state() for e, game in enumerate(self._games)}

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned."""
        for e, game in enumerate(self._games):
            game.set_state(state[str(e)])

    def close(self) -> None:
        """Do nothing: games hold only memory."""


def _load(game: str) -> Any:
    """Return the class of a game.

    Its module is loaded without the package around it, which would import matplotlib and seaborn to render.
    """
    package = importlib.util.find_spec("minatar")
    if package is None or not package.submodule_search_locations:
        raise UserError(
            'MinAtar needs a package that is missing (minatar): run pip install "ephemeral-value-adjustments[minatar]".'
        )
    path = Path(package.submodule_search_locations[0], "environments", f"{game}.py")
    spec = importlib.util.spec_from_file_location(f"minatar.environments.{game}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Env


def _plain(value: Any) -> Any:
    """Return a copy without NumPy's scalars: an array, or a plain value or lists of them."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.copy()
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or type(value) in (bool, int, float):
        return value
    raise TypeError(f"cannot save {value!r}, part of a game of MinAtar")
