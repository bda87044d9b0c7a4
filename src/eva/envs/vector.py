"""Gymnasium environments, stepped together in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit

from eva.errors import UserError, nearest_name
from eva.types import EnvironmentSpec, Ints, Observations, Resumable, State, StepOutcome


class GymnasiumVector:
    """E Gymnasium environments behind the `VectorEnvironment` interface, one after the other in this process.

    Args:
        make: Builds one environment.
        seeds: One for each environment.
    """

    def __init__(self, make: Callable[[], gymnasium.Env[Any, Any]], seeds: Sequence[int]) -> None:
        self._environments = [make() for _ in seeds]
        self._seeds = seeds
        self._spec = _spec_of(self._environments[0], len(seeds))
        self._first_action = int(self._environments[0].action_space.start)  # type: ignore[attr-defined]

    @property
    def spec(self) -> EnvironmentSpec:
        """What an agent must know about these environments."""
        return self._spec

    def reset(self) -> Observations:
        """Seed every environment and start an episode in each."""
        first = [environment.reset(seed=s)[0] for environment, s in zip(self._environments, self._seeds, strict=True)]
        shape = self._spec.observation_shape
        for observation in first:
            if np.shape(observation) != shape:
                raise UserError(
                    f"an observation of shape {np.shape(observation)} is not what the observation space says, {shape}: "
                    "mend the environment."
                )
        return np.stack(first).astype(self._spec.observation_dtype, copy=False)

    def step(self, actions: Ints) -> StepOutcome:
        """Take one action in every environment, and start anew where an episode ended."""
        num = len(self._environments)
        last = np.empty((num, *self._spec.observation_shape), self._spec.observation_dtype)
        rewards = np.empty(num)
        terminated, truncated = np.zeros(num, np.bool_), np.zeros(num, np.bool_)
        for e, environment in enumerate(self._environments):
            action = self._first_action + int(actions[e])
            last[e], rewards[e], terminated[e], truncated[e], _ = environment.step(action)
        truncated &= ~terminated
        observations = last.copy()
        for ended in (terminated | truncated).nonzero()[0]:
            observations[ended], _ = self._environments[ended].reset()
        return StepOutcome(observations, rewards, terminated, truncated, last)

    def get_state(self) -> State | None:
        """Return all that decides the future, or None unless every environment is `Resumable`."""
        states = {}
        for e, environment in enumerate(self._environments):
            inner, limit = environment.unwrapped, _time_limit(environment)
            if not isinstance(inner, Resumable):
                return None
            states[str(e)] = {
                "inner": inner.get_state(),
                "generator": inner.np_random.bit_generator.state,
                "elapsed_steps": None if limit is None else limit._elapsed_steps,
            }
        return states

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned."""
        for e, environment in enumerate(self._environments):
            inner, limit, mine = environment.unwrapped, _time_limit(environment), state[str(e)]
            assert isinstance(inner, Resumable)
            environment.reset()  # or its wrappers refuse to step
            inner.set_state(mine["inner"])
            inner.np_random.bit_generator.state = mine["generator"]
            if limit is not None:
                limit._elapsed_steps = mine["elapsed_steps"]


def _time_limit(environment: gymnasium.Env[Any, Any]) -> TimeLimit[Any, Any] | None:
    """Return the wrapper that counts an episode's steps, if there is one."""
    while isinstance(environment, gymnasium.Wrapper):
        if isinstance(environment, TimeLimit):
            return environment
        environment = environment.env
    return None


def make_gymnasium(environment_id: str) -> gymnasium.Env[Any, Any]:
    """Make a registered environment, or say what is wrong with its id."""
    try:
        return gymnasium.make(environment_id)
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(f"{environment_id} needs a package that is not installed: {error}") from None
    except (gymnasium.error.Error, ImportError) as error:
        hint = nearest_name(environment_id, gymnasium.registry)
        raise UserError(f"there is no environment {environment_id!r} ({str(error).rstrip('.')}): {hint}") from None
    except Exception as error:  # whatever the environment's own code does
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".")
        raise UserError(
            f"{environment_id!r} cannot be made ({reason}): mend the environment, or give an id, or MODULE:ID, that "
            "gymnasium.make takes."
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
    return EnvironmentSpec(num_environments, int(actions.n), observations.shape, np.dtype(observations.dtype))
