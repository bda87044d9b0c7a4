"""memory.safetensors: the places of a replay buffer that are in use, large arrays compressed.

A safetensors file. Rings are (E, places in use, ...). Those above 1 MiB are stored as bytes, zstd frames as in
checkpoints; the metadata, `eva`, states their type, shape and frames. All other arrays are stored as they are: frames
that are compressed in memory are not compressed again. Files of older versions have no metadata and hold whole rings.

The same memory gives the same bytes.
"""

import json
from dataclasses import asdict, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from eva.agent.memory.rings import Arrays, rings, used
from eva.digests import parse_names, parse_size
from eva.errors import UserError
from eva.files import Folder
from eva.runs.checkpoint.format import CHUNK_BYTES, ArrayEntry, compressed, decompressed
from eva.runs.checkpoint.state import pack
from eva.types import State

FORMAT = 1
_LARGE_BYTES = 1 << 20
_KINDS = {"b": "BOOL", "i": "I", "u": "U", "f": "F"}  # of dtypes, as safetensors names them


def write_memory(folder: Folder, name: str, memory: State) -> None:
    """Write the state of a replay buffer atomically, piece by piece: large arrays are not copied."""
    everything, _ = pack(memory)
    arrays = used(everything)
    large = {each for each in rings(everything) if arrays[each].nbytes > _LARGE_BYTES}
    order = sorted(arrays, key=lambda each: (each in large, -arrays[each].itemsize))  # keeps all of them aligned
    arrays = {each: arrays[each] for each in order}
    entries = {each: _entry(each, arrays) for each in arrays if each in large}
    sizes = {each: 2 * array.nbytes for each, array in arrays.items()}  # upper bounds, to reserve space for the header
    with folder.drafting(name) as draft, folder.open(draft, "xb") as file:
        reserved = len(_header(arrays, entries, sizes))
        file.seek(reserved)
        for each, array in arrays.items():
            if each in large:
                chunks = [file.write(frame) for frame in compressed(*array)]
                entries[each] = replace(entries[each], chunks=chunks)
                sizes[each] = sum(chunks)
            else:
                sizes[each] = file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        file.seek(0)
        file.write(_header(arrays, entries, sizes, reserved))


def _entry(name: str, arrays: Arrays) -> ArrayEntry:
    """Return the entry of an array whose frames are not known yet: their sizes are upper bounds."""
    array = arrays[name]
    chunks = [2 * CHUNK_BYTES] * -(-array.nbytes // CHUNK_BYTES)
    return ArrayEntry(array.dtype.name, list(array.shape), array.nbytes, name, chunks)


def _header(arrays: Arrays, entries: dict[str, ArrayEntry], sizes: dict[str, int], length: int = 0) -> bytes:
    """Return the beginning of the file, at least `length` bytes: a multiple of 8, so that arrays are aligned."""
    compressed_arrays = {name: asdict(entry) for name, entry in entries.items()}
    header: dict[str, Any] = {"__metadata__": {"eva": json.dumps({"format": FORMAT, "compressed": compressed_arrays})}}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + sizes[name]
        kind = _KINDS[array.dtype.kind] + str(8 * array.itemsize if array.dtype.kind != "b" else "")
        dtype, shape = ("U8", [sizes[name]]) if name in entries else (kind, list(array.shape))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode().ljust(length - 8)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def read_memory(path: Path, empty: Arrays) -> Arrays:
    """Return the arrays of a file; `empty` is the state of a new memory, whose sizes must not be exceeded.

    Raises ValueError, KeyError, TypeError or an error of zstandard or safetensors if the file is damaged.
    """
    with safe_open(path, framework="pt") as file:
        content = parse_names(json.loads((file.metadata() or {}).get("eva", "{}")))
        if parse_size(content.get("format", 0)) > FORMAT:
            raise UserError(f"{path} was written by a newer eva (format {content['format']}): upgrade eva.")
        entries = {
            name: ArrayEntry.parse(name, fields) for name, fields in parse_names(content.get("compressed", {})).items()
        }
        for name, entry in entries.items():
            _check_size(name, entry, empty)
        return {
            name: _decompressed(file.get_slice(name), entries[name])
            if name in entries
            else file.get_tensor(name).numpy()
            for name in file.keys()  # noqa: SIM118  (no mapping)
        }


def _check_size(name: str, entry: ArrayEntry, empty: Arrays) -> None:
    """Raise ValueError if an array is not a ring of the memory, or larger than that ring."""
    ring = rings(empty).get(name)
    if ring is None or entry.chunks is None:
        raise ValueError(f"{name[:100]!r} is no compressed array of this memory")
    num_lanes, num_places, *rest = ring.shape
    fits = len(entry.shape) == ring.ndim and entry.shape[0] == num_lanes and entry.shape[1] <= num_places
    if not fits or entry.shape[2:] != rest or entry.dtype != ring.dtype.name:
        raise ValueError(f"{name!r} has another type or size than the memory of its config.json")


def _decompressed(stored: Any, entry: ArrayEntry) -> NDArray[Any]:
    """Return the array whose frames are `stored`, bytes in the file that are read frame by frame."""
    assert entry.chunks is not None
    (size,) = stored.get_shape()
    if stored.get_dtype() != "U8" or size != sum(entry.chunks):
        raise ValueError(f"the frames of {entry.file!r} do not add up to its {size} bytes")
    ends = iter(accumulate(entry.chunks))

    def read(num: int) -> bytes:
        end = next(ends)
        part: bytes = stored[end - num : end].numpy().tobytes()
        return part

    return decompressed(entry, read)
