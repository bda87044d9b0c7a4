"""Train a Stable-Baselines3 model for one measurement."""

from __future__ import annotations

from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.stopwatch import Stopwatch


class _Ticks(BaseCallback):
    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__()
        self._stopwatch = stopwatch

    def _on_step(self) -> bool:
        return self._stopwatch.tick(self.training_env.num_envs)


def measure(model: DQN) -> None:
    """Train until the stopwatch has counted enough transitions, and report."""
    stopwatch = Stopwatch()
    model.learn(10**9, callback=_Ticks(stopwatch), log_interval=10**9)
    stopwatch.report(sum(parameter.numel() for parameter in model.q_net.parameters()))
