"""One measurement of `maze_peers`: Stable-Baselines3's DQN. Run by the interpreter of its own environment."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

import eva.envs.maze  # noqa: F401  (registers the maze)
from benchmarks.stopwatch import TIMED, WARM_UP, Stopwatch
from eva.presets import preset


class MazeTorso(BaseFeaturesExtractor):
    """The maze preset's network up to the embedding."""

    def __init__(self, observation_space: gymnasium.spaces.Box) -> None:
        super().__init__(observation_space, features_dim=64)
        convolutions = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten()]
        size = nn.Sequential(*convolutions)(torch.zeros(1, *observation_space.shape)).shape[1]
        self.layers = nn.Sequential(*convolutions, nn.Linear(size, 64), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        """Return the embedding."""
        embedding: Tensor = self.layers(observations)
        return embedding


class _Ticks(BaseCallback):
    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__()
        self._stopwatch = stopwatch

    def _on_step(self) -> bool:
        self._stopwatch.tick()
        return True


def main() -> None:
    torch.set_num_threads(1)
    config = preset("maze-1-coin")
    learner = config.learner
    environment = gymnasium.make("eva/CoinMaze-v0", disable_env_checker=True)
    model = DQN(
        "CnnPolicy",
        environment,
        learning_rate=learner.learning_rate,
        buffer_size=config.replay.replay_capacity,
        learning_starts=0,
        batch_size=learner.batch_size,
        gamma=learner.discount,
        train_freq=learner.update_period_steps,
        gradient_steps=1,
        target_update_interval=learner.target_period_updates,
        exploration_initial_eps=config.exploration.epsilon_end,
        exploration_final_eps=config.exploration.epsilon_end,
        policy_kwargs={"features_extractor_class": MazeTorso, "net_arch": []},
        device="cpu",
    )
    fill(model)
    stopwatch = Stopwatch()
    model.learn(WARM_UP + TIMED, callback=_Ticks(stopwatch), log_interval=10**9)
    stopwatch.report(sum(parameter.numel() for parameter in model.q_net.parameters()))


def fill(model: DQN) -> None:
    """Fill the replay buffer with random play."""
    environment, buffer = model.get_env(), model.replay_buffer
    observations = environment.reset()
    for action in np.random.default_rng(0).integers(4, size=(buffer.buffer_size, 1)):
        following, rewards, dones, infos = environment.step(action)
        buffer.add(observations, following, action, rewards, dones, infos)
        observations = following
    assert buffer.full


if __name__ == "__main__":
    main()
