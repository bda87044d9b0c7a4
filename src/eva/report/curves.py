"""Group runs by task and configuration, and reduce their episodes to learning curves and final returns."""

import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eva.config import NOT_IDENTITY, MazeConfig
from eva.envs.maze_dynamics import random_return
from eva.envs.maze_layout import check_recorded, load_layout, optimal_return
from eva.errors import UserError
from eva.games import MINATAR_SCORES, minatar_game
from eva.ids import ATARI_ID, MAZE_ID, MINATAR_PREFIX
from eva.report.reading import RunRecord
from eva.report.statistics import MARGIN_SHARE, FloatArray, mean_interval
from eva.report.style import NUM_COLOURS

GRID_POINTS = 200
WINDOW_SHARE = 0.05  # of a run's planned transitions: trailing window of a learning curve
FINAL_SHARE = 0.2  # of a run's transitions: its final return averages the episodes that finish in them
_SECTIONS = {MAZE_ID: "maze.", ATARI_ID: "atari.", MINATAR_PREFIX: "minatar."}
_COLOURS = {"DQN": 0, **{f"EVA, weight {w}": i for i, w in enumerate(("0.4", "0.2", "0.6", "0.8", "1"), start=1)}}
CI_SEEDS = 5  # from this many seeds on, the band is a 95% CI


