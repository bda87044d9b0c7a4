"""Epsilon-greedy action selection, and the schedule that epsilon and others follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eva.types import Ints


@dataclass(frozen=True)
class LinearSchedule:
    """A value that moves in a straight line from `start` to `end`, then stays there.

    Args:
        start: The value until `begin`.
        end: The value from `begin + duration` on.
        begin: When it begins to move.
        duration: How long it moves; 0 is a jump.
    """

    start: float
    end: float
    begin: int = 0
    duration: int = 0

    def __call__(self, count: int) -> float:
        """Return the value after so many transitions, or updates."""
        elapsed = count - self.begin
        if elapsed < 0:
            return self.start
        if elapsed >= self.duration:
            return self.end
        return self.start + (self.end - self.start) * elapsed / self.duration


class EpsilonGreedy:
    """With probability epsilon a uniform action, else the greedy one; drawn for each environment."""

    def __init__(self, num_actions: int, epsilon: LinearSchedule, generator: np.random.Generator) -> None:
        self.epsilon = epsilon
        self.generator = generator
        self._num_actions = num_actions

    def __call__(self, greedy_actions: Ints, transitions: int) -> Ints:
        """Return the actions to take, (E,). What is drawn does not depend on the greedy actions."""
        explores = self.generator.random(len(greedy_actions)) < self.epsilon(transitions)
        random_actions = self.generator.integers(self._num_actions, size=len(greedy_actions))
        return np.where(explores, random_actions, greedy_actions)
