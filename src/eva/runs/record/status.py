"""Read status.json, the state and progress of a run."""

import json
from dataclasses import dataclass
from pathlib import Path

from eva.files import read_file


@dataclass(frozen=True)
class Status:
    """State and number of transitions of a run, and when they were written (seconds since the epoch)."""

    state: str
    step: int
    written: float = 0.0


def read_status(directory: Path) -> Status:
    """Return the status of a run; state "absent" and step 0 if status.json is missing or damaged."""
    try:
        path = directory / "status.json"
        content = json.loads(read_file(path))
        return Status(str(content["state"]), int(content["step"]), path.stat().st_mtime)
    except (OSError, ValueError, OverflowError, RecursionError, KeyError, TypeError):
        return Status("absent", 0)
