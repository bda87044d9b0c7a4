"""How far a run has come, by its status.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Status:
    """What status.json says of a run."""

    state: str
    step: int


def read_status(directory: Path) -> Status:
    """Return how far a run directory has come; where there is none, or a damaged one, that is nowhere."""
    try:
        content = json.loads((directory / "status.json").read_text())
        return Status(str(content["state"]), int(content["step"]))
    except (OSError, ValueError, OverflowError, RecursionError, KeyError, TypeError):
        return Status("absent", 0)
