"""Writing files so that a reader never meets half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eva.errors import UserError


@contextmanager
def refusing_kindly(path: Path) -> Iterator[None]:
    """Turn what the system says about `path` (no permission, full disk) into a UserError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot write {path} ({reason}): choose another place or make room.") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: to a draft beside it, which then takes its name."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with refusing_kindly(path):
        try:
            draft.write_bytes(content)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
