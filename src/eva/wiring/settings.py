"""Complete a configuration: what a run decides before it starts, so that config.json says it."""

from dataclasses import replace

from eva.config import Config
from eva.envs.maze_layout import resolved
from eva.errors import UserError
from eva.games import game_name
from eva.wiring.environments import EnvironmentFactory, environment_spec, generators, own_environment
from eva.wiring.networks import NetworkSource, fitted_to_images, is_own, own_network


def resolve(config: Config) -> Config:
    """Return `config` with the map's text instead of its path, and the game's canonical name."""
    maze = replace(config.maze, layout=resolved(config.maze.layout))
    return replace(config, maze=maze, atari=replace(config.atari, game=game_name(config.atari.game)))


def complete(
    config: Config, network: NetworkSource | None = None, environment: EnvironmentFactory | None = None
) -> Config:
    """Return `config` as a run records it: resolved, and with what depends on the environment or on the user's objects.

    These are the id of an `environment` that was passed, convolutions and capacity for its images, and embedding size
    and fingerprint of a `network` of the user's own.
    """
    config, spec = resolve(config), None
    if environment is not None:
        config, spec = own_environment(config, environment)
    has_own_network = is_own(config.network, network)
    if network is not None and config.network.factory is not None:
        raise UserError("network= and network.factory both give a network: give one of them.")
    if spec is None and (has_own_network or (config.network.fit_images and not config.environment.is_ours)):
        spec = environment_spec(config)
    if spec is None:
        return config
    if has_own_network:
        own = own_network(config.network, spec, generators(config.seed)["network"], network)
        size, fingerprint = own.embedding_size, own.fingerprint
        config = replace(config, network=replace(config.network, embedding_size=size, fingerprint=fingerprint))
    is_fitted = config.network.fit_images and not config.environment.is_ours
    return fitted_to_images(config, spec) if is_fitted else config
