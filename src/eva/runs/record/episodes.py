"""Returns and lengths of episodes, in training and in evaluations."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eva.agent.tensors import restore
from eva.errors import check_rewards
from eva.types import Ints, State, StepOutcome


@dataclass(frozen=True)
class Episode:
    """A finished episode: a row of episodes.csv."""

    step: int
    environment: int
    episode_return: float
    episode_length: int


@dataclass(frozen=True)
class Evaluation:
    """Single episodes played with one weight; episode i starts in the same state for every weight and epsilon."""

    step: int  # transitions that network and memory were trained for
    nonparametric_weight: float
    epsilon: float
    episode_returns: NDArray[np.float64]  # (n,)
    episode_lengths: Ints  # (n,)
    changed_share: float | None  # share of EVA's decisions that changed the greedy action; None without EVA

    @property
    def line(self) -> dict[str, Any]:
        """Its line in evaluations.jsonl, without the step."""
        return {
            "epsilon": self.epsilon,
            "weight": self.nonparametric_weight,
            "returns": [round(value, 6) + 0.0 for value in self.episode_returns.tolist()],  # no -0.0
            "lengths": self.episode_lengths.tolist(),
            "changed_share": self.changed_share,
        }


class EpisodeTracker:
    """Sum the running episode of each environment, and average the recently finished ones."""

    def __init__(self, num_environments: int) -> None:
        self._returns = np.zeros(num_environments)
        self._lengths = np.zeros(num_environments, np.int64)
        self._num_finished = 0
        self._recent_returns: list[float] = []
        self._recent_lengths: list[int] = []

    def add(self, step: int, outcome: StepOutcome) -> list[Episode]:
        """Add one step of all environments; returns the episodes that it finished."""
        self._lengths += 1
        check_rewards(outcome.rewards.tolist(), int(self._lengths.max()))
        self._returns += outcome.rewards
        ended = outcome.terminated | outcome.truncated
        finished = [Episode(step, int(e), float(self._returns[e]), int(self._lengths[e])) for e in ended.nonzero()[0]]
        self._returns[ended] = 0
        self._lengths[ended] = 0
        self._num_finished += len(finished)
        self._recent_returns += [episode.episode_return for episode in finished]
        self._recent_lengths += [episode.episode_length for episode in finished]
        return finished

    def take_means(self) -> dict[str, float | None]:
        """Return the metrics of the episodes finished since the last call."""
        returns, self._recent_returns = self._recent_returns, []
        lengths, self._recent_lengths = self._recent_lengths, []
        return {
            "episodes": self._num_finished,
            "episode_return": float(np.mean(returns)) if returns else None,
            "episode_length": float(np.mean(lengths)) if lengths else None,
        }

    def cut(self) -> None:
        """Discard the running episodes."""
        self._returns[:] = 0
        self._lengths[:] = 0

    def state_dict(self) -> State:
        """Return the running episodes and those not averaged yet."""
        return {
            "returns": self._returns,
            "lengths": self._lengths,
            "num_finished": self._num_finished,
            "recent_returns": np.array(self._recent_returns),
            "recent_lengths": np.array(self._recent_lengths, np.int64),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore the state."""
        restore(self._returns, state["returns"])
        restore(self._lengths, state["lengths"])
        self._num_finished = state["num_finished"]
        self._recent_returns = state["recent_returns"].tolist()
        self._recent_lengths = state["recent_lengths"].tolist()
