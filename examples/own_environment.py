"""Train in your own environment, then evaluate single episodes with and without EVA."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

import eva


class Corridor(gymnasium.Env[np.ndarray, int]):
    """Nine cells in a row; the reward is at the right end."""

    observation_space = gymnasium.spaces.Box(0, 1, (9,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)  # left, right

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Start in the left half."""
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(4))
        return np.eye(9, dtype=np.float32)[self.cell], {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Move one cell to the left or to the right."""
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        at_end = self.cell == 8
        return np.eye(9, dtype=np.float32)[self.cell], float(at_end), at_end, False, {}


gymnasium.register("Corridor-v0", Corridor, max_episode_steps=50)
config = eva.for_environment("Corridor-v0")
config = replace(
    config,
    steps=2_000,
    learner=replace(config.learner, learning_starts_transitions=100, learning_rate=2e-3),
    exploration=replace(config.exploration, epsilon_decay_transitions=2_000),
)
run = "runs/long-corridor"
eva.train(config, run)
for played in eva.evaluate(run, weights=[0.0, 0.4], num_episodes=10):
    print(f"weight {played.nonparametric_weight}: mean return {played.episode_returns.mean():.2f}")
