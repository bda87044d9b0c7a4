"""What crosses a module border, as frozen dataclasses of arrays.

Shape letters, here and everywhere:

    B batch          E environments   M trajectories per plan   T transitions per trajectory
    A actions        D embedding      K neighbours              N stored

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
State = dict[str, Any]
"""All that decides an object's future: arrays, tensors, plain JSON types, and dicts of these by name."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """What an agent must know about the environments it is built for."""

    num_environments: int
    num_actions: int
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype[Any]
    reward_bound: float | None = None  # no reward is larger in absolute value, where that is known
    action_names: tuple[str, ...] = ()  # for people; empty where nothing is known
    num_stacked: int = 1  # frames along the first axis, oldest first; before an episode's first: black ones or itself


@dataclass(frozen=True)
class StepOutcome:
    """What one step of E environments produced.

    Where an episode ended, `observations` already shows the next episode's first state, while `last_observations`
    keeps the true successor of the state that was acted in. Elsewhere the two are equal.
    """

    observations: Observations  # (E, ...)
    rewards: Floats  # (E,)
    terminated: Bools  # (E,) the task ended: nothing follows, the value of what follows is 0
    truncated: Bools  # (E,) a time limit cut the episode: something would have followed. Never both
    last_observations: Observations  # (E, ...)


class VectorEnvironment(Protocol):
    """E environments that step together and reset themselves when an episode ends."""

    @property
    def spec(self) -> EnvironmentSpec:
        """What an agent must know about them."""
        ...

    def reset(self) -> Observations:
        """Start an episode in every environment and return the first observations, (E, ...)."""
        ...

    def step(self, actions: Ints) -> StepOutcome:
        """Take one action in every environment; the arrays returned are the caller's to keep."""
        ...

    def get_state(self) -> State | None:
        """Return all that decides the future, or None where the environments cannot tell."""
        ...

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned."""
        ...

    def close(self) -> None:
        """Let go of what the environments hold; they are not stepped again."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """What a Gymnasium environment offers if runs in it are to be resumed as if they had never stopped."""

    def get_state(self) -> State:
        """Return all that decides the future but the generator `np_random`: arrays and plain data by name."""
        ...

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned."""
        ...


@dataclass(frozen=True)
class Trajectories:
    """B remembered trajectories, right-aligned: the last state is the one to bootstrap from.

    A trajectory shorter than T is padded on the left, where `valid` is False and all else is meaningless. One that
    ends in a termination has a last state without meaning too: its last discount is 0.
    """

    plans: Ints  # (B,) the plan that retrieved it: the place of its query among those searched for together
    slots: Ints  # (B, T + 1) where each state lies in the replay buffer
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
    next_observations: Tensor  # (B, ...) without meaning where the discount is 0
    importance_weights: Tensor | None = None  # (B,) of each transition's loss; None where all count alike


@dataclass(frozen=True)
class Update:
    """What one update of the learner found, on its device."""

    loss: Tensor  # ()
    absolute_errors: Tensor | None  # (B,) |y - Q_theta(s, a)| before the update, where transitions have weights


@dataclass(frozen=True)
class RememberedTrajectory:
    """What happened after a remembered moment, and what planning made of it: L transitions."""

    slots: Ints  # (L,) where its states lie in the replay buffer, unless they have been overwritten since
    actions: Ints  # (L,)
    rewards: Floats  # (L,)
    q_np: Floats  # (L, A) planned values; those of the actions taken are the backed-up ones
    ages: Ints  # (L,) how many states ago each was stored, over all environments; 1 is the newest

    @property
    def backed_up(self) -> Floats:
        """The values that were propagated backwards, r_t + gamma V_NP(s_{t+1}), (L,)."""
        return np.take_along_axis(self.q_np, self.actions[:, None], axis=1)[:, 0]


@dataclass(frozen=True)
class Neighbour:
    """An entry of the value buffer that a decision was based on."""

    distance: float  # between the embeddings of the present and of the remembered state
    q_np: Floats  # (A,)
    trajectory: RememberedTrajectory
    step: int  # the remembered state's place in its trajectory


@dataclass(frozen=True)
class Explanation:
    """Why a state's values are what they are."""

    q_theta: Floats  # (A,)
    q_np: Floats | None  # (A,) the mean over the neighbours; None where nothing is planned yet
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
