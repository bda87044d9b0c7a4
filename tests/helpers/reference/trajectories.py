"""The memory as history: what a replay buffer must answer, without ring arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from tests.helpers.reference.neighbours import Embedding
from tests.helpers.reference.traces import Trajectory


@dataclass(frozen=True)
class Moment:
    """One appended slot; a closing one holds the last state of a truncated episode and has no action."""

    born: int
    observation_id: int
    embedding: Embedding
    action: int
    reward: float
    discount: float
    terminated: bool
    closing: bool = False


@dataclass(frozen=True)
class Transition:
    """What the learner sees; the next observation is None after a termination."""

    observation_id: int
    action: int
    reward: float
    discount: float
    next_observation_id: int | None


@dataclass(frozen=True)
class RememberedTrajectory(Trajectory):
    """A trajectory with its T + 1 states; the last is None after a termination."""

    observation_ids: list[int | None]
    embeddings: list[Embedding | None]


class ReferenceMemory:
    """Everything that ever happened, one history for each environment; the last `lane_capacity` moments survive."""

    def __init__(self, num_environments: int, lane_capacity: int) -> None:
        self.lane_capacity = lane_capacity
        self.histories: list[list[Moment]] = [[] for _ in range(num_environments)]
        self.num_born = 0

    def append(
        self,
        environment: int,
        action: int,
        reward: float,
        discount: float,
        terminated: bool,
        observation_id: int,
        embedding: Embedding,
    ) -> None:
        """Remember a state and what was done in it."""
        moment = Moment(self.num_born, observation_id, embedding, action, reward, discount, terminated)
        self._remember(environment, moment)

    def close(self, environment: int, observation_id: int, embedding: Embedding) -> None:
        """Remember the last state of a truncated episode, in which nothing was done."""
        moment = Moment(self.num_born, observation_id, embedding, -1, 0.0, 0.0, terminated=False, closing=True)
        self._remember(environment, moment)

    def _remember(self, environment: int, moment: Moment) -> None:
        self.histories[environment].append(moment)
        self.num_born += 1

    def starts(self) -> list[tuple[int, int]]:
        """Return the (environment, index) of all surviving complete transitions, oldest first in each environment."""
        return [
            (environment, index)
            for environment, history in enumerate(self.histories)
            for index in range(max(0, len(history) - self.lane_capacity), len(history))
            if self.is_complete(environment, index)
        ]

    def is_complete(self, environment: int, index: int) -> bool:
        """Whether what was done in a moment can be learned from: its successor is there or is not needed."""
        history = self.histories[environment]
        return not history[index].closing and (history[index].terminated or index + 1 < len(history))

    def trajectory(self, environment: int, index: int, length: int) -> RememberedTrajectory:
        """Return at most `length` transitions from a start, up to the episode's end or the newest moment."""
        assert (environment, index) in self.starts()
        history = self.histories[environment]
        moments: list[Moment] = []
        while len(moments) < length and self.is_complete(environment, index + len(moments)):
            moments.append(history[index + len(moments)])
            if moments[-1].terminated:
                break
        last = None if moments[-1].terminated else history[index + len(moments)]
        states = [*moments, last]
        return RememberedTrajectory(
            actions=[moment.action for moment in moments],
            rewards=[moment.reward for moment in moments],
            discounts=[moment.discount for moment in moments],
            observation_ids=[None if state is None else state.observation_id for state in states],
            embeddings=[None if state is None else state.embedding for state in states],
        )

    def transition(self, environment: int, index: int) -> Transition:
        """Return one complete transition."""
        moment = self.histories[environment][index]
        _, next_observation_id = self.trajectory(environment, index, length=1).observation_ids
        return Transition(moment.observation_id, moment.action, moment.reward, moment.discount, next_observation_id)

    def embedding(self, environment: int, index: int) -> Embedding:
        """Return the stored embedding of a moment."""
        return self.histories[environment][index].embedding

    def born(self, environment: int, index: int) -> int:
        """Return how many moments had been appended, in all environments, before this one."""
        return self.histories[environment][index].born

    def slot(self, environment: int, index: int) -> int:
        """Return where a ring with one lane for each environment keeps this moment."""
        return environment * self.lane_capacity + index % self.lane_capacity
