"""A sweep as a file: a preset, settings, axes that are crossed, and seeds, in TOML."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eva.config import Config
from eva.errors import UserError, nearest_name
from eva.games import GAME_SETS, game_name
from eva.ids import ATARI_ID
from eva.presets import for_environment, for_game, preset
from eva.runs.sweep.jobs import Job
from eva.schema import from_dict, to_dict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS = ("preset", "env", "seeds", "out", "settings", "axes")
_MOST_SEEDS = 1_000_000


@dataclass(frozen=True)
class Grid:
    """What a file asks for.

    Attributes:
        name: Of the file.
        out: The folder of all run directories.
        jobs: Seed by seed: what is there when work stops midway can be compared.
    """

    name: str
    out: Path
    jobs: tuple[Job, ...]


def read_grid(path: Path) -> Grid:
    """Read a file; one that is not understood raises UserError."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"cannot read {path} ({error}): give a file in TOML.") from None
    try:
        return _grid(path.stem, content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _grid(name: str, content: Mapping[str, Any]) -> Grid:
    for key in content:
        if key not in _KEYS:
            raise UserError(f"there is no key '{key}': {nearest_name(key, _KEYS)}")
    out = content.get("out", f"runs/{name}")
    if not isinstance(out, str) or not out.isprintable():
        raise UserError(f"out is {out!r}, but must be text: the folder for the runs.")
    base, settings = _base(content), _settings(content)
    axes = _axes(content, settings)
    jobs = [
        Job(Path(out, *(_part(field, value) for field, value in point.items()), f"seed-{seed}"), config)
        for seed in _seeds(content)
        for point in _points(axes)
        for config in [_config(base, {**settings, **point, "seed": seed})]
    ]
    directory, count = Counter(job.directory for job in jobs).most_common(1)[0]
    if count > 1:
        raise UserError(f"two runs would lie in {directory}: give each value of an axis once.")
    return Grid(name, Path(out), tuple(jobs))


def _base(content: Mapping[str, Any]) -> Config:
    """Return what all runs start from."""
    names = [content[key] for key in ("preset", "env") if key in content]
    if len(names) != 1 or not isinstance(names[0], str):
        raise UserError('begin with one of preset = "NAME" (see: eva presets) and env = "GYMNASIUM-ID".')
    return preset(names[0]) if "preset" in content else for_environment(names[0])


def _settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that all runs change; they are checked together with the axes."""
    settings = dict(_leaves(content.get("settings", {}), "settings"))
    if "seed" in settings:
        raise UserError("settings.seed: write seeds = [0, 1, 2] at the top instead.")
    return settings


def _axes(content: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the values of each field that differs between runs."""
    axes = dict(_leaves(content.get("axes", {}), "axes"))
    for field, values in axes.items():
        if field == "seed" or field in settings:
            raise UserError(f"axes.{field}: it is given elsewhere in the file, so leave it out here.")
        if not isinstance(values, list) or not values:
            raise UserError(f"axes.{field} is {values!r}, but must be a list of values.")
        if field == "atari.game":
            axes[field] = [game for word in map(str, values) for game in GAME_SETS.get(word) or [game_name(word)]]
    return axes


def _seeds(content: Mapping[str, Any]) -> list[int]:
    seeds = content.get("seeds", 1)
    if isinstance(seeds, int) and not isinstance(seeds, bool) and 1 <= seeds <= _MOST_SEEDS:
        return list(range(seeds))
    if isinstance(seeds, list) and seeds:
        return seeds  # what they are is checked with all other fields
    raise UserError(f"seeds is {seeds!r}, but must be how many there are (3), or a list of them ([0, 1, 2]).")


def _points(axes: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _config(base: Config, fields: Mapping[str, Any]) -> Config:
    """Return the config of one run: it depends on nothing but what it says itself."""
    from eva.build import resolve  # imports torch: not for --help

    config = resolve(_changed(base, fields))
    if config.environment.id == ATARI_ID:
        config = for_game(config, config.atari.game)
    threads = config.run.threads or 1  # not all cores: there are many runs
    return replace(config, run=replace(config.run, threads=threads))


def _changed(config: Config, fields: Mapping[str, Any]) -> Config:
    """Return `config` with fields like "learner.batch_size" changed."""
    tree = to_dict(config)
    for field, value in fields.items():
        *groups, last = field.split(".")
        branch = tree
        for group in groups:
            branch = branch.setdefault(group, {})
            if not isinstance(branch, dict):
                raise UserError(f"there is no field {field}: {group} is no group of fields.")
        branch[last] = value
    return from_dict(Config, tree)


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every value of nested tables as ("group.field", value)."""
    if not isinstance(tree, Mapping):
        raise UserError(f"{path} is {tree!r}, but must be a table: [{path}].")
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{field}", leaf) for field, leaf in _leaves(value, f"{path}.{key}"))
        else:
            yield key, value


def _part(field: str, value: Any) -> str:
    """Return the part of a run directory that tells one value of an axis from the others."""
    words = value if isinstance(value, list) else [value]
    return f"{field}-{','.join(str(word).replace('/', '-') for word in words)}"
