"""Group runs into variants and tasks, and reduce their episodes to learning curves and final returns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eva.config import NOT_IDENTITY, MazeConfig
from eva.envs.maze_dynamics import random_return
from eva.envs.maze_layout import load_layout, optimal_return
from eva.errors import UserError
from eva.ids import ATARI_ID, MAZE_ID
from eva.report.reading import RunRecord
from eva.report.statistics import FloatArray, mean_interval

GRID_POINTS = 200
WINDOW_SHARE = 0.05  # of a run's planned transitions: the trailing window of a curve
FINAL_SHARE = 0.2  # of a run's transitions: what counts as its end
BOOTSTRAP_SEEDS = 5  # from this many seeds on, the band is a bootstrap interval


@dataclass(frozen=True, eq=False)
class Band:
    """A variant's mean over seeds on a grid, and what surrounds it; NaN where a seed has no value."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Variant:
    """The runs, by seed, whose configurations agree except for seed and steps."""

    kind: str
    details: tuple[str, ...]
    runs: tuple[RunRecord, ...]

    @property
    def label(self) -> str:
        """What tells the variant from the others of its task."""
        return ", ".join((self.kind, *self.details))

    @property
    def fields(self) -> dict[str, str]:
        """The flat configuration, without seed and steps."""
        return _variant_fields(self.runs[0])

    @property
    def counted(self) -> tuple[RunRecord, ...]:
        """The runs that enter means and bands: the finished ones, or all while none has; of a seed, the longest."""
        chosen = [run for run in self.runs if run.finished] or self.runs
        longest = {run.seed: run for run in sorted(chosen, key=lambda run: run.transitions)}
        return tuple(longest[seed] for seed in sorted(longest))

    @property
    def finals(self) -> list[float]:
        """The final returns of the counted runs that have one."""
        return [final for final in map(final_return, self.counted) if not math.isnan(final)]

    def band(self, grid: FloatArray) -> Band:
        """Average over seeds, with min and max, or a 95% bootstrap interval from `BOOTSTRAP_SEEDS` seeds on."""
        curves = np.stack([curve(run, grid) for run in self.counted])
        mean = curves.mean(axis=0)
        if len(curves) < BOOTSTRAP_SEEDS:
            return Band(mean, curves.min(axis=0), curves.max(axis=0))
        return Band(mean, *mean_interval(curves))


@dataclass(frozen=True, eq=False)
class Task:
    """The variants that played the same environment.

    Attributes:
        optimum: The exactly computed optimal return, where there is one.
        chance: The return of random play, where it is known.
    """

    name: str
    optimum: float | None
    chance: float | None
    variants: tuple[Variant, ...]

    @property
    def runs(self) -> list[RunRecord]:
        """All runs, variant by variant."""
        return [run for variant in self.variants for run in variant.runs]

    @property
    def grid(self) -> FloatArray:
        """The transitions at which every curve of the task is evaluated."""
        return np.linspace(0.0, max([1, *(run.transitions for run in self.runs)]), GRID_POINTS + 1)


def late_returns(run: RunRecord) -> FloatArray:
    """Return the returns of the episodes that finished in the last `FINAL_SHARE` of the transitions."""
    return run.episode_returns[run.episode_steps > (1 - FINAL_SHARE) * run.transitions]


def final_return(run: RunRecord) -> float:
    """Average the late returns; NaN if there are none."""
    late = late_returns(run)
    return float(late.mean()) if late.size else math.nan


def curve(run: RunRecord, grid: FloatArray) -> FloatArray:
    """Average the returns of the episodes that finished in (s - window, s], but at least the latest, for each s.

    NaN before the first episode has finished and after the run's last transition.
    """
    stop = np.searchsorted(run.episode_steps, grid, side="right")
    start = np.searchsorted(run.episode_steps, grid - WINDOW_SHARE * run.planned, side="right")
    start = np.clip(np.minimum(start, stop - 1), 0, None)
    total = np.concatenate([[0.0], np.cumsum(run.episode_returns)])
    mean: FloatArray = (total[stop] - total[start]) / np.maximum(stop - start, 1)
    mean[(stop == 0) | (grid > run.transitions)] = np.nan
    return mean


def group_tasks(runs: Iterable[RunRecord]) -> list[Task]:
    """Group runs by environment, then by configuration: DQN first, then by weight; names and labels are unique."""
    groups = _group(runs, _task_fields)
    names = [" and ".join(dict.fromkeys(str(run.config.get("name", "unnamed")) for run in group)) for group in groups]
    tasks = []
    for name, group in zip(names, groups, strict=True):
        rivals = [_task_fields(other[0]) for rival, other in zip(names, groups, strict=True) if rival == name]
        unique_name = ", ".join([name, *_assignments(_task_fields(group[0]), differing(rivals))])
        tasks.append(Task(unique_name, *levels(group[0].config), _variants(group)))
    return sorted(tasks, key=lambda task: task.name)


def series_numbers(tasks: Iterable[Task]) -> dict[str, int]:
    """Give each label a number, so that a variant has the same colour in every panel and table."""
    labels = dict.fromkeys(variant.label for task in tasks for variant in task.variants)
    return {label: number for number, label in enumerate(labels)}


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Turn a nested mapping into dotted names and printable values."""
    flat: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return flat


def differing(fields: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names whose values are not the same in all of `fields`, in order of appearance."""
    names = dict.fromkeys(name for each in fields for name in each)
    return [name for name in names if len({each.get(name) for each in fields}) > 1]


def levels(config: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the optimal return of a run's environment, computed exactly, and that of random play, where known."""
    if config["environment"]["id"] != MAZE_ID:
        return None, None
    try:
        maze = config["maze"]
        layout, num_coins = load_layout(maze["layout"]), int(maze["num_coins"])
        steps = int(maze.get("max_episode_steps", MazeConfig().max_episode_steps))
        return optimal_return(layout, num_coins), random_return(layout, num_coins, steps)
    except (UserError, KeyError, TypeError, ValueError):  # a layout that has moved costs the lines, not the report
        return None, None


def _variants(runs: Iterable[RunRecord]) -> tuple[Variant, ...]:
    groups = _group(sorted(runs, key=lambda run: run.seed), _variant_fields)
    groups.sort(key=lambda group: (group[0].weight, sorted(_variant_fields(group[0]).items())))
    variants = []
    for group in groups:
        weight = group[0].weight
        names = differing([_variant_fields(rival[0]) for rival in groups if rival[0].weight == weight])
        # A preset's name says nothing that the fields do not, unless nothing else differs.
        telling = [name for name in names if name != "name"] or names
        details = ([] if weight == 0 else [f"weight {weight:g}"]) + _assignments(_variant_fields(group[0]), telling)
        variants.append(Variant("DQN" if weight == 0 else "EVA", tuple(details), tuple(group)))
    return tuple(variants)


def _group(runs: Iterable[RunRecord], key: Callable[[RunRecord], dict[str, str]]) -> list[list[RunRecord]]:
    groups: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(tuple(sorted(key(run).items())), []).append(run)
    return list(groups.values())


def _variant_fields(run: RunRecord) -> dict[str, str]:
    return {name: value for name, value in flatten(run.config).items() if name not in ("seed", *NOT_IDENTITY)}


def _task_fields(run: RunRecord) -> dict[str, str]:
    group = {MAZE_ID: "maze.", ATARI_ID: "atari."}.get(run.config["environment"]["id"])
    telling = ("environment.id", group) if group else ("environment.id",)
    return {name: value for name, value in flatten(run.config).items() if name.startswith(telling)}


def _assignments(fields: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return [f"{name}={fields.get(name, 'absent')}" for name in names]
