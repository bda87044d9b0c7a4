"""The files of a checkpoint: written through to the disk, checked before they are read, large arrays in zstd chunks."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import zstandard
from numpy.typing import NDArray
from safetensors import SafetensorError

from eva.errors import UserError

CHUNK_BYTES = 2 << 20  # of an array's memory in one chunk: part of the format
JSON_BYTES = 16 << 20  # a JSON file of more is refused
DTYPES = {np.dtype(code).name: np.dtype(code) for code in "?bhiqBHIQefd"}  # bool, integers, floats
_BLOCK_BYTES = 1 << 20
_MAX_AXES = 32
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # nothing that leads out of the directory


class DamagedError(UserError):
    """A file that is not what was written; `finding` says so without advice."""

    def __init__(self, path: Path, reason: str) -> None:
        self.finding = f"{path} is damaged ({reason})"
        super().__init__(f"{self.finding}: restore it from a backup or remove {path.parent}.")


@contextmanager
def refusing_damage(path: Path) -> Iterator[None]:
    """Turn whatever reading `path` meets into a UserError: a DamagedError where the file is at fault."""
    try:
        yield
    except PermissionError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): give yourself the permission.") from error
    except MemoryError as error:
        raise UserError(f"cannot read {path} (out of memory): make room or choose a larger machine.") from error
    except RecursionError as error:
        raise DamagedError(path, "nested too deeply") from error
    except OSError as error:
        raise DamagedError(path, error.strerror or str(error)) from error
    except KeyError as error:
        raise DamagedError(path, f"{error} is missing") from error
    except (ValueError, TypeError, OverflowError, zstandard.ZstdError, SafetensorError) as error:
        raise DamagedError(path, str(error)) from error


@dataclass(frozen=True)
class FileEntry:
    """What the manifest says of a file."""

    bytes: int
    sha256: str

    @staticmethod
    def parse(name: str, fields: Any) -> FileEntry:
        """Read an entry, or raise ValueError, KeyError or TypeError."""
        _parse_file_name(name)
        return FileEntry(parse_size(fields["bytes"]), str(fields["sha256"]))


@dataclass(frozen=True)
class ArrayEntry:
    """What the manifest says of an array; `chunks` holds their sizes, or is None where the array shares its file."""

    dtype: str
    shape: list[int]
    bytes: int
    file: str
    chunks: list[int] | None

    @staticmethod
    def parse(name: str, fields: Any) -> ArrayEntry:
        """Read an entry whose numbers agree with each other, or raise ValueError, KeyError or TypeError."""
        dtype, size = str(fields["dtype"]), parse_size(fields["bytes"])
        shape = list(map(parse_size, fields["shape"]))
        chunks = None if fields["chunks"] is None else list(map(parse_size, fields["chunks"]))
        if dtype not in DTYPES or len(shape) > _MAX_AXES or size != math.prod(shape) * DTYPES[dtype].itemsize:
            raise ValueError(f"type, shape and size of {name[:100]!r} do not agree")
        if chunks is not None and (len(chunks) != -(-size // CHUNK_BYTES) or max(chunks, default=0) > 2 * CHUNK_BYTES):
            raise ValueError(f"size and chunks of {name[:100]!r} do not agree")
        return ArrayEntry(dtype, shape, size, _parse_file_name(fields["file"]), chunks)


def _parse_file_name(value: Any) -> str:
    if type(value) is not str or not _FILE_NAME.fullmatch(value):
        raise ValueError(f"{str(value)[:100]!r} is no name for a file of a checkpoint")
    return value


def parse_size(value: Any) -> int:
    """Return a whole number from 0 on, or raise ValueError."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{str(value)[:20]!r} is no size")
    return value


def parse_names(value: Any) -> dict[str, Any]:
    """Return a JSON object, or raise ValueError."""
    if type(value) is not dict:
        raise ValueError("a list or a value stands where names are expected")
    return value


def plain_json(value: Any) -> bytes:
    """Return JSON that gives `value` again; ValueError where it would not."""
    _refuse_unplain(value)
    text = json.dumps(value).encode()
    if len(text) > JSON_BYTES:
        raise ValueError(f"{len(text)} bytes of JSON are too many: store arrays instead")
    return text


