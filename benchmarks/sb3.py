"""What the measurements of Stable-Baselines3 share: a preset's network up to the embedding, and the stopwatch."""

from __future__ import annotations

import gymnasium
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from benchmarks.stopwatch import Stopwatch
from eva.config import NetworkConfig


class Torso(BaseFeaturesExtractor):
    """Convolutions and one fully connected layer, as `network` says."""

    def __init__(self, observation_space: gymnasium.spaces.Box, network: NetworkConfig) -> None:
        super().__init__(observation_space, features_dim=network.embedding_size)
        convolutions: list[nn.Module] = []
        depth = observation_space.shape[0]
        for channels, size, stride in zip(network.channels, network.filter_sizes, network.strides, strict=True):
            convolutions += [nn.Conv2d(depth, channels, size, stride=stride), nn.ReLU()]
            depth = channels
        convolutions.append(nn.Flatten())
        num_features = nn.Sequential(*convolutions)(torch.zeros(1, *observation_space.shape)).shape[1]
        self.layers = nn.Sequential(*convolutions, nn.Linear(num_features, network.embedding_size), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        """Return the embedding."""
        embedding: Tensor = self.layers(observations)
        return embedding


def policy(network: NetworkConfig) -> dict[str, object]:
    """Return the policy's arguments: the torso, and nothing between it and the values."""
    return {
        "features_extractor_class": Torso,
        "features_extractor_kwargs": {"network": network},
        "net_arch": [],
    }


class _Ticks(BaseCallback):
    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__()
        self._stopwatch = stopwatch

    def _on_step(self) -> bool:
        return self._stopwatch.tick(self.training_env.num_envs)


def measure(model: DQN) -> None:
    """Train until the stopwatch has seen enough, and report."""
    stopwatch = Stopwatch()
    model.learn(10**9, callback=_Ticks(stopwatch), log_interval=10**9)
    stopwatch.report(sum(parameter.numel() for parameter in model.q_net.parameters()))
