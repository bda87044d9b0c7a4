"""Write the records of runs in formats that other tools read."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from eva.errors import UserError, nearest_name
from eva.files import as_user_errors, exists_either, write_whole
from eva.games import human_normalised_score, minatar_game, minatar_normalised_score
from eva.ids import ATARI_ID, MINATAR_PREFIX
from eva.report.curves import Group, Task, curve, final_return, group_tasks
from eva.report.listing import differing_fields, field_value
from eva.report.reading import RunRecord, read_lines, read_runs
from eva.runs.record.columns import EVALUATIONS, METRICS, MORE_METRICS

Format = Literal["csv", "parquet", "rliable", "sb3"]
Table = Literal["episodes", "metrics", "evaluations"]
Columns = dict[str, NDArray[Any]]
ALWAYS = ("name", "environment.id", "eva.nonparametric_weight", "seed")
"""Fields of the configuration that every table has, whether they differ between the runs or not."""
NUM_POINTS = 100
"""Points of a learning curve in the format rliable."""


def export(directory: Path | str, format: Format, out: Path | str, table: Table = "episodes") -> list[str]:
    """Write the records of all runs in or under a directory; returns a sentence for each run that is left out.

    Args:
        directory: A run directory, or a folder that contains some.
        format: `csv` and `parquet` are tables with a row for each episode, line of metrics or evaluation episode.
            `rliable` is a .npz file with scores (runs, games) and curves (runs, games, points) of each agent. `sb3`
            is a folder with a monitor.csv for each run.
        out: The file to write, or the folder for `sb3`.
        table: The rows of `csv` and `parquet`.
    """
    for name, value, known in (("format", format, get_args(Format)), ("table", table, get_args(Table))):
        if value not in known:
            raise UserError(f"there is no {name} '{value}': {nearest_name(str(value), known)}")
    if format in ("rliable", "sb3") and table != "episodes":
        raise UserError(f"the format {format} is made from episodes: leave the table {table} out.")
    directory, out = Path(directory), Path(out)
    runs, left_out = read_runs([directory])
    if format == "sb3":
        files = {out / name / "monitor.csv": _monitor(run) for name, run in _named(directory, runs).items()}
    elif format == "rliable":
        files = {out: _npz(scores(group_tasks(runs)))}
    else:
        columns = _table(_named(directory, runs), _TABLES[table])
        files = {out: _csv(columns) if format == "csv" else _parquet(columns)}
    for path, content in files.items():  # everything has been computed before the first file is written
        with as_user_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    return left_out


def _named(directory: Path, runs: Sequence[RunRecord]) -> dict[str, RunRecord]:
    """Return the runs by their path in the directory; a run directory itself has its own name."""
    root = directory.resolve()
    return {str(run.path.relative_to(root)) if run.path != root else root.name: run for run in runs}


# Tables


def _table(runs: Mapping[str, RunRecord], rows_of: Callable[[RunRecord], Columns]) -> Columns:
    """Return the rows of all runs, below each other, with the configuration of their run."""
    fields = dict.fromkeys((*ALWAYS, *differing_fields(list(runs.values()))))
    tables = []
    for name, run in runs.items():
        rows = rows_of(run)
        values = {"run": name} | {field: _cell(field_value(run.config, field)) for field in fields}
        num_rows = len(next(iter(rows.values())))
        tables.append({key: np.full(num_rows, value, dtype=object) for key, value in values.items()} | rows)
    return {column: np.concatenate([table[column] for table in tables]) for column in tables[0]}


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


def _episode_rows(run: RunRecord) -> Columns:
    return {
        "step": run.episode_steps.astype(np.int64),
        "environment": run.episode_environments.astype(np.int64),
        "episode_return": run.episode_returns,
        "episode_length": run.episode_lengths.astype(np.int64),
    }


def _metric_rows(run: RunRecord) -> Columns:
    """Return metrics.jsonl beside timing.jsonl, which have the same steps."""
    lines = read_lines(run.path / "metrics.jsonl", run.finished)
    columns = {name: _numbers(line.get(name) for line in lines) for name in (*METRICS, *MORE_METRICS)}
    step = columns.pop("step")
    seconds = dict(run.timings)
    return {"step": step.astype(np.int64), **columns, "seconds": _numbers(map(seconds.get, step))}


def _evaluation_rows(run: RunRecord) -> Columns:
    path = run.path / EVALUATIONS
    lines = read_lines(path, run.finished) if exists_either(path) else []
    sizes = [len(line["returns"]) for line in lines]
    per_line = {
        name: np.repeat(_numbers(line[name] for line in lines), sizes)
        for name in ("step", "weight", "epsilon", "changed_share")
    }
    each = {
        "episode": np.array([i for size in sizes for i in range(size)], np.int64),
        "episode_return": _numbers(x for line in lines for x in line["returns"]),
        "episode_length": np.array([x for line in lines for x in line["lengths"]], np.int64),
    }
    return {"step": per_line.pop("step").astype(np.int64), **per_line, **each}


_TABLES: dict[str, Callable[[RunRecord], Columns]] = {
    "episodes": _episode_rows,
    "metrics": _metric_rows,
    "evaluations": _evaluation_rows,
}


def _numbers(values: Iterable[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _csv(columns: Columns) -> bytes:
    """Return CSV; NaN and missing fields are empty cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    lists = (["" if cell is None or cell != cell else cell for cell in column.tolist()] for column in columns.values())
    writer.writerows(zip(*lists, strict=True))
    return text.getvalue().encode()


