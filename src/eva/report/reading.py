"""Find run directories and read their files. Damaged or missing files raise UserError."""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from eva.digests import parse_names, read_manifest, unsealed_if_sealed
from eva.errors import UserError
from eva.files import exists_either, read_either
from eva.ids import MAZE_ID
from eva.report.statistics import FloatArray
from eva.runs.record.columns import EPISODE_COLUMNS

T = TypeVar("T")
REMEDY = "leave this run out, or remove its directory and train it again."
DIVERGENCE_FACTOR = 3.0  # in the maze a run has diverged if abs(Q) exceeds this many times the largest possible return
_ABSURD = 1e18  # larger counts and durations are damage
DAMAGE = (OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True, eq=False)
class RunRecord:
    """The parts of one run directory that a report needs."""

    path: Path
    config: Mapping[str, Any]
    provenance: Mapping[str, Any]
    seed: int
    planned: int  # transitions the configuration asks for
    weight: float  # non-parametric weight; 0 is DQN
    state: str  # "finished", "running", "stopped" or "failed"
    transitions: int  # done, summed over environments
    episode_steps: FloatArray  # transitions done when each episode finished, ascending
    episode_returns: FloatArray
    episode_lengths: FloatArray
    episode_environments: FloatArray
    timings: FloatArray  # (n, 2) transitions, and seconds of training until then
    steps_per_second: float  # median of the timings; NaN without any
    seconds: float  # duration of the run; NaN without timings
    diverged: str | None = None  # which value left the sensible range, if any did
    largest_abs_q: float = math.nan  # during the run, if recorded

    @property
    def provenances(self) -> list[Mapping[str, Any]]:
        """Provenance of the start and of every continuation."""
        continued = self.provenance.get("continued")
        later = continued if isinstance(continued, list) else []
        return [self.provenance, *(each for each in later if isinstance(each, Mapping))]

    @property
    def finished(self) -> bool:
        """Whether the run reached its planned end."""
        return self.state == "finished"


def read_runs(paths: Iterable[Path]) -> tuple[list[RunRecord], list[str]]:
    """Read every run directory that `paths` name or contain, each once, in the order of their paths.

    Also returns a sentence for each run that cannot be read; raises UserError if no run can.
    """
    found: set[Path] = set()
    for path in paths:
        if not path.is_dir():
            raise UserError(f"'{path}' is not a directory: give run directories, or a folder that contains some.")
        configs = [path / "config.json"] if (path / "config.json").exists() else _configs_below(path)
        if not configs:
            raise UserError(f"No config.json in or under '{path}': give a directory written by 'eva train'.")
        found.update(config.parent.resolve() for config in configs)
    if not found:
        raise UserError("No run to report on: give at least one run directory.")
    runs, left_out = list[RunRecord](), list[str]()
    for path in sorted(found):
        try:
            runs.append(read_run(path))
        except UserError as error:  # noqa: PERF203
            left_out.append(str(error))
    if not runs:
        raise UserError(left_out[0])
    return runs, left_out