def _refuse_unplain(value: Any) -> None:
    if type(value) is dict and all(type(name) is str for name in value):
        value = list(value.values())
    if type(value) is list:
        for item in value:
            _refuse_unplain(item)
    elif value is not None and type(value) not in (bool, int, float, str):
        raise ValueError(f"{value!r} is not plain: use None, bool, int, float, str, list, dict with str keys")


def sealed(content: Mapping[str, Any]) -> bytes:
    """Return JSON whose last field is the checksum of all bytes before it."""
    body = plain_json(content)[:-1]
    return body + _seal(body)


def unsealed(text: bytes) -> Any:
    """Return what was sealed; ValueError where a byte differs, before anything is made of them."""
    body = text[: -len(_seal(b""))]
    if text != body + _seal(body):
        raise ValueError("its checksum does not match")
    return json.loads(text)


def _seal(body: bytes) -> bytes:
    return f', "sha256": "{hashlib.sha256(body).hexdigest()}"}}\n'.encode()


def write_pieces(path: Path, pieces: Iterable[bytes]) -> tuple[FileEntry, list[int]]:
    """Write a new file and see it to the disk; returns its entry and the sizes of the pieces."""
    sizes = []
    digest = hashlib.sha256()
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            sizes.append(len(piece))
        file.flush()
        os.fsync(file.fileno())
    return FileEntry(sum(sizes), digest.hexdigest()), sizes


def sync_directory(path: Path) -> None:
    """See the names in a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete(path: Path) -> None:
    """Delete a directory, or whatever else bears the name."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file for reading, but no link, pipe or device; gives it and its size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would block for ever
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        yield file, status.st_size


@contextmanager
def open_checked(path: Path, entry: FileEntry) -> Iterator[BinaryIO]:
    """Open a file for reading once its size and checksum are found right."""
    with open_regular(path) as (file, size):
        if size != entry.bytes:
            raise ValueError(f"{size} bytes instead of {entry.bytes}")
        digest = hashlib.sha256()
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
        if digest.hexdigest() != entry.sha256:
            raise ValueError("its checksum does not match")
        file.seek(0)
        yield file


def read_checked(path: Path, entry: FileEntry, limit: int) -> bytes:
    """Return the content of a file of no more than `limit` bytes, if size and checksum are right."""
    if entry.bytes > limit:
        raise ValueError(f"it claims {entry.bytes} bytes, more than {limit}")
    with open_checked(path, entry) as file:
        return file.read(entry.bytes)


def compressed(array: NDArray[Any]) -> Iterator[bytes]:
    """Yield the chunks of an array in C order: zstd frames of CHUNK_BYTES of its memory each, the last of the rest."""
    compressor = zstandard.ZstdCompressor(level=1 if array.dtype.kind == "f" else 3)  # floats are no smaller at 3
    memory = _memory(array)
    for start in range(0, len(memory), CHUNK_BYTES):
        yield compressor.compress(memory[start : start + CHUNK_BYTES])


def read_compressed(path: Path, file: FileEntry, entry: ArrayEntry) -> NDArray[Any]:
    """Return the array whose chunks a file holds, if size and checksum are right.

    A frame that claims to hold anything but its share of the array is refused before it is decompressed.
    """
    if sum(entry.chunks or ()) != file.bytes:
        raise ValueError(f"its chunks do not add up to {file.bytes} bytes")
    decompressor = zstandard.ZstdDecompressor()
    with open_checked(path, file) as stream:
        array = np.empty(entry.shape, DTYPES[entry.dtype])
        memory = _memory(array)
        for number, size in enumerate(entry.chunks or ()):
            frame = stream.read(size)
            room = memory[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]
            if zstandard.frame_content_size(frame) != len(room):
                raise ValueError(f"chunk {number} claims another size than {len(room)} bytes")
            room[:] = decompressor.decompress(frame, max_output_size=len(room), allow_extra_data=False)
    return array


def _memory(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array in C order, without a copy."""
    return array.reshape(-1).view(np.uint8).data
