"""Named configurations, read from presets.toml."""

from dataclasses import replace
from importlib.resources import files
from typing import Any

from eva.config import Config, EnvironmentConfig
from eva.errors import UserError, nearest_name
from eva.files import parse_toml
from eva.games import minatar_game, minatar_id
from eva.ids import ATARI_ID, MINATAR_PREFIX
from eva.schema import from_dict

_VERSIONS = ("", "-v1")  # endings of the names of MinAtar's runs, by the version of their id


def _read_presets() -> dict[str, tuple[Config, str]]:
    tables: dict[str, dict[str, Any]] = parse_toml((files("eva") / "presets.toml").read_text())
    presets = {}
    for name, table in tables.items():
        base = tables.get(table.pop("like", ""), {})
        for group, value in base.items():
            table[group] = {**value, **table.get(group, {})} if isinstance(value, dict) else table.get(group, value)
        description = table.pop("description")
        presets[name] = from_dict(Config, {"name": name, **table}), description
    return presets


PRESETS = _read_presets()
"""Configuration and description of each preset, by name."""


def preset(name: str) -> Config:
    """Return the configuration called `name`."""
    if name not in PRESETS:
        raise UserError(f"there is no preset '{name}': {nearest_name(name, PRESETS)}")
    return PRESETS[name][0]


def preset_of(config: Config) -> Config | None:
    """Return the preset, or the defaults of the environment, that `config` is named after; None if there is none."""
    presets = [each for each, _ in PRESETS.values()]
    games = [for_game(each, config.atari.game) for each in presets if each.environment.id == ATARI_ID]
    named = [*presets, *games, for_environment(config.environment.id)]
    return next((each for each in named if each.name == config.name), None)


def for_environment(environment_id: str) -> Config:
    """Return the default configuration of an environment that has no preset."""
    if not isinstance(environment_id, str):
        raise UserError(
            f"for_environment takes an id, such as 'CartPole-v1', not a {type(environment_id).__name__}: register the "
            "environment, or pass a function that makes it to train, as environment=lambda: MyEnv()."
        )
    if environment_id == ATARI_ID:
        return preset("atari")
    if environment_id.startswith(MINATAR_PREFIX):
        game, version = minatar_game(environment_id)
        return for_game(preset("minatar"), game, version)
    return Config(name=environment_id.replace("/", "-"), environment=EnvironmentConfig(id=environment_id))


def named_after_game(config: Config) -> Config:
    """Return a configuration whose name ends with its game, if its environment has games."""
    if config.environment.id == ATARI_ID:
        return for_game(config, config.atari.game)
    if config.environment.id.startswith(MINATAR_PREFIX):
        return for_game(config, minatar_game(config.environment.id)[0])
    return config


def for_game(config: Config, game: str, version: int | None = None) -> Config:
    """Return a configuration of Atari or MinAtar with another game in its name and its settings.

    `version` is that of MinAtar's id, by default as in `config`.
    """
    if config.environment.id == ATARI_ID:
        name = config.name.removesuffix(f"-{config.atari.game}")
        return replace(config, name=f"{name}-{game}", atari=replace(config.atari, game=game))
    old_game, old_version = minatar_game(config.environment.id)
    name = config.name.removesuffix(_VERSIONS[old_version]).removesuffix(f"-{old_game}")
    version = old_version if version is None else version
    environment = replace(config.environment, id=minatar_id(game, version))
    return replace(config, name=f"{name}-{game}{_VERSIONS[version]}", environment=environment)
