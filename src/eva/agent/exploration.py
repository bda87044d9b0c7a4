"""Epsilon-greedy action selection, and the schedule of epsilon and other values."""

from dataclasses import dataclass

import numpy as np

from eva.types import Ints


@dataclass(frozen=True)
class LinearSchedule:
    """A value that moves in a straight line from `start` to `end`, then stays there."""

    start: float  # the value until `begin`
    end: float  # the value from `begin + duration` on
    begin: int = 0
    duration: int = 0  # 0 is a jump

    def __call__(self, count: int) -> float:
        """Return the value after `count` transitions, or updates."""
        elapsed = count - self.begin
        if elapsed < 0:
            return self.start
        if elapsed >= self.duration:
            return self.end
        return self.start + (self.end - self.start) * elapsed / self.duration


@dataclass(frozen=True)
class EpsilonGreedy:
    """With probability epsilon a uniform action, else the greedy one; drawn for each environment."""

    num_actions: int
    epsilon: LinearSchedule  # by transitions
    generator: np.random.Generator

    def __call__(self, greedy_actions: Ints, transitions: int) -> Ints:
        """Return the actions to take, (E,). The random draws do not depend on the greedy actions."""
        explores = self.generator.random(len(greedy_actions)) < self.epsilon(transitions)
        random_actions = self.generator.integers(self.num_actions, size=len(greedy_actions))
        return np.where(explores, random_actions, greedy_actions)
