"""The network of an agent: a config's, fitted to images if asked, or one of the user's own."""

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from eva.agent.network import QNetwork, convolved_size, image_shape
from eva.agent.own_network import OwnNetwork
from eva.config import Config, NetworkConfig, ReplayConfig
from eva.errors import UserError
from eva.types import EnvironmentSpec
from eva.user_code import import_callable, reported_failures
from eva.wiring.memory import bytes_per_slot

NetworkSource = nn.Module | Callable[[EnvironmentSpec], nn.Module]
"""A module, which is copied, or a function that returns one, which can also be a class. The function's parameters are
drawn from the run's seed, so a run starts again with the same ones."""

Network = QNetwork | OwnNetwork

MOST_BYTES = 2_000_000_000
"""Of a replay buffer whose capacity is chosen, so that it fits into the memory of a laptop."""
FITTED = ("network.channels", "network.filter_sizes", "network.strides", "replay.replay_capacity")
"""The fields that `fitted_to_images` chooses."""
_CONVOLUTIONS = (  # from this number of pixels of the smaller side on: channels, filter sizes, strides
    (128, (16, 32, 32, 32), (8, 4, 4, 3), (4, 2, 2, 1)),
    (64, (16, 32, 32), (8, 4, 3), (4, 2, 1)),  # of DQN, with fewer channels: the preset atari
    (32, (16, 32, 32), (4, 4, 3), (2, 2, 1)),
    (5, NetworkConfig.channels, NetworkConfig.filter_sizes, NetworkConfig.strides),
    (3, (16,), (3,), (1,)),
    (1, (16,), (1,), (1,)),
)


def build_network(config: Config, spec: EnvironmentSpec, generator: np.random.Generator) -> QNetwork:
    """Return Q_theta with initial parameters."""
    network = config.network
    if len(spec.observation_shape) == 3:
        for side in image_shape(spec.observation_shape)[:2]:
            if convolved_size(side, network.filter_sizes, network.strides) < 1:
                raise UserError(
                    f"the convolutions do not fit images of shape {spec.observation_shape}: use fewer or smaller ones "
                    "(network.filter_sizes, network.strides)."
                )
    return QNetwork(
        spec.observation_shape,
        spec.num_actions,
        channels=network.channels,
        filter_sizes=network.filter_sizes,
        strides=network.strides,
        hidden_sizes=network.hidden_sizes,
        embedding_size=network.embedding_size,
        white=255 if spec.observation_dtype == np.uint8 and not spec.plane_names else 1,
        generator=generator,
    )


def is_own(config: NetworkConfig, source: NetworkSource | None) -> bool:
    """Return whether a run has a network of the user's own."""
    return source is not None or config.factory is not None or config.fingerprint is not None


def own_network(
    config: NetworkConfig, spec: EnvironmentSpec, generator: np.random.Generator, source: NetworkSource | None
) -> OwnNetwork:
    """Return the user's network: `source`, or else what `config.factory` names.

    Raises UserError if it cannot be used, or is another one than `config.fingerprint`.
    """
    if source is None and config.factory is not None:
        source = import_callable(config.factory, "network.factory")
    if source is None:
        raise UserError(
            f"the run has a network of its own, {config.fingerprint}: pass it as network=..., or train with "
            "network.factory, which the command line finds again."
        )
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(int(generator.integers(2**63)))
        network = OwnNetwork(_module(source, spec), spec)
    if config.fingerprint not in (None, network.fingerprint):
        raise UserError(
            f"the run has another network, {config.fingerprint} instead of {network.fingerprint}: pass the same one, "
            "or choose another directory."
        )
    return network


def _module(source: NetworkSource, spec: EnvironmentSpec) -> nn.Module:
    if isinstance(source, nn.Module):
        return copy.deepcopy(source).cpu()
    if not callable(source):
        raise UserError(f"network is a {type(source).__name__}, but must be a torch module or a function of the spec.")
    with reported_failures("the function that returns the network"):
        module = source(spec)
    if not isinstance(module, nn.Module):
        raise UserError(f"the function of the network returned a {type(module).__name__}: return a torch.nn.Module.")
    return module.cpu()


def fitted_to_images(config: Config, spec: EnvironmentSpec) -> Config:
    """Return `config` with convolutions and replay capacity for images of this size, where they have their defaults.

    The capacity depends on the size alone, not on this machine, so that the same command is the same run elsewhere.
    """
    network, replay, default = config.network, config.replay, NetworkConfig()
    if len(spec.observation_shape) != 3:
        return config
    given = (network.channels, network.filter_sizes, network.strides)
    if network.fingerprint is None and given == (default.channels, default.filter_sizes, default.strides):
        side = min(image_shape(spec.observation_shape)[:2])
        channels, filter_sizes, strides = next(rest for smallest, *rest in _CONVOLUTIONS if side >= smallest)
        network = replace(network, channels=channels, filter_sizes=filter_sizes, strides=strides)
    if replay.replay_capacity == ReplayConfig().replay_capacity:
        largest = MOST_BYTES // bytes_per_slot(replay, network.embedding_size, spec)
        digits = 10 ** max(0, len(str(largest)) - 2)
        capacity = max(2 * spec.num_environments, largest // digits * digits)  # two digits, so that it can be read
        replay = replace(replay, replay_capacity=min(replay.replay_capacity, capacity))
    return replace(config, network=network, replay=replay)
