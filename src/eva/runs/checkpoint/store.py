"""Checkpoints: a run's whole state in a directory that is either what was written or refused.

The files of such a directory; nothing in them is ever executed:

    manifest.json       format, step and identity; of each file its size and SHA-256; of each array its type, shape and
                        file, and the sizes of its chunks where the file is its own. The last field is the SHA-256 of
                        all bytes before it: every format keeps this seal.
    plain.json          what is no array
    arrays.safetensors  the small arrays
    array-000.zst ...   a large array each: zstd frames of CHUNK_BYTES of its memory, little-endian, in C order

The same state gives the same bytes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from eva.errors import UserError
from eva.files import READING, refusing_kindly
from eva.runs.checkpoint.format import ArrayEntry, DamagedError, FileEntry, parse_names, refusing_damage
from eva.runs.checkpoint import format as chunks

FORMAT = 1
MAX_BYTES = 64 << 30  # of memory that a checkpoint may ask for
_LARGE_BYTES = 1 << 20  # an array of more has a file of its own
_MANIFEST, _PLAIN, _SMALL = "manifest.json", "plain.json", "arrays.safetensors"
_STEP_NAME = re.compile(r"step-(\d{12,})(\.old)?")
_ARRAY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_DRAFT = ".draft-"


@dataclass(frozen=True)
class Checkpoint:
    """A run's state after `step` transitions.

    `identity` tells which run it is. It and `plain` hold None, bool, int, float, str, list, and dict with str keys.
    """

    step: int
    identity: dict[str, Any]
    plain: dict[str, Any]
    arrays: dict[str, NDArray[Any]]  # bool, integers, floats; names such as "replay/rewards"


@dataclass(frozen=True)
class Loaded:
    """The newest good checkpoint, None where there is none at all, and a sentence for each damaged one passed over."""

    checkpoint: Checkpoint | None
    warnings: tuple[str, ...]


class CheckpointStore:
    """The checkpoints of one run; one process at a time saves there.

    At every moment of saving, whatever was good before is still good or its successor is in place.

    Args:
        directory: Where they lie; it need not exist.
        keep: How many to keep.
        max_bytes: The most memory that one may ask for when it is read.
    """

    def __init__(self, directory: Path, keep: int = 2, max_bytes: int = MAX_BYTES) -> None:
        if keep < 1:
            raise ValueError("keep at least one checkpoint")
        self.directory = directory
        self._keep = keep
        self._max_bytes = max_bytes

    def save(self, checkpoint: Checkpoint) -> Path:
        """Save a checkpoint, then remove older ones beyond `keep` and later ones, which a run that went back left."""
        path = self._save_as(f"step-{checkpoint.step:012d}", checkpoint)
        with refusing_kindly(path):
            found = self._found()
            later = [other for step, other in found if step > checkpoint.step]
            for other in later + [other for _, other in found[len(later) + self._keep :]]:
                self._remove(other)
        return path

    def save_apart(self, checkpoint: Checkpoint, reason: str) -> Path:
        """Save a checkpoint as REASON-step-STEP, which `load_newest` passes over and nothing removes."""
        return self._save_as(f"{reason}-step-{checkpoint.step:012d}", checkpoint)

    def load_newest(self, identity: Mapping[str, Any]) -> Loaded:
        """Load the newest good checkpoint; UserError where there are some and none is good."""
        damaged: list[DamagedError] = []
        for _, path in self._found():
            outcome = self._attempt(path, identity)
            if isinstance(outcome, Checkpoint):
                return Loaded(outcome, tuple(f"{error.finding}: going back to {path}." for error in damaged))
            damaged.append(outcome)
        if damaged:
            raise UserError(
                f"{damaged[0].finding} and no older checkpoint is good: pass --restart to start over, which discards "
                "the run's records, or restore the file from a backup."
            ) from damaged[0]
        return Loaded(None, ())

    def clear(self) -> None:
        """Remove all checkpoints but those saved apart: what begins anew must not go on from them."""
        with refusing_kindly(self.directory):
            self._sweep()
            for _, path in self._found():
                self._remove(path)

    def _attempt(self, path: Path, identity: Mapping[str, Any]) -> Checkpoint | DamagedError:
        try:
            return load(path, identity, self._max_bytes)
        except DamagedError as error:
            return error

    def _found(self) -> list[tuple[int, Path]]:
        """Return step and path of what may be a checkpoint, newest first."""
        with refusing_kindly(self.directory, READING):
            paths = list(self.directory.iterdir()) if os.path.lexists(self.directory) else []
        matches = [(_STEP_NAME.fullmatch(path.name), path) for path in paths]
        found = [(int(match[1]), match[2] is None, path) for match, path in matches if match]
        return [(step, path) for step, _, path in sorted(found, reverse=True)]

    def _save_as(self, name: str, checkpoint: Checkpoint) -> Path:
        """Write a draft, and give it its name when all of it is on the disk."""
        path, draft = self.directory / name, self.directory / f"{_DRAFT}{name}"
        size = sum(array.nbytes for array in checkpoint.arrays.values())
        if size > self._max_bytes:
            raise UserError(
                f"a checkpoint of {size / 1e9:.1f} GB could not be read again, which is for up to "
                f"{self._max_bytes / 1e9:.1f}: lower replay.replay_capacity."
            )
        with refusing_kindly(path):
            self.directory.mkdir(parents=True, exist_ok=True)
            self._sweep()
            try:
                draft.mkdir()
                _write(draft, checkpoint)
                old = self.directory / f"{name}.old"  # good for loading until its successor is there
                if os.path.lexists(path):
                    self._remove(old)
                    path.rename(old)
                draft.rename(path)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            chunks.sync_directory(self.directory)
            self._remove(old)
        return path

    def _remove(self, path: Path) -> None:
        """Remove a checkpoint: half of it never bears its name."""
        if os.path.lexists(path):
            chunks.delete(path.rename(self.directory / f"{_DRAFT}{path.name}"))

    def _sweep(self) -> None:
        """Remove what writers that died have left."""
        for path in self.directory.glob(f"{_DRAFT}*"):
            chunks.delete(path)


def load(path: Path, identity: Mapping[str, Any], max_bytes: int = MAX_BYTES) -> Checkpoint:
    """Load the checkpoint in the directory `path`; UserError if it is damaged, newer than this code or of another run.

    Its arrays take no more than `max_bytes` of memory, whatever it claims.
    """
    with refusing_damage(path / _MANIFEST):
        manifest = _read_manifest(path / _MANIFEST)
        _refuse_foreign(path, manifest["identity"], identity)
        files = {name: FileEntry.parse(name, fields) for name, fields in parse_names(manifest["files"]).items()}
        entries = {name: ArrayEntry.parse(name, fields) for name, fields in parse_names(manifest["arrays"]).items()}
        if (claimed := sum(entry.bytes for entry in entries.values())) > max_bytes:
            raise ValueError(f"it claims {claimed} bytes of arrays, more than {max_bytes}")
        step = chunks.parse_size(manifest["step"])
    with refusing_damage(path / _PLAIN):
        plain = parse_names(json.loads(chunks.read_checked(path / _PLAIN, files[_PLAIN], chunks.JSON_BYTES)))
    with refusing_damage(path / _SMALL):
        arrays = _read_small(path / _SMALL, files[_SMALL], entries)
    for name, entry in entries.items():
        with refusing_damage(path / entry.file):
            if entry.chunks is not None:
                arrays[name] = chunks.read_compressed(path / entry.file, files[entry.file], entry)
    return Checkpoint(step, manifest["identity"], plain, {name: arrays[name] for name in entries})


def _read_manifest(path: Path) -> dict[str, Any]:
    """Return a manifest that has its seal and is of this format."""
    with chunks.open_regular(path) as (file, size):
        manifest = parse_names(chunks.unsealed(file.read(min(size, 2 * chunks.JSON_BYTES))))
    if (number := chunks.parse_size(manifest["format"])) > FORMAT:
        raise UserError(f"{path} was written by a newer eva (format {number}): upgrade eva.")
    if number != FORMAT:
        raise ValueError(f"there is no format {number}")
    return manifest


def _read_small(path: Path, file: FileEntry, entries: Mapping[str, ArrayEntry]) -> dict[str, NDArray[Any]]:
    """Return the arrays that share a file: those without chunks."""
    small = {name: entry for name, entry in entries.items() if entry.chunks is None}
    limit = sum(entry.bytes for entry in small.values()) + chunks.JSON_BYTES
    found = safetensors.load(chunks.read_checked(path, file, limit))
    for name, entry in small.items():
        if (found[name].dtype.name, list(found[name].shape)) != (entry.dtype, entry.shape):
            raise ValueError(f"{name!r} has another type or shape than the manifest says")
    return {name: np.array(found[name]) for name in small}


def _refuse_foreign(path: Path, there: Any, here: Any, name: str = "") -> None:
    """Refuse the checkpoint of another run, and name the first field that differs."""
    if isinstance(there, dict) and isinstance(here, Mapping):
        for key in sorted(there.keys() | here.keys()):
            _refuse_foreign(path, there.get(key), here.get(key), f"{name}.{key}" if name else key)
    elif there != here:
        differing = f"{name or 'identity'} is {there!s:.80} there, {here!s:.80} here"
        raise UserError(f"{path} is of another run ({differing}): choose another directory.")


def _write(directory: Path, checkpoint: Checkpoint) -> None:
    """Write the files of a checkpoint into an empty directory and see them to the disk."""
    files: dict[str, FileEntry] = {}
    entries: dict[str, ArrayEntry] = {}
    small: dict[str, NDArray[Any]] = {}
    for number, (name, given) in enumerate(checkpoint.arrays.items()):
        if not _ARRAY_NAME.fullmatch(name) or given.dtype not in chunks.DTYPES.values():
            raise ValueError(f"an array {name!r} of {given.dtype} has no place in a checkpoint")
        array, file, sizes = np.asarray(given, order="C"), _SMALL, None
        if array.nbytes > _LARGE_BYTES:
            file = f"array-{number:03d}.zst"
            files[file], sizes = chunks.write_pieces(directory / file, chunks.compressed(array))
        else:
            small[name] = array
        entries[name] = ArrayEntry(array.dtype.name, list(array.shape), array.nbytes, file, sizes)
    files[_SMALL], _ = chunks.write_pieces(directory / _SMALL, [safetensors.save(small)])
    files[_PLAIN], _ = chunks.write_pieces(directory / _PLAIN, [chunks.plain_json(checkpoint.plain)])
    manifest = {
        "format": FORMAT,
        "step": chunks.parse_size(checkpoint.step),
        "identity": checkpoint.identity,
        "files": {name: asdict(file) for name, file in files.items()},
        "arrays": {name: asdict(entry) for name, entry in entries.items()},
    }
    chunks.write_pieces(directory / _MANIFEST, [chunks.sealed(manifest)])
    chunks.sync_directory(directory)