def _parquet(columns: Columns) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UserError(
            f'the format parquet needs a package that is missing ({error}): run pip install "ephemeral-value-'
            'adjustments[export]", or choose csv.'
        ) from None
    buffer = pyarrow.BufferOutputStream()
    arrays = {name: pyarrow.array(column, from_pandas=True) for name, column in columns.items()}
    parquet.write_table(pyarrow.table(arrays), buffer)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


# rliable


def scores(tasks: Sequence[Task]) -> dict[str, NDArray[Any]]:
    """Return late returns, (runs, games), and learning curves, (runs, games, points), of each agent.

    Names are "scores/AGENT" and "curves/AGENT"; "games" and "steps" name their axes. If every game has published
    scores, "normalised/AGENT" and "normalised_curves/AGENT" hold shares of them: 0 is random play; 1 is human play on
    Atari, and the published DQN on MinAtar.
    """
    arms = _arms(tasks)
    runs = [run for groups in arms.values() for group in groups for run in group.counted]
    grid = np.linspace(0, min(run.transitions for run in runs), NUM_POINTS + 1)
    late = {label: _stacked(groups, lambda run: np.array(final_return(run))) for label, groups in arms.items()}
    curves = {label: _stacked(groups, lambda run: curve(run, grid)) for label, groups in arms.items()}
    known = ~np.any([np.isnan(each).any(axis=(0, 1)) for each in curves.values()], axis=0)
    if not known.any() or any(np.isnan(each).any() for each in late.values()):
        raise UserError("a run has finished no episode in its last fifth, so it has no score: train longer.")
    found: dict[str, NDArray[Any]] = {"games": np.array([task.name for task in tasks]), "steps": grid[known]}
    for label in arms:
        found[f"scores/{label}"] = late[label]
        found[f"curves/{label}"] = curves[label][..., known]
    normalised = [_normaliser(task) for task in tasks]
    if all(normalised):
        for name in [name for name in found if "/" in name]:
            kind, _, label = name.partition("/")
            shares = [normalise(found[name][:, game]) / 100 for game, normalise in enumerate(normalised) if normalise]
            new = {"scores": "normalised", "curves": "normalised_curves"}[kind]
            found[f"{new}/{label}"] = np.stack(shares, axis=1)
    return found


def _arms(tasks: Sequence[Task]) -> dict[str, list[Group]]:
    """Return each agent's groups, game by game; raises UserError if there are not the same runs in every game."""
    labels = dict.fromkeys(group.label for task in tasks for group in task.groups)
    arms: dict[str, list[Group]] = {}
    for label in labels:
        groups = {task.name: group for task in tasks for group in task.groups if group.label == label}
        sizes = {task.name: len(groups[task.name].counted) if task.name in groups else 0 for task in tasks}
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{size} of {game}" for game, size in sizes.items())
            raise UserError(
                f"rliable needs the same number of runs in every game, but '{label}' has {counts}: train the missing "
                "ones, or choose a folder without the others."
            )
        arms[label] = list(groups.values())
    return arms


def _stacked(groups: Sequence[Group], value: Callable[[RunRecord], NDArray[Any]]) -> NDArray[Any]:
    """Return values as (runs, games, ...)."""
    return np.stack([np.stack([value(run) for run in group.counted]) for group in groups], axis=1)


def _normaliser(task: Task) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    """Return the function from returns to normalised scores in percent, or None if no scores are published."""
    config = task.runs[0].config
    environment_id = config["environment"]["id"]
    if environment_id == ATARI_ID:
        return lambda returns: human_normalised_score(str(config["atari"]["game"]), returns)
    if environment_id.startswith(MINATAR_PREFIX):
        return lambda returns: minatar_normalised_score(minatar_game(environment_id)[0], returns)
    return None


def _npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


# Stable-Baselines3


def _monitor(run: RunRecord) -> bytes:
    """Return the monitor.csv of a run; its times are interpolated between the lines of timing.jsonl."""
    if not len(run.timings):
        raise UserError(f"'{run.path}' has recorded no times, which the format sb3 needs: leave this run out.")
    try:
        started = datetime.fromisoformat(str(run.provenance.get("started"))).timestamp()
    except ValueError:
        started = 0.0
    steps, seconds = np.concatenate([[[0.0, 0.0]], run.timings]).T
    header = {"t_start": started, "env_id": field_value(run.config, "environment.id")}
    rows = zip(run.episode_returns, run.episode_lengths, np.interp(run.episode_steps, steps, seconds), strict=True)
    lines = [f"#{json.dumps(header)}", "r,l,t", *(f"{r:.6f},{n:.0f},{t:.6f}" for r, n, t in rows)]
    return ("\n".join(lines) + "\n").encode()