def _configs_below(path: Path) -> list[Path]:
    """Return the paths of all config.json, however deep; links to folders are not followed, as by `Path.rglob`."""
    found, folders = list[Path](), [path]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name == "config.json":
                    found.append(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
    return found


def read_run(path: Path) -> RunRecord:
    """Read one run directory. Its `episodes.csv` and `timing.jsonl` may be compressed, with the suffix `.gz`.

    If it has a manifest, the checksums of the files must match.
    """
    status = read_parsed(path / "status.json", _sealed_mapping)
    config, provenance = (read_parsed(path / f"{name}.json", _mapping) for name in ("config", "provenance"))
    finished = status.get("state") == "finished"
    episodes = read_parsed(path / "episodes.csv", lambda text: _episodes(text, finished))
    timing = path / "timing.jsonl"
    times = np.empty((0, 3))
    if exists_either(timing) or _is_listed(timing):
        remedy = "delete it and manifest.json, and the report leaves the speed out."
        times = read_parsed(timing, lambda text: _timing(text, finished), remedy)
    try:
        if not isinstance(config["environment"]["id"], str):
            raise TypeError("environment.id is not text")
        return RunRecord(
            path=path,
            config=config,
            provenance=provenance,
            seed=_count(config["seed"]),
            planned=_count(config["steps"]),
            weight=_number(config["eva"]["nonparametric_weight"]),
            state=str(status["state"]),
            transitions=_count(status["step"]),
            episode_steps=episodes[:, 0],
            episode_returns=episodes[:, 2],
            episode_lengths=episodes[:, 3],
            episode_environments=episodes[:, 1],
            timings=times[:, :2],
            steps_per_second=float(np.median(times[:, 2])) if len(times) else math.nan,
            seconds=float(times[-1, 1]) if len(times) else math.nan,
            diverged=_divergence(config, status),
            largest_abs_q=_largest_abs_q(status),
        )
    except DAMAGE as error:
        raise UserError(f"config.json or status.json in '{path}' is incomplete ({error}): {REMEDY}") from error


def _divergence(config: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Return what shows that a run diverged: its own message, or in the maze abs(Q) beyond what coins allow."""
    message, largest = status.get("diverged"), _largest_abs_q(status)
    if message is not None or config["environment"]["id"] != MAZE_ID:
        return None if message is None else str(message)
    limit = DIVERGENCE_FACTOR * int(config["maze"]["num_coins"])
    return f"abs(Q) reached {largest:g}, {limit:g} is the limit" if largest > limit else None


def _largest_abs_q(status: Mapping[str, Any]) -> float:
    largest = status.get("largest_abs_q", math.nan)
    if type(largest) not in (int, float):
        raise TypeError("largest_abs_q is not a float")
    return float(largest)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{str(value)[:20]!r} is no count")
    return value


def _number(value: Any) -> float:
    """Return a duration, a speed or a weight; raises TypeError or ValueError if it is none, or absurdly large."""
    if type(value) not in (int, float) or not 0 <= value < _ABSURD:
        raise ValueError(f"{str(value)[:20]!r} is no sensible number")
    return float(value)


def read_parsed(path: Path, parse: Callable[[str], T], remedy: str = REMEDY) -> T:
    """Parse the text of a file, or of its .gz file; raises UserError with the path and the remedy if that fails."""
    try:
        content = read_either(path)
        if (entry := read_manifest(path.parent).get(path.name)) is not None:
            entry.check(BytesIO(content))
        return parse(content.decode())
    except DAMAGE as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"'{path}' is missing or damaged ({reason}): {remedy}") from error


def _is_listed(path: Path) -> bool:
    """Return whether the manifest beside a file lists it, or is damaged."""
    try:
        return path.name in read_manifest(path.parent)
    except DAMAGE:
        return True


def _sealed_mapping(text: str) -> dict[str, Any]:
    return parse_names(unsealed_if_sealed(text.encode()))


def _mapping(text: str) -> dict[str, Any]:
    return parse_names(json.loads(text))


def _lines(text: str, finished: bool) -> list[str]:
    """Return the complete lines: while a run is being written, its last line may be cut off."""
    return [line for line in text.splitlines(keepends=True) if finished or line.endswith("\n")]


def _episodes(text: str, finished: bool) -> FloatArray:
    header, *rows = _lines(text, finished) or ["" if finished else EPISODE_COLUMNS]
    table = np.loadtxt(rows, delimiter=",", ndmin=2) if rows else np.empty((0, 4))
    if header.strip() != EPISODE_COLUMNS or table.shape[1] != 4 or not (np.abs(table) < _ABSURD**5).all():
        raise ValueError(f"not a table of '{EPISODE_COLUMNS}'")
    ordered: FloatArray = table[np.argsort(table[:, 0], kind="stable")]
    return ordered


def _timing(text: str, finished: bool) -> FloatArray:
    """Return step, seconds and transitions per second of each line, (n, 3)."""
    names = ("step", "seconds", "steps_per_second")
    rows = [[_number(line[name]) for name in names] for line in map(json.loads, _lines(text, finished))]
    return np.array(rows, np.float64).reshape(-1, 3)


def read_lines(path: Path, finished: bool) -> list[dict[str, Any]]:
    """Return the lines of a .jsonl file; those of an unfinished run may end early."""
    return read_parsed(path, lambda text: [parse_names(json.loads(line)) for line in _lines(text, finished)])
