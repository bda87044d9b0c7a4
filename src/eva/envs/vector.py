"""Gymnasium environments, stepped together in a fixed order."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit

from eva.errors import UserError, nearest_name, reason_of
from eva.types import EnvironmentSpec, Ints, Observations, Pictures, Resumable, State, StepOutcome
from eva.user_code import import_callable, reported_failures, working_directory_last

_FAILURES = "the environment"
_FRAMES_PER_SECOND = 30.0  # where the environment does not say
_USERS: "WeakValueDictionary[int, GymnasiumVector]" = WeakValueDictionary()
"""The open vector that steps an environment, by the id of the object: no environment is stepped by two."""


class GymnasiumVector:
    """E Gymnasium environments, one for each seed, stepped one after the other in this process.

    With `draws`, the first one is drawn after each step, if its render mode is "rgb_array" (see `Pictured`).
    """

    def __init__(
        self, make: Callable[[], gymnasium.Env[Any, Any]], seeds: Sequence[int], *, draws: bool = False
    ) -> None:
        if draws and sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame would look for a screen and print an error
        self._environments: list[gymnasium.Env[Any, Any]] = []
        for _ in seeds:
            self._environments.append(self._claimed(make()))
        self._seeds = seeds
        self.class_name = type(self._environments[0].unwrapped).__name__
        self._draws = draws and self._environments[0].render_mode == "rgb_array"
        self.picture: Pictures | None = None
        self.no_picture = "it has no render mode rgb_array"
        with reported_failures(_FAILURES):
            rate = (self._environments[0].metadata or {}).get("render_fps")
            self.frames_per_second = float(rate or _FRAMES_PER_SECOND)
            self.spec = _spec_of(self._environments[0], len(seeds))

    def reset(self) -> Observations:
        """Seed every environment and start an episode in each."""
        seeded = zip(self._environments, self._seeds, strict=True)
        with reported_failures(_FAILURES):
            first = [self._checked(environment.reset(seed=seed)[0]) for environment, seed in seeded]
            stacked = np.stack(first).astype(self.spec.observation_dtype, copy=False)
        self._draw()
        return stacked

    def step(self, actions: Ints) -> StepOutcome:
        """Take one action in every environment, and reset those whose episode ended."""
        num = len(self._environments)
        last = np.empty((num, *self.spec.observation_shape), self.spec.observation_dtype)
        rewards = np.empty(num)
        terminated, truncated = np.zeros(num, np.bool_), np.zeros(num, np.bool_)
        with reported_failures(_FAILURES):
            for e, environment in enumerate(self._environments):
                action = self.spec.first_action + int(actions[e])
                observation, reward, terminated[e], truncated[e], _ = environment.step(action)
                last[e], rewards[e] = self._checked(observation), np.asarray(reward).item()
            truncated &= ~terminated
            self._draw()  # before the next episode begins
            observations = last.copy()
            for ended in (terminated | truncated).nonzero()[0]:
                observations[ended] = self._checked(self._environments[ended].reset()[0])
        return StepOutcome(observations, rewards, terminated, truncated, last)

    def close(self) -> None:
        """Close every environment, and ignore errors while closing."""
        for environment in self._environments:
            with suppress(Exception, SystemExit):
                environment.close()
            _USERS.pop(id(environment.unwrapped), None)

    def get_state(self) -> State | None:
        """Return the state of every environment, or None unless all are `Resumable`."""
        states = {}
        for e, environment in enumerate(self._environments):
            inner = environment.unwrapped
            if not isinstance(inner, Resumable):
                return None
            with reported_failures(_FAILURES):
                inner_state = inner.get_state()
            states[str(e)] = {
                "inner": inner_state,
                "generator": inner.np_random.bit_generator.state,
                "elapsed_steps": [limit._elapsed_steps for limit in _time_limits(environment)],
            }
        return states

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned."""
        for e, environment in enumerate(self._environments):
            inner, mine = environment.unwrapped, state[str(e)]
            assert isinstance(inner, Resumable)
            with reported_failures(_FAILURES):
                environment.reset()  # wrappers raise if step is called before reset
                inner.set_state(mine["inner"])
            inner.np_random.bit_generator.state = mine["generator"]
            for limit, elapsed_steps in zip(_time_limits(environment), mine["elapsed_steps"], strict=True):
                limit._elapsed_steps = elapsed_steps

    def _draw(self) -> None:
        """Draw the first environment; an error only ends the drawing. Its generator is left as it is."""
        if not self._draws:
            return
        environment = self._environments[0]
        generator = environment.unwrapped.np_random
        state = generator.bit_generator.state if isinstance(generator, np.random.Generator) else None
        self.picture, self.no_picture = _rendered(environment)
        self._draws = self.picture is not None
        if state is not None:
            generator.bit_generator.state = state

    def _claimed(self, environment: Any) -> gymnasium.Env[Any, Any]:
        if not isinstance(environment, gymnasium.Env):
            raise UserError(
                f"a {type(environment).__name__} is no environment: the function must return a gymnasium.Env, not a "
                "vector of them (environment.num_environments makes several)."
            )
        if id(environment.unwrapped) in _USERS:
            raise UserError(
                "the function returned an environment that is in use already: let it return a new one at each call."
            )
        _USERS[id(environment.unwrapped)] = self
        return environment

    def _checked(self, observation: Any) -> Any:
        shape = self.spec.observation_shape
        if np.shape(observation) != shape:
            raise UserError(
                f"an observation of shape {np.shape(observation)} differs from that of the observation space, {shape}: "
                "fix the environment."
            )
        return observation