@dataclass(frozen=True, eq=False)
class Group:
    """Runs, sorted by seed, whose configurations differ only in seed and length."""

    kind: str
    details: tuple[str, ...]
    runs: tuple[RunRecord, ...]

    @property
    def label(self) -> str:
        """Name that is unique within the task."""
        return ", ".join((self.kind, *self.details))

    @property
    def fields(self) -> dict[str, str]:
        """The flat configuration, without seed and steps."""
        return _group_fields(self.runs[0])

    @property
    def counted(self) -> tuple[RunRecord, ...]:
        """The runs in means and bands: finished ones, or all if none has finished; the longest run of each seed."""
        chosen = [run for run in self.runs if run.finished] or self.runs
        longest = {run.seed: run for run in sorted(chosen, key=lambda run: run.transitions)}
        return tuple(longest[seed] for seed in sorted(longest))

    @property
    def finals(self) -> FloatArray:
        """The final returns of the counted runs that have one."""
        finals = map(final_return, self.counted)
        return np.array([final for final in finals if not math.isnan(final)])

    def band(self, grid: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean over seeds, lower and upper end on a grid; NaN where a seed has no value.

        The ends are minimum and maximum, or a 95% CI from `CI_SEEDS` seeds on.
        """
        curves = np.stack([curve(run, grid) for run in self.counted])
        ends = mean_interval(curves) if len(curves) >= CI_SEEDS else (curves.min(axis=0), curves.max(axis=0))
        return curves.mean(axis=0), *ends


@dataclass(frozen=True, eq=False)
class Task:
    """The groups that played the same environment."""

    name: str
    optimum: float | None  # the exactly computed optimal return, where there is one
    chance: float | None  # the return of random play, where it is known
    groups: tuple[Group, ...]

    @property
    def runs(self) -> list[RunRecord]:
        """All runs, group by group."""
        return [run for group in self.groups for run in group.runs]

    @property
    def grid(self) -> FloatArray:
        """The transitions at which every curve of the task is evaluated."""
        return np.linspace(0.0, max([1, *(run.transitions for run in self.runs)]), GRID_POINTS + 1)

    @property
    def margin(self) -> float:
        """Smaller differences of returns count as none; 0 where optimum or random play is unknown."""
        if self.optimum is None or self.chance is None:
            return 0.0
        return MARGIN_SHARE * (self.optimum - self.chance)


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


def levels(config: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the optimal return of a run's environment, computed exactly, and that of random play, where known."""
    try:
        if config["environment"]["id"].startswith(MINATAR_PREFIX):
            return None, MINATAR_SCORES[minatar_game(config["environment"]["id"])[0]].random
        if config["environment"]["id"] != MAZE_ID:
            return None, None
        maze = config["maze"]
        check_recorded(maze["layout"])
        layout, num_coins = load_layout(maze["layout"]), int(maze["num_coins"])
        steps = int(maze.get("max_episode_steps", MazeConfig().max_episode_steps))
        return optimal_return(layout, num_coins), random_return(layout, num_coins, steps)
    except (UserError, KeyError, TypeError, ValueError):  # an invalid layout only removes the lines from the figure
        return None, None


def group_tasks(runs: Iterable[RunRecord]) -> list[Task]:
    """Group runs by environment, then by configuration: DQN first, then by weight; names and labels are unique."""
    groups = _group(runs, _task_fields)
    names = [" and ".join(dict.fromkeys(str(run.config.get("name", "unnamed")) for run in group)) for group in groups]
    tasks = []
    for name, group in zip(names, groups, strict=True):
        rivals = [_task_fields(other[0]) for rival, other in zip(names, groups, strict=True) if rival == name]
        unique_name = ", ".join([name, *_assignments(_task_fields(group[0]), differing(rivals))])
        tasks.append(Task(unique_name, *levels(group[0].config), _groups(group)))
    return sorted(tasks, key=lambda task: task.name)


def arms(tasks: Iterable[Task]) -> dict[str, int]:
    """Return the labels of all groups with their series numbers."""
    return series_numbers(group.label for task in tasks for group in task.groups)


def series_numbers(labels: Iterable[str]) -> dict[str, int]:
    """Assign a number to each label: its colour is the remainder by NUM_COLOURS, its dashes are the quotient.

    The colour of an arm, "DQN" or "EVA, ...", depends on its label alone: it is the same in every panel, table and
    page. Arms of the same colour differ in their dashes. Other labels take the free numbers in order.
    """
    numbers: dict[str, int] = {}
    for label in dict.fromkeys(labels):
        is_arm = label.startswith(("DQN", "EVA"))
        number, stride = (_colour(label), NUM_COLOURS) if is_arm else (0, 1)
        while number in numbers.values():
            number += stride
        numbers[label] = number
    return numbers


def _colour(label: str) -> int:
    """Return the colour of an arm: fixed for the most frequent ones, else by its label, but never that of DQN."""
    return _COLOURS[label] if label in _COLOURS else 1 + zlib.crc32(label.encode()) % (NUM_COLOURS - 1)


def applicable(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a configuration without the settings of other environments."""
    own = _section(fields.get("environment.id", ""))
    others = tuple(part for part in _SECTIONS.values() if part != own)
    return {name: value for name, value in fields.items() if not name.startswith(others)}


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return dotted names and printable values of a nested mapping."""
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


def _groups(runs: Iterable[RunRecord]) -> tuple[Group, ...]:
    groups = _group(sorted(runs, key=lambda run: run.seed), _group_fields)
    groups.sort(key=lambda group: (group[0].weight, sorted(_group_fields(group[0]).items())))
    found = []
    for group in groups:
        weight = group[0].weight
        names = differing([_group_fields(rival[0]) for rival in groups if rival[0].weight == weight])
        # The preset's name is shown only if nothing else differs.
        shown = [name for name in names if name != "name"] or names
        details = ([] if weight == 0 else [f"weight {weight:g}"]) + _assignments(_group_fields(group[0]), shown)
        found.append(Group("DQN" if weight == 0 else "EVA", tuple(details), tuple(group)))
    return tuple(found)


def _group(runs: Iterable[RunRecord], key: Callable[[RunRecord], dict[str, str]]) -> list[list[RunRecord]]:
    groups: dict[frozenset[tuple[str, str]], list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(frozenset(key(run).items()), []).append(run)
    return list(groups.values())


def _group_fields(run: RunRecord) -> dict[str, str]:
    return {name: value for name, value in flatten(run.config).items() if not name.startswith(("seed", *NOT_IDENTITY))}


def _task_fields(run: RunRecord) -> dict[str, str]:
    part = _section(run.config["environment"]["id"]) or "environment.id"
    return {name: value for name, value in flatten(run.config).items() if name.startswith(("environment.id", part))}


def _section(environment_id: str) -> str | None:
    """Return the prefix of an environment's own settings, if it has any."""
    return next((part for name, part in _SECTIONS.items() if environment_id.startswith(name)), None)


def _assignments(fields: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return [f"{name}={fields.get(name, 'absent')}" for name in names]
