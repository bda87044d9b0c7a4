"""List runs: what differs between them, how far they are, and what their late episodes return."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eva.report.curves import differing, final_return, flatten
from eva.report.reading import RunRecord, read_runs


@dataclass(frozen=True)
class RunSummary:
    """One run in a list of runs."""

    path: Path
    name: str
    seed: int
    weight: float  # non-parametric weight; 0 is DQN
    state: str  # "finished", "running", "stopped" or "failed"
    step: int  # transitions so far
    steps: int  # transitions that the configuration asks for
    late_return: float  # mean over the episodes of the last fifth of the transitions so far; NaN if there are none
    differing: Mapping[str, Any]  # the fields of the configuration that are not the same in all runs of the list


def list_runs(directory: Path | str) -> list[RunSummary]:
    """Return all runs in or under a directory; warns about those that cannot be read."""
    found, left_out = readable_runs(Path(directory))
    for sentence in left_out:
        warnings.warn(f"left out: {sentence}", stacklevel=2)
    return found


def readable_runs(directory: Path) -> tuple[list[RunSummary], list[str]]:
    """Return all runs in or under a directory, and a sentence for each that cannot be read."""
    records, left_out = read_runs([directory])
    names = differing_fields(records)
    return [
        RunSummary(
            path=record.path,
            name=str(record.config.get("name", "unnamed")),
            seed=record.seed,
            weight=record.weight,
            state=record.state,
            step=record.transitions,
            steps=record.planned,
            late_return=final_return(record),
            differing={name: field_value(record.config, name) for name in names},
        )
        for record in records
    ], left_out


def differing_fields(records: Sequence[RunRecord]) -> list[str]:
    """Return the fields that are not the same in the configurations of all runs, without `steps`."""
    return [name for name in differing([flatten(record.config) for record in records]) if name != "steps"]


def field_value(config: Mapping[str, Any], path: str) -> Any:
    """Return a field such as "learner.batch_size", or None if an older run does not have it."""
    value: Any = config
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
