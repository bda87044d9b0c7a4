"""Find run directories and read their files; every damaged or missing file is the user's to mend."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eva.errors import UserError
from eva.files import packed, read_either
from eva.report.statistics import FloatArray
from eva.runs.record.columns import EPISODE_COLUMNS

REMEDY = "leave this run out, or remove its directory and train it again."


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run directory, as far as a report needs it.

    Attributes:
        planned: Transitions the configuration asks for.
        weight: Non-parametric weight; 0 is DQN.
        state: "finished", "running", "stopped" or "failed".
        transitions: Transitions done, summed over environments.
        episode_steps: Transitions done when each episode finished, ascending.
        steps_per_second: Median of the timings; NaN without any.
        seconds: That the run took; NaN without timings.
        diverged: What has been beyond all bounds in it, if anything.
    """

    path: Path
    config: Mapping[str, Any]
    provenance: Mapping[str, Any]
    seed: int
    planned: int
    weight: float
    state: str
    transitions: int
    episode_steps: FloatArray
    episode_returns: FloatArray
    steps_per_second: float
    seconds: float
    diverged: str | None = None

    @property
    def provenances(self) -> list[Mapping[str, Any]]:
        """Where the run comes from: who began it, and all who went on with it."""
        continued = self.provenance.get("continued")
        others = continued if isinstance(continued, list) else []
        return [self.provenance, *(each for each in others if isinstance(each, Mapping))]

    @property
    def finished(self) -> bool:
        """Whether the run came to its planned end."""
        return self.state == "finished"


def find_runs(paths: Iterable[Path]) -> list[RunRecord]:
    """Read every run directory that `paths` name or contain, each once, in the order of their paths.

    Its `episodes.csv` and `timing.jsonl` may be compressed, with the suffix `.gz`.
    """
    found: set[Path] = set()
    for path in paths:
        if not path.is_dir():
            raise UserError(f"'{path}' is not a directory: give run directories, or a folder that contains some.")
        configs = [path / "config.json"] if (path / "config.json").exists() else list(path.rglob("config.json"))
        if not configs:
            raise UserError(f"No config.json in or under '{path}': give a directory written by 'eva train'.")
        found.update(config.parent.resolve() for config in configs)
    if not found:
        raise UserError("No run to report on: give at least one run directory.")
    return [read_run(path) for path in sorted(found)]


def read_run(path: Path) -> RunRecord:
    """Read one run directory."""
    config, status = _read_json(path / "config.json"), _read_json(path / "status.json")
    # While a run is being written, its last line may be half a line.
    whole = status.get("state") == "finished"
    steps, returns = _read_episodes(path / "episodes.csv", whole)
    steps_per_second, seconds = _read_timing(path / "timing.jsonl", whole)
    try:
        if not isinstance(config["environment"]["id"], str):
            raise TypeError("environment.id is no text")  # tasks are told apart by it
        return RunRecord(
            path=path,
            config=config,
            provenance=_read_json(path / "provenance.json"),
            seed=int(config["seed"]),
            planned=int(config["steps"]),
            weight=float(config["eva"]["nonparametric_weight"]),
            state=str(status["state"]),
            transitions=int(status["step"]),
            episode_steps=steps,
            episode_returns=returns,
            steps_per_second=steps_per_second,
            seconds=seconds,
            diverged=status.get("diverged"),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"config.json or status.json in '{path}' is incomplete ({error}): {REMEDY}") from error


def _read_text(path: Path) -> str:
    try:
        return read_either(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot read '{path}': {REMEDY}") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"'{path}' is not valid JSON: {REMEDY}") from error
    if not isinstance(value, dict):
        raise UserError(f"'{path}' does not hold a JSON object: {REMEDY}")
    return value


def _read_lines(path: Path, whole: bool) -> list[str]:
    lines = _read_text(path).splitlines(keepends=True)
    return lines if whole else [line for line in lines if line.endswith("\n")]


def _read_episodes(path: Path, whole: bool) -> tuple[FloatArray, FloatArray]:
    header, *rows = _read_lines(path, whole) or ["" if whole else EPISODE_COLUMNS]
    try:
        table = np.loadtxt(rows, delimiter=",", ndmin=2) if rows else np.empty((0, 4))
    except ValueError as error:
        raise UserError(f"'{path}' is damaged: {REMEDY}") from error
    if header.strip() != EPISODE_COLUMNS or table.shape[1] != 4 or not np.isfinite(table).all():
        raise UserError(f"'{path}' is not a table of '{EPISODE_COLUMNS}': {REMEDY}")
    table = table[np.argsort(table[:, 0], kind="stable")]
    return table[:, 0], table[:, 2]


def _read_timing(path: Path, whole: bool) -> tuple[float, float]:
    """Return the median of transitions per second, and the seconds at the end."""
    if not path.exists() and not packed(path).exists():
        return math.nan, math.nan
    try:
        lines = [json.loads(line) for line in _read_lines(path, whole)]
        speeds, seconds = ([float(line[name]) for line in lines] for name in ("steps_per_second", "seconds"))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"'{path}' is damaged: delete it, and the report leaves the speed out.") from error
    return (float(np.median(speeds)), seconds[-1]) if lines else (math.nan, math.nan)