def _time_limits(environment: gymnasium.Env[Any, Any]) -> Iterator[TimeLimit[Any, Any]]:
    """Yield the wrappers that count an episode's steps, from the outermost on."""
    while isinstance(environment, gymnasium.Wrapper):
        if isinstance(environment, TimeLimit):
            yield environment
        environment = environment.env


def make_gymnasium(
    environment_id: str,
    arguments: Mapping[str, Any] | None = None,
    wrappers: Sequence[str] = (),
    *,
    draws: bool = False,
) -> gymnasium.Env[Any, Any]:
    """Make a registered environment with wrappers, or raise a `UserError` that explains what is wrong.

    `arguments` are those of `gymnasium.make`, `wrappers` import paths of callables from environment to environment.
    With `draws`, the render mode is "rgb_array" if there is that mode.
    """
    environment = _made(environment_id, arguments or {}, draws=draws)
    for path in wrappers:
        wrap = import_callable(path, "environment.wrappers")
        with reported_failures(f"the wrapper {path}"):
            environment = wrap(environment)
    return environment


def _rendered(environment: gymnasium.Env[Any, Any]) -> tuple[Pictures | None, str]:
    """Return a picture and an empty reason, or None and the reason why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's advice to authors of environments
            picture: Any = np.asarray(environment.render())
    except gymnasium.error.DependencyNotInstalled as error:
        return None, f"render() needs a package that is not installed: {error}"
    except (Exception, SystemExit) as error:
        return None, f"render() failed, {reason_of(error)}"
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or picture.size == 0:
        return None, f"render() returned {picture.dtype} of shape {picture.shape}, not bytes (height, width, 3)"
    return picture, ""


def entry_point(environment_id: str) -> str | None:
    """Return what makes a registered environment, or None if none is registered with this id yet."""
    registered = gymnasium.registry.get(environment_id)
    return None if registered is None else str(registered.entry_point)


def _made(environment_id: str, arguments: Mapping[str, Any], *, draws: bool = False) -> gymnasium.Env[Any, Any]:
    """Make a registered environment; with `draws`, with the render mode "rgb_array" if it has that mode."""
    try:
        with working_directory_last():
            made = gymnasium.make(environment_id, **arguments)
            if not draws or "render_mode" in arguments or "rgb_array" not in (made.metadata.get("render_modes") or ()):
                return made
            with suppress(TypeError):  # it takes no render mode
                drawing = gymnasium.make(environment_id, **arguments, render_mode="rgb_array")
                made.close()
                return drawing
            return made
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(f"{environment_id} needs a package that is not installed: {error}") from None
    except (gymnasium.error.Error, ImportError) as error:
        missing = getattr(error.__cause__ or error, "name", None)  # of the module that could not be imported, if any
        if missing is not None and missing != environment_id.partition(":")[0]:
            raise UserError(f"{environment_id} needs a package that is not installed: {missing}.") from None
        hint = nearest_name(environment_id, gymnasium.registry)
        if ":" not in environment_id:
            hint = f"if a module of yours registers it, give MODULE:{environment_id}; if not, {hint}"
        raise UserError(f"there is no environment {environment_id!r} ({str(error).rstrip('.')}): {hint}") from None
    except (Exception, SystemExit) as error:  # raised by the environment's own code
        raise UserError(
            f"{environment_id!r} cannot be made ({reason_of(error)}): fix the environment, or give an id, or "
            "MODULE:ID, that gymnasium.make accepts."
        ) from error


def _spec_of(environment: gymnasium.Env[Any, Any], num_environments: int) -> EnvironmentSpec:
    actions, observations = environment.action_space, environment.observation_space
    name = environment.spec.id if environment.spec else type(environment.unwrapped).__name__
    if not isinstance(actions, Discrete):
        raise UserError(f"{name} has {type(actions).__name__} actions, but EVA needs discrete ones: choose another.")
    if not isinstance(observations, Box) or len(observations.shape) not in (1, 3) or 0 in observations.shape:
        raise UserError(
            f"{name} has observations {observations}, but EVA needs an image or a vector (a Box): wrap it, for example "
            "in gymnasium.wrappers.FlattenObservation."
        )
    assert observations.dtype is not None
    bounds = zip(observations.low.tolist(), observations.high.tolist(), strict=True)
    return EnvironmentSpec(
        num_environments,
        int(actions.n),
        observations.shape,
        np.dtype(observations.dtype),
        first_action=int(actions.start),
        observation_bounds=tuple(bounds) if len(observations.shape) == 1 else (),
    )
