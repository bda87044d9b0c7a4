"""Files that a reader never meets half of, and files that may be compressed."""

from __future__ import annotations

import fcntl
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from eva.errors import UserError

WRITING = ("write", "choose another place or make room")
READING = ("read", "restore it or choose another")


@contextmanager
def refusing_kindly(path: Path, what: tuple[str, str] = WRITING) -> Iterator[None]:
    """Turn what the system says about `path` (no permission, full disk) into a UserError."""
    doing, remedy = what
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot {doing} {path} ({reason}): {remedy}.") from error


def locked(path: Path) -> IO[str] | None:
    """Return an open file that this process alone holds until it is closed, or None where another holds it."""
    with refusing_kindly(path):
        file = path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system drops it when the process dies
        except BlockingIOError:
            file.close()
            return None
        except OSError:
            file.close()
            raise
    return file


DRAFT = re.compile(r"\.[\w-]+\.(json|safetensors)\.\d+")
"""The name of what `drafting` leaves of a run's records if it is killed."""


@contextmanager
def drafting(path: Path) -> Iterator[Path]:
    """Let a file be written whole or not at all: to a draft beside it, which then takes its name."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with refusing_kindly(path):
        try:
            yield draft
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with drafting(path) as draft:
        draft.write_bytes(content)


def packed(path: Path) -> Path:
    """Return where the compressed form of a file lies: beside it, with the suffix `.gz`."""
    return path.with_name(f"{path.name}.gz")


def read_either(path: Path) -> bytes:
    """Return the content of a file, from its compressed form where there is one; OSError if neither can be read."""
    if not packed(path).exists():
        return path.read_bytes()
    try:
        return gzip.decompress(packed(path).read_bytes())
    except (EOFError, zlib.error) as error:
        raise OSError(f"{packed(path)} is damaged") from error


def write_packed(path: Path, content: bytes) -> None:
    """Write the compressed form of a file: the same bytes for the same content."""
    write_whole(packed(path), gzip.compress(content, mtime=0))
