"""Checkpoints: the whole state of a run in a directory, verified by checksums.

Files of a checkpoint; none of their content is ever executed:

    manifest.json       format, step and identity; size and SHA-256 of each file; type, shape, file and chunk sizes of
                        each array. The last field, in every format, is the SHA-256 of all bytes before it.
    plain.json          everything that is not an array
    arrays.safetensors  small arrays
    array-000.zst ...   one large array each: zstd frames of CHUNK_BYTES uncompressed bytes, little-endian, C order

The same state gives the same bytes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from eva.digests import FileEntry, parse_names, parse_size, sealed, unsealed
from eva.errors import UserError
from eva.files import READING, Folder, as_user_errors, open_folder
from eva.runs.checkpoint import format as fmt
from eva.runs.checkpoint.format import ArrayEntry, DamagedError, read_errors_as_damage

FORMAT = 1
MAX_BYTES = 64 << 30  # limit for the arrays of a checkpoint
_MOST_SCANS = 100  # of a directory that changes while it is read
_LARGE_BYTES = 1 << 20  # larger arrays get their own file
_MANIFEST, _PLAIN, _SMALL = "manifest.json", "plain.json", "arrays.safetensors"
_STEP_NAME = re.compile(r"step-(\d{12,})(\.old)?")
_ARRAY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_DRAFT = ".draft-"


@dataclass(frozen=True)
class Checkpoint:
    """A run's state after `step` transitions.

    `identity` identifies the run. It and `plain` hold None, bool, int, float, str, list, and dict with str keys.
    """

    step: int
    identity: dict[str, Any]
    plain: dict[str, Any]
    arrays: dict[str, NDArray[Any]]  # bool, integers, floats; names such as "replay/rewards"


class CheckpointStore:
    """The checkpoints of one run; only one process may save at a time.

    A crash at any moment of saving leaves the previous checkpoint or the new one complete.
    """

    def __init__(self, directory: Path, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError("keep at least one checkpoint")
        self.directory = directory
        self._keep = keep

    def save(self, checkpoint: Checkpoint) -> Path:
        """Save a checkpoint; then remove all but the newest `keep`, and any of a later step."""
        path = self._save_as(f"step-{checkpoint.step:012d}", checkpoint)
        with as_user_errors(path), open_folder(self.directory) as folder:
            found = _found(folder)
            later = [other for step, other in found if step > checkpoint.step]
            for other in later + [other for _, other in found[len(later) + self._keep :]]:
                _remove(folder, other)
        return path

    def save_diverged(self, checkpoint: Checkpoint) -> Path:
        """Save a checkpoint as diverged-step-STEP, which is never loaded by `load_newest` and never removed."""
        return self._save_as(f"diverged-step-{checkpoint.step:012d}", checkpoint)

    def load_newest(self, identity: Mapping[str, Any]) -> tuple[Checkpoint | None, list[str]]:
        """Return the newest good checkpoint, or None if there is none, and a warning for each damaged one skipped.

        It may be called while another process saves: checkpoints that it removes or replaces meanwhile are not damaged.

        Raises UserError if all are damaged.
        """
        for _ in range(_MOST_SCANS):
            damaged: list[DamagedError] = []
            is_changed = False
            with as_user_errors(self.directory, READING):
                for folder, name in self._each():
                    before = folder.inode(name)
                    try:
                        checkpoint = _load(folder, name, identity)
                    except DamagedError as error:
                        if before is None or folder.inode(name) != before:
                            is_changed = True
                        else:
                            damaged.append(error)
                        continue
                    return checkpoint, [f"{error.finding}: going back to {folder.path / name}." for error in damaged]
            if not is_changed:
                break
        if damaged:
            raise UserError(
                f"{damaged[0].finding} and no older checkpoint is good: pass --restart to start over, which discards "
                "the run's records, or restore the file from a backup."
            ) from damaged[0]
        return None, []

    def clear(self) -> None:
        """Remove all checkpoints except those of `save_diverged`."""
        with as_user_errors(self.directory):
            for folder, name in self._each():
                _remove(folder, name)

    def _each(self) -> Iterator[tuple[Folder, str]]:
        """Yield the open folder and the name of each checkpoint, newest first."""
        try:
            folder = open_folder(self.directory)
        except FileNotFoundError:
            return
        with folder:
            for _, name in _found(folder):
                yield folder, name

    def _save_as(self, name: str, checkpoint: Checkpoint) -> Path:
        """Write to a draft directory and rename it once everything is on disk."""
        path, draft, old = self.directory / name, f"{_DRAFT}{name}", f"{name}.old"
        size = sum(array.nbytes for array in checkpoint.arrays.values())
        if size > MAX_BYTES:
            raise UserError(
                f"a checkpoint of {size / 1e9:.1f} GB is too large to be read again (limit: {MAX_BYTES / 1e9:.1f} GB): "
                "lower replay.replay_capacity."
            )
        with as_user_errors(path), open_folder(self.directory, create=True) as folder:
            _remove_drafts(folder)
            try:
                with folder.folder(draft, create=True) as inner:
                    _write(inner, checkpoint)
                if folder.has(name):
                    _remove(folder, old)
                    folder.rename(name, old)  # can be loaded until the new one is in place
                folder.rename(draft, name)
            except BaseException:
                with suppress(OSError):
                    folder.remove(draft)
                raise
            folder.sync()
            _remove(folder, old)
        return path


def _found(folder: Folder) -> list[tuple[int, str]]:
    """Return step and name of all checkpoints, newest first, without reading them."""
    matches = [(_STEP_NAME.fullmatch(name), name) for name in folder.names()]
    found = [(int(match[1]), match[2] is None, name) for match, name in matches if match]
    return [(step, name) for step, _, name in sorted(found, reverse=True)]


def _remove(folder: Folder, name: str) -> None:
    """Remove a checkpoint; it is renamed first, so that a crash leaves no partial checkpoint."""
    if folder.has(name):
        folder.remove(f"{_DRAFT}{name}")  # of a killed process
        folder.rename(name, f"{_DRAFT}{name}")
        folder.remove(f"{_DRAFT}{name}")


def _remove_drafts(folder: Folder) -> None:
    """Remove drafts of killed processes."""
    for name in folder.names():
        if name.startswith(_DRAFT):
            folder.remove(name)


def load(path: Path, identity: Mapping[str, Any]) -> Checkpoint:
    """Load the checkpoint in `path`; raises UserError if it is damaged, of a newer format or of another run.

    Its arrays take at most `MAX_BYTES` of memory, whatever the manifest claims.
    """
    with as_user_errors(path, READING), open_folder(path.parent) as folder:
        return _load(folder, path.name, identity)


def _load(parent: Folder, name: str, identity: Mapping[str, Any]) -> Checkpoint:
    path = parent.path / name
    with read_errors_as_damage(path / _MANIFEST):
        folder = parent.folder(name)
    with folder:
        with read_errors_as_damage(path / _MANIFEST):
            manifest = _read_manifest(folder)
            _check_identity(path, manifest["identity"], identity)
            files = {name: FileEntry.parse(name, fields) for name, fields in parse_names(manifest["files"]).items()}
            entries = {name: ArrayEntry.parse(name, fields) for name, fields in parse_names(manifest["arrays"]).items()}
            if (claimed := sum(entry.bytes for entry in entries.values())) > MAX_BYTES:
                raise ValueError(f"it claims {claimed} bytes of arrays, more than {MAX_BYTES}")
            step = parse_size(manifest["step"])
        with read_errors_as_damage(path / _PLAIN):
            plain = parse_names(json.loads(fmt.read_checked(folder, _PLAIN, files[_PLAIN], fmt.JSON_BYTES)))
        with read_errors_as_damage(path / _SMALL):
            arrays = _read_small(folder, files[_SMALL], entries)
        for name, entry in entries.items():
            with read_errors_as_damage(path / entry.file):
                if entry.chunks is not None:
                    arrays[name] = fmt.read_compressed(folder, files[entry.file], entry)
    return Checkpoint(step, manifest["identity"], plain, {name: arrays[name] for name in entries})


def _read_manifest(folder: Folder) -> dict[str, Any]:
    """Return the manifest after verifying its checksum and format."""
    manifest = parse_names(unsealed(folder.read(_MANIFEST)))
    if (number := parse_size(manifest["format"])) > FORMAT:
        raise UserError(f"{folder.path / _MANIFEST} was written by a newer eva (format {number}): upgrade eva.")
    if number != FORMAT:
        raise ValueError(f"there is no format {number}")
    return manifest


def _read_small(folder: Folder, file: FileEntry, entries: Mapping[str, ArrayEntry]) -> dict[str, NDArray[Any]]:
    """Return the arrays of arrays.safetensors: those without chunks."""
    small = {name: entry for name, entry in entries.items() if entry.chunks is None}
    limit = sum(entry.bytes for entry in small.values()) + fmt.JSON_BYTES
    found = safetensors.load(fmt.read_checked(folder, _SMALL, file, limit))
    for name, entry in small.items():
        if (found[name].dtype.name, list(found[name].shape)) != (entry.dtype, entry.shape):
            raise ValueError(f"{name!r} differs in type or shape from the manifest")
    return {name: np.array(found[name]) for name in small}


def _check_identity(path: Path, there: Any, here: Any, name: str = "") -> None:
    """Raise UserError if the checkpoint is of another run; the message names the first field that differs."""
    if isinstance(there, dict) and isinstance(here, Mapping):
        for key in sorted(there.keys() | here.keys()):
            _check_identity(path, there.get(key), here.get(key), f"{name}.{key}" if name else key)
    elif there != here:
        differing = f"{name or 'identity'} is {there!s:.80} there, {here!s:.80} here"
        raise UserError(f"{path} is of another run ({differing}): choose another directory.")


def _write(folder: Folder, checkpoint: Checkpoint) -> None:
    """Write the files of a checkpoint into an empty folder and sync them to disk."""
    files: dict[str, FileEntry] = {}
    entries: dict[str, ArrayEntry] = {}
    small: dict[str, NDArray[Any]] = {}
    for number, (name, given) in enumerate(checkpoint.arrays.items()):
        if not _ARRAY_NAME.fullmatch(name) or given.dtype not in fmt.DTYPES.values():
            raise ValueError(f"an array {name!r} of {given.dtype} has no place in a checkpoint")
        array, file, sizes = np.asarray(given, order="C"), _SMALL, None
        if array.nbytes > _LARGE_BYTES:
            file = f"array-{number:03d}.zst"
            files[file], sizes = fmt.write_pieces(folder, file, fmt.compressed(array))
        else:
            small[name] = array
        entries[name] = ArrayEntry(array.dtype.name, list(array.shape), array.nbytes, file, sizes)
    files[_SMALL], _ = fmt.write_pieces(folder, _SMALL, [safetensors.save(small)])
    files[_PLAIN], _ = fmt.write_pieces(folder, _PLAIN, [fmt.plain_json(checkpoint.plain)])
    manifest = {
        "format": FORMAT,
        "step": parse_size(checkpoint.step),
        "identity": checkpoint.identity,
        "files": {name: asdict(file) for name, file in files.items()},
        "arrays": {name: asdict(entry) for name, entry in entries.items()},
    }
    fmt.write_pieces(folder, _MANIFEST, [sealed(fmt.plain_json(manifest))])
    folder.sync()
