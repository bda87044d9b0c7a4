"""Data that modules exchange, as frozen dataclasses of arrays.

Shape letters, here and everywhere:

    B batch          E environments   M trajectories per plan   T transitions per trajectory
    A actions        D embedding      K neighbours              N stored                       Q queries

NumPy arrays live on the host; tensors live on the network's device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]
Observations = NDArray[Any]
Pictures = NDArray[np.uint8]
"""One picture, (height, width, 3), or n with one channel (grey) or three, (n, height, width, channels)."""
State = dict[str, Any]
"""The complete state of an object: arrays, tensors, plain JSON types, and dicts of these by name."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """The properties of environments that an agent is built for."""

    num_environments: int
    num_actions: int
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype[Any]
    reward_bound: float | None = None  # largest possible absolute reward, if known
    action_names: tuple[str, ...] = ()  # for display; empty if unknown
    plane_names: tuple[str, ...] = ()  # of the channels, if they are planes of 0 and 1; empty for pixels
    num_stacked: int = 1  # frames along the first axis, oldest first; missing ones are black or copies of the first
    observation_bounds: tuple[tuple[float, float], ...] = ()  # of each number of a vector; infinite if there are none
    first_action: int = 0  # of the environment's actions; the agent's own begin at 0


@dataclass(frozen=True)
class StepOutcome:
    """The result of one step of E environments.

    Where an episode ended, `observations` is already the next episode's first observation, and `last_observations` is
    the ended episode's last one. Elsewhere the two are equal.
    """

    observations: Observations  # (E, ...)
    rewards: Floats  # (E,)
    terminated: Bools  # (E,) the task ended: the next state's value is 0
    truncated: Bools  # (E,) a time limit ended the episode: bootstrap from the last observation. Never both
    last_observations: Observations  # (E, ...)


class VectorEnvironment(Protocol):
    """E environments that step together and reset themselves when an episode ends."""

    @property
    def spec(self) -> EnvironmentSpec:
        """Their properties."""

    def reset(self) -> Observations:
        """Start an episode in every environment and return the first observations, (E, ...)."""

    def step(self, actions: Ints) -> StepOutcome:
        """Take one action in every environment; the returned arrays are never reused."""

    def get_state(self) -> State | None:
        """Return the complete state, or None if the environments do not support it."""

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned."""

    def close(self) -> None:
        """Release all resources."""


@runtime_checkable
class Pictured(Protocol):
    """Environments that can draw the first of them, if they were built to."""

    @property
    def picture(self) -> Pictures | None:
        """The state that `reset`, or `last_observations` of the newest step, described; None if it cannot be drawn."""

    @property
    def no_picture(self) -> str:
        """Why `picture` is None."""

    @property
    def frames_per_second(self) -> float:
        """The speed at which pictures of each step look natural."""


@runtime_checkable
class Resumable(Protocol):
    """Methods that a Gymnasium environment needs so that interrupted runs resume exactly."""

    def get_state(self) -> State:
        """Return the complete state except the generator `np_random`: arrays and plain data by name."""

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned."""


@dataclass(frozen=True)
class Trajectories:
    """B remembered trajectories, right-aligned: the last state is the one to bootstrap from.

    A trajectory shorter than T is padded on the left, where `valid` is False and other values are undefined. If a
    trajectory ends in a termination, its last discount is 0 and its last state is undefined.
    """

    plans: Ints  # (B,) index of the query that retrieved the trajectory
    slots: Ints  # (B, T + 1) of its states in the replay buffer
    actions: Ints  # (B, T)
    rewards: Floats  # (B, T)
    discounts: Floats  # (B, T) gamma, or 0 where the transition terminated the episode
    valid: Bools  # (B, T)


@dataclass(frozen=True)
class Batch:
    """B transitions for the learner, on its device."""

    observations: Tensor  # (B, ...)
    actions: Tensor  # (B,)
    rewards: Tensor  # (B,)
    discounts: Tensor  # (B,)
    next_observations: Tensor  # (B, ...) undefined where the discount is 0
    importance_weights: Tensor | None = None  # (B,) weight of each transition's loss; None if all are 1


@dataclass(frozen=True)
class RememberedTrajectory:
    """L remembered transitions and the values planned along them."""

    slots: Ints  # (L,) of its states in the replay buffer, which may have been overwritten since
    actions: Ints  # (L,)
    rewards: Floats  # (L,)
    q_np: Floats  # (L, A) planned values; those of the actions taken are backed up
    ages: Ints  # (L,) states stored since, this one included, over all environments; 1 is the newest

    @property
    def backed_up(self) -> Floats:
        """The values that were propagated backwards, r_t + gamma V_NP(s_{t+1}), (L,)."""
        return np.take_along_axis(self.q_np, self.actions[:, None], axis=1)[:, 0]


@dataclass(frozen=True)
class Neighbour:
    """An entry of the value buffer that a decision was based on."""

    distance: float  # between the embeddings of the current and the remembered state
    q_np: Floats  # (A,)
    trajectory: RememberedTrajectory
    step: int  # index of the remembered state in its trajectory


@dataclass(frozen=True)
class Explanation:
    """The values of a state and the neighbours that they were computed from."""

    q_theta: Floats  # (A,)
    q_np: Floats | None  # (A,) the mean over the neighbours; None if the value buffer holds too few
    q_eva: Floats  # (A,)
    nonparametric_weight: float
    neighbours: tuple[Neighbour, ...]  # nearest first

    @property
    def action(self) -> int:
        """The greedy action."""
        return int(self.q_eva.argmax())

    @property
    def changed(self) -> bool:
        """Whether the memory changed the greedy action."""
        return self.action != int(self.q_theta.argmax())
