"""Generated inputs, each in two forms: plain lists for the oracles, arrays for the code under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from eva.agent.exploration import LinearSchedule
from eva.agent.memory.observations import WholeObservations
from eva.agent.memory.priorities import Priorities
from eva.agent.memory.replay import ReplayBuffer
from eva.types import Floats, Trajectories
from tests.helpers.reference.neighbours import Embedding
from tests.helpers.reference.traces import QValues, Trajectory
from tests.helpers.reference.trajectories import ReferenceMemory

CPU = torch.device("cpu")

generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def numbers(generator: np.random.Generator, shape: tuple[int, ...], coarse: bool) -> Floats:
    """Draw numbers around 0; the coarse ones are halves from -2 to 2, so that many are equal."""
    return generator.integers(-4, 5, shape) / 2 if coarse else 3 * generator.standard_normal(shape)


# --- Trajectories -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrajectoryCase:
    """B trajectories of different lengths, of several plans, in both forms."""

    remembered: list[Trajectory]
    q_theta_lists: list[list[QValues]]  # for each trajectory of T_m + 1 states
    embedding_lists: list[list[Embedding]]
    trajectories: Trajectories
    q_theta: Floats  # (B, T + 1, A)
    embeddings: Floats  # (B, T + 1, D)

    def of_plan(self, plan: int) -> list[int]:
        """Return the places of a plan's trajectories."""
        return np.flatnonzero(self.trajectories.plans == plan).tolist()

    def padded(self, q_np: list[QValues]) -> Floats:
        """Right-align an oracle's answer like the array under test; the padding is NaN."""
        result = np.full((self.trajectories.actions.shape[1], self.q_theta.shape[2]), np.nan)
        result[len(result) - len(q_np) :] = q_np
        return result

    def arrays(self) -> list[np.ndarray]:
        """Return every array that the code under test is given."""
        return [*vars(self.trajectories).values(), self.q_theta, self.embeddings]


@st.composite
def trajectory_cases(draw: st.DrawFn, dtype: Any = np.float64, spreads: Sequence[float] = (1.0,)) -> TrajectoryCase:
    """Draw trajectories of 1..T transitions: some terminate, the others bootstrap.

    Embeddings gather around a few centres, at a distance of about one of `spreads`, and some are duplicates. The
    padding holds NaN, and the state after a termination holds large numbers.
    """
    length, num_actions, embedding_size = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, length), min_size=1, max_size=6))
    num = len(lengths)
    plans = draw(st.lists(st.integers(0, 2), min_size=num, max_size=num))
    terminates = draw(st.lists(st.booleans(), min_size=num, max_size=num))
    coarse, gamma, generator = draw(st.booleans()), draw(st.sampled_from([0.5, 0.99, 1.0])), draw(generators)

    valid = np.arange(length) >= length - np.array(lengths)[:, None]
    seen = np.hstack([valid, np.ones((num, 1), np.bool_)])  # (B, T + 1)
    actions = generator.integers(num_actions, size=(num, length))
    rewards = numbers(generator, (num, length), coarse)
    discounts = np.full((num, length), gamma)
    discounts[terminates, -1] = 0
    q_theta = numbers(generator, (num, length + 1, num_actions), coarse)
    centres = 50.0 * generator.integers(3, size=(num, length + 1, 1))
    steps = generator.integers(-1, 2, (num, length + 1, embedding_size)) * generator.uniform(0.1, 1.5)
    embeddings = centres + draw(st.sampled_from(spreads)) * steps
    for padded in (rewards, discounts):
        padded[~valid] = np.nan
    for padded in (q_theta, embeddings):
        padded[~seen] = np.nan
        padded[terminates, -1] = 1e6
    rewards, discounts, q_theta, embeddings = (x.astype(dtype) for x in (rewards, discounts, q_theta, embeddings))

    return TrajectoryCase(
        remembered=[
            Trajectory(actions[m, valid[m]].tolist(), rewards[m, valid[m]].tolist(), discounts[m, valid[m]].tolist())
            for m in range(num)
        ],
        q_theta_lists=[q_theta[m, seen[m]].tolist() for m in range(num)],
        embedding_lists=[embeddings[m, seen[m]].tolist() for m in range(num)],
        trajectories=Trajectories(
            plans=np.array(plans),
            slots=np.full((num, length + 1), -1),
            actions=actions,
            rewards=rewards,
            discounts=discounts,
            valid=valid,
        ),
        q_theta=q_theta,
        embeddings=embeddings,
    )


