"""Atomic writes, lock files, gzip-compressed files, TOML."""

import fcntl
import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from eva.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WRITING = ("write", "choose another place or free disk space")
READING = ("read", "restore it or choose another")


@contextmanager
def as_user_errors(path: Path, what: tuple[str, str] = WRITING) -> Iterator[None]:
    """Turn an OSError about `path` (no permission, full disk) into a UserError."""
    doing, remedy = what
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot {doing} {path} ({reason}): {remedy}.") from error


def locked(path: Path) -> IO[str] | None:
    """Lock a file until it is closed; returns None if another process has locked it."""
    with as_user_errors(path):
        file = path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the OS when the process dies
        except BlockingIOError:
            file.close()
            return None
        except OSError:
            file.close()
            raise
    return file


DRAFT = re.compile(r"\.[\w-]+\.(json|safetensors)\.\d+")
"""Names of the temporary files that a killed `drafting` leaves in a run directory."""


@contextmanager
def drafting(path: Path) -> Iterator[Path]:
    """Write a file atomically: yields a temporary path beside it, which is renamed at the end."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with as_user_errors(path):
        try:
            yield draft
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with drafting(path) as draft:
        draft.write_bytes(content)


def packed(path: Path) -> Path:
    """Return the path of the compressed file: the same name with the suffix `.gz`."""
    return path.with_name(f"{path.name}.gz")


def exists_either(path: Path) -> bool:
    """Return whether a file or its .gz file exists."""
    return path.exists() or packed(path).exists()


def read_either(path: Path) -> bytes:
    """Return the content of a file, or of its .gz file if that exists; raises OSError if it cannot be read."""
    if not packed(path).exists():
        return path.read_bytes()
    try:
        return gzip.decompress(packed(path).read_bytes())
    except (EOFError, zlib.error) as error:
        raise OSError(f"{packed(path)} is damaged") from error


def write_packed(path: Path, content: bytes) -> None:
    """Write the .gz file of `path`; the same content gives the same bytes."""
    write_whole(packed(path), gzip.compress(content, mtime=0))


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML file; raises ValueError if it is invalid."""
    content: dict[str, Any] = tomllib.loads(text)
    return content
