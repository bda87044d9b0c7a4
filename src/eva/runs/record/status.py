"""Read status.json, the state and progress of a run."""

import os
from dataclasses import dataclass
from pathlib import Path

from eva.digests import unsealed_if_sealed
from eva.files import Folder

_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Status:
    """State and number of transitions of a run, and when they were written (seconds since the epoch)."""

    state: str
    step: int
    written: float = 0.0


def read_status(directory: Path) -> Status:
    """Return the status of a run; state "absent" or "damaged" and step 0 if status.json is missing or damaged."""
    try:
        with Folder(directory) as folder, folder.open("status.json") as file:
            content = unsealed_if_sealed(file.read(_MOST_BYTES))
            state, step = content["state"], content["step"]
            if type(state) is not str or type(step) is not int or not 0 <= step < 2**63:
                raise ValueError("no state or no step")
            return Status(state, step, os.fstat(file.fileno()).st_mtime)
    except (FileNotFoundError, NotADirectoryError):
        return Status("absent", 0)
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return Status("damaged", 0)
