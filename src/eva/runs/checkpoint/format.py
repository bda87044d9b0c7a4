"""Files of a checkpoint: synced to disk when written, verified when read; large arrays are compressed in chunks."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import zstandard
from numpy.typing import NDArray
from safetensors import SafetensorError

from eva.digests import FileEntry, parse_file_name, parse_size
from eva.errors import UserError
from eva.files import Folder

CHUNK_BYTES = 2 << 20  # uncompressed size of a chunk; part of the format
JSON_BYTES = 16 << 20  # larger JSON files are rejected
DTYPES = {np.dtype(code).name: np.dtype(code) for code in "?bhiqBHIQefd"}  # bool, integers, floats
_MAX_AXES = 32


class DamagedError(UserError):
    """A file is damaged; `finding` is the message without the advice."""

    def __init__(self, path: Path, reason: str) -> None:
        self.finding = f"{path} is damaged ({reason})"
        super().__init__(f"{self.finding}: restore it from a backup or remove {path.parent}.")


@contextmanager
def read_errors_as_damage(path: Path) -> Iterator[None]:
    """Turn every error of reading `path` into a UserError, or a DamagedError if the content is wrong."""
    try:
        yield
    except PermissionError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): change its permissions.") from error
    except MemoryError as error:
        raise UserError(f"cannot read {path} (out of memory): free memory or use a larger machine.") from error
    except RecursionError as error:
        raise DamagedError(path, "nested too deeply") from error
    except OSError as error:
        raise DamagedError(path, error.strerror or str(error)) from error
    except KeyError as error:
        raise DamagedError(path, f"{error} is missing") from error
    except (ValueError, TypeError, OverflowError, SafetensorError) as error:
        raise DamagedError(path, str(error)) from error


@dataclass(frozen=True)
class ArrayEntry:
    """Manifest entry of an array; `chunks` holds compressed sizes, or None if it is in arrays.safetensors."""

    dtype: str
    shape: list[int]
    bytes: int
    file: str
    chunks: list[int] | None

    @staticmethod
    def parse(name: str, fields: Any) -> "ArrayEntry":
        """Parse an entry; raises ValueError, KeyError or TypeError if it is invalid or inconsistent."""
        dtype, size = str(fields["dtype"]), parse_size(fields["bytes"])
        shape = list(map(parse_size, fields["shape"]))
        chunks = None if fields["chunks"] is None else list(map(parse_size, fields["chunks"]))
        if dtype not in DTYPES or len(shape) > _MAX_AXES or size != math.prod(shape) * DTYPES[dtype].itemsize:
            raise ValueError(f"type, shape and size of {name[:100]!r} do not agree")
        if chunks is not None and (len(chunks) != -(-size // CHUNK_BYTES) or max(chunks, default=0) > 2 * CHUNK_BYTES):
            raise ValueError(f"size and chunks of {name[:100]!r} do not agree")
        return ArrayEntry(dtype, shape, size, parse_file_name(fields["file"]), chunks)


def plain_json(value: Any) -> bytes:
    """Return `value` as JSON; raises ValueError if it would not be read back unchanged."""
    _check_plain(value)
    text = json.dumps(value).encode()
    if len(text) > JSON_BYTES:
        raise ValueError(f"{len(text)} bytes of JSON are too many: store arrays instead")
    return text


def _check_plain(value: Any) -> None:
    if type(value) is dict and all(type(name) is str for name in value):
        value = list(value.values())
    if type(value) is list:
        for item in value:
            _check_plain(item)
    elif value is not None and type(value) not in (bool, int, float, str):
        raise ValueError(f"{value!r} is not plain: use None, bool, int, float, str, list, dict with str keys")


def write_pieces(folder: Folder, name: str, pieces: Iterable[bytes]) -> tuple[FileEntry, list[int]]:
    """Write a new file and sync it to disk; returns its manifest entry and the sizes of the pieces."""
    sizes = []
    digest = hashlib.sha256()
    with folder.open(name, "xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            sizes.append(len(piece))
        file.flush()
        os.fsync(file.fileno())
    return FileEntry(sum(sizes), digest.hexdigest()), sizes


@contextmanager
def open_checked(folder: Folder, name: str, entry: FileEntry) -> Iterator[IO[bytes]]:
    """Open a file for reading after verifying its size and checksum."""
    with folder.open(name) as file:
        entry.check(file)
        yield file


def read_checked(folder: Folder, name: str, entry: FileEntry, limit: int) -> bytes:
    """Return the content of a file after verifying its size, which may be at most `limit`, and its checksum."""
    if entry.bytes > limit:
        raise ValueError(f"it claims {entry.bytes} bytes, more than {limit}")
    with open_checked(folder, name, entry) as file:
        return file.read(entry.bytes)


def compressed(*parts: NDArray[Any]) -> Iterator[bytes]:
    """Yield the concatenation of contiguous arrays as zstd frames of CHUNK_BYTES uncompressed bytes each.

    The last frame may be shorter.
    """
    level = 1 if parts[0].dtype.kind == "f" else 3  # level 3 does not make floats smaller
    compressor = zstandard.ZstdCompressor(level=level)
    chunk = bytearray()
    for memory in map(_memory, parts):
        start = 0
        while start < len(memory):
            end = start + CHUNK_BYTES - len(chunk)
            chunk += memory[start:end]
            start = end
            if len(chunk) == CHUNK_BYTES:
                yield compressor.compress(chunk)
                chunk.clear()
    if chunk:
        yield compressor.compress(chunk)


def read_compressed(folder: Folder, file: FileEntry, entry: ArrayEntry) -> NDArray[Any]:
    """Return the array in its file after verifying size and checksum."""
    if sum(entry.chunks or ()) != file.bytes:
        raise ValueError(f"its chunks do not add up to {file.bytes} bytes")
    with open_checked(folder, entry.file, file) as stream:
        return decompressed(entry, stream.read)


def decompressed(entry: ArrayEntry, read: Callable[[int], bytes]) -> NDArray[Any]:
    """Return an array from its zstd frames; `read` returns the next bytes. Raises ValueError if they are damaged.

    A frame that declares a wrong uncompressed size is rejected before it is decompressed.
    """
    decompressor = zstandard.ZstdDecompressor()
    array = np.empty(entry.shape, DTYPES[entry.dtype])
    memory = _memory(array)
    for number, size in enumerate(entry.chunks or ()):
        frame = read(size)
        target = memory[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]
        try:
            if zstandard.frame_content_size(frame) != len(target):
                raise ValueError(f"chunk {number} claims a size other than {len(target)} bytes")
            target[:] = decompressor.decompress(frame, max_output_size=len(target), allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
    return array


def _memory(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array in C order, without a copy."""
    return array.reshape(-1).view(np.uint8).data
