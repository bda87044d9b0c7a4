"""Grid files: a sweep in TOML with a preset, settings, axes whose values are combined, and seeds."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eva.config import Config
from eva.errors import UserError, nearest_name
from eva.files import parse_toml
from eva.games import GAME_SETS, game_name
from eva.presets import for_environment, named_after_game, preset
from eva.runs.sweep.jobs import Job
from eva.schema import changed

_KEYS = ("preset", "env", "seeds", "out", "settings", "axes")
_MAX_SEEDS = 1_000_000


@dataclass(frozen=True)
class Grid:
    """The runs of a sweep: of a grid file, or of an experiment."""

    name: str  # of the file, without its suffix, or of the experiment
    out: Path  # the folder of all run directories
    jobs: tuple[Job, ...]  # first those of the first seed, and so on: an interrupted sweep is still comparable


def read_grid(path: Path) -> Grid:
    """Read a grid file; raise a `UserError` if it is invalid."""
    try:
        content = parse_toml(path.read_text())
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
    base, settings = _base(content), dict(_flatten(content.get("settings", {}), "settings"))
    if "seed" in settings:
        raise UserError("settings.seed: write seeds = [0, 1, 2] at the top instead.")
    axes = _axes(content, settings)
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    jobs = [
        Job(
            Path(out, *(_folder_name(field, value) for field, value in point.items()), f"seed-{seed}"),
            _config(base, {**settings, **point, "seed": seed}),
        )
        for seed in _seeds(content)
        for point in points
    ]
    directory, count = Counter(job.directory for job in jobs).most_common(1)[0]
    if count > 1:
        raise UserError(f"two runs would have the directory {directory}: give each value of an axis once.")
    return Grid(name, Path(out), tuple(jobs))


def _base(content: Mapping[str, Any]) -> Config:
    """Return the config that all runs start from."""
    names = [content[key] for key in ("preset", "env") if key in content]
    if len(names) != 1 or not isinstance(names[0], str):
        raise UserError('begin with one of preset = "NAME" (see: eva presets) and env = "GYMNASIUM-ID".')
    return preset(names[0]) if "preset" in content else for_environment(names[0])


def _axes(content: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the values of each field that differs between runs."""
    axes = dict(_flatten(content.get("axes", {}), "axes"))
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
    if isinstance(seeds, int) and not isinstance(seeds, bool) and 1 <= seeds <= _MAX_SEEDS:
        return list(range(seeds))
    if isinstance(seeds, list) and seeds:
        return seeds  # `from_dict` checks their types
    raise UserError(f"seeds is {seeds!r}, but must be a number of seeds (3) or a list of them ([0, 1, 2]).")


def _config(base: Config, fields: Mapping[str, Any]) -> Config:
    """Return `base` with fields like "learner.batch_size" changed, independent of the machine that runs it."""
    from eva.build import complete  # imports torch: not for --help

    config = named_after_game(complete(changed(base, fields)))
    # One thread instead of all cores by default, because many runs share the machine.
    return replace(config, run=replace(config.run, threads=config.run.threads or 1))


def _flatten(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every value of nested tables as ("group.field", value)."""
    if not isinstance(tree, Mapping):
        raise UserError(f"{path} is {tree!r}, but must be a table: [{path}].")
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{field}", leaf) for field, leaf in _flatten(value, f"{path}.{key}"))
        else:
            yield key, value


def _folder_name(field: str, value: Any) -> str:
    """Return the part of the run directory's path for one value of an axis."""
    words = value if isinstance(value, list) else [value]
    return f"{field}-{','.join(str(word).replace('/', '-') for word in words)}"
