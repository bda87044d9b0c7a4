"""Train a network of your own on images of your own: the cell of a frozen lake, in 4 x 4 pixels."""

import gymnasium
import numpy as np
from torch import nn

import eva


def lake() -> gymnasium.Env:
    """Return a new environment."""
    pictures = dict(enumerate(np.eye(16, dtype=np.float32).reshape(16, 1, 4, 4)))
    space = gymnasium.spaces.Box(0, 1, (1, 4, 4), np.float32)
    return gymnasium.wrappers.TransformObservation(gymnasium.make("FrozenLake-v1"), pictures.get, space)


def cnn(spec: eva.EnvironmentSpec) -> nn.Module:
    """Return a network, with parameters from the run's seed; the embedding is what layer 3 gives to the last one."""
    layers = [nn.Conv2d(1, 16, 2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 32), nn.ReLU()]
    return eva.with_embedding(nn.Sequential(*layers, nn.Linear(32, spec.num_actions)), layer="3")


eva.train(eva.Config(name="lake", steps=1_500), "runs/lake", network=cnn, environment=lake)
(played,) = eva.evaluate("runs/lake", [0.4], num_episodes=5, network=cnn, environment=lake)
print(f"mean return of 5 episodes: {played.episode_returns.mean():.2f}")