# --- Memories -----------------------------------------------------------------------------------------------------

STEP, TERMINATE, TRUNCATE = range(3)
GAMMA = 0.5
NUM_ACTIONS = 3
EMBEDDING_SIZE = 2


class MemoryCase:
    """The same experience in a replay buffer and in the oracle's history.

    Observations are the numbers 1, 2, 3, ...; embeddings have few values, so that many are duplicates.
    """

    def __init__(
        self, num_environments: int, lane_capacity: int, generator: np.random.Generator, prioritised: bool = False
    ) -> None:
        self.num_environments = num_environments
        capacity = lane_capacity * num_environments
        priorities = Priorities(
            capacity, priority_exponent=0.6, priority_floor=1e-6, importance_exponent=LinearSchedule(0.4, 0.4)
        )
        self.replay = ReplayBuffer(
            capacity,
            num_environments,
            WholeObservations(capacity, (1,), np.dtype(np.int32)),
            EMBEDDING_SIZE,
            GAMMA,
            CPU,
            priorities if prioritised else None,
        )
        self.reference = ReferenceMemory(num_environments, lane_capacity)
        self.generator = generator
        self.num_observations = 0

    def remember(self, events: list[int]) -> None:
        """Step every environment, which may terminate or truncate its episode."""
        ends = np.array(events)
        terminated, (truncated,) = ends == TERMINATE, np.nonzero(ends == TRUNCATE)
        ids, embeddings = self._states(len(ends))
        actions = self.generator.integers(NUM_ACTIONS, size=len(ends))
        rewards = numbers(self.generator, (len(ends),), coarse=True)
        discounts = np.where(terminated, 0.0, GAMMA)
        self.replay.append(ids[:, None], actions, rewards, terminated, torch.tensor(embeddings))
        for e, moment in enumerate(
            zip(*(x.tolist() for x in (actions, rewards, discounts, terminated, ids, embeddings)), strict=True)
        ):
            self.reference.append(e, *moment)
        if len(truncated) > 0:
            ids, embeddings = self._states(len(truncated))
            self.replay.close(truncated, ids[:, None], torch.tensor(embeddings))
            for e, observation_id, embedding in zip(truncated, ids.tolist(), embeddings.tolist(), strict=True):
                self.reference.close(e, observation_id, embedding)

    def starts(self) -> tuple[list[tuple[int, int]], list[int]]:
        """Return the oracle's complete transitions and the slots where they must lie."""
        starts = self.reference.starts()
        return starts, [self.reference.slot(*start) for start in starts]

    def queries(self, num: int) -> torch.Tensor:
        """Return embeddings of states that are not remembered, (num, D)."""
        return torch.tensor(self._embeddings(num))

    def _states(self, num: int) -> tuple[np.ndarray, np.ndarray]:
        first = self.num_observations + 1
        self.num_observations += num
        return np.arange(first, first + num), self._embeddings(num)

    def _embeddings(self, num: int) -> np.ndarray:
        return self.generator.integers(4, size=(num, EMBEDDING_SIZE)).astype(np.float32)


@st.composite
def memory_cases(draw: st.DrawFn, min_capacity: int = 2, max_steps: int = 30, prioritised: bool = False) -> MemoryCase:
    """Draw lanes so small that they wrap around many times, with all kinds of endings."""
    num_environments, lane_capacity = draw(st.integers(1, 4)), draw(st.integers(min_capacity, 8))
    case = MemoryCase(num_environments, lane_capacity, draw(generators), prioritised)
    event = draw(st.sampled_from([[STEP], [STEP, STEP, TERMINATE, TRUNCATE], [STEP] * 8 + [TERMINATE, TRUNCATE]]))
    one_step = st.lists(st.sampled_from(event), min_size=num_environments, max_size=num_environments)
    num_steps = draw(st.integers(0, max_steps))
    for events in draw(st.lists(one_step, min_size=num_steps, max_size=num_steps)):
        case.remember(events)
    return case
