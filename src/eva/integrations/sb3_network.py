"""The network of a config for Stable-Baselines3's policies, up to the embedding."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from eva.config import NetworkConfig


class Torso(BaseFeaturesExtractor):
    """Convolutions and one fully connected layer, as `network` says."""

    def __init__(self, observation_space: spaces.Box, network: NetworkConfig) -> None:
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


def policy_arguments(network: NetworkConfig) -> dict[str, Any]:
    """Return `policy_kwargs` of CnnPolicy: the torso, and nothing between it and the values."""
    return {
        "features_extractor_class": Torso,
        "features_extractor_kwargs": {"network": network},
        "net_arch": [],
    }
