"""Checksums: JSON that ends with its own, and the manifest of a finished run, which holds those of its files."""

import hashlib
import io
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from eva.files import Folder, read_file

MANIFEST = "manifest.json"
FORMAT = 1
_BLOCK_BYTES = 1 << 20
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # no path separators, no hidden files


@dataclass(frozen=True)
class FileEntry:
    """Size and SHA-256 of a file."""

    bytes: int
    sha256: str

    @staticmethod
    def of(file: IO[Any]) -> "FileEntry":
        """Return the entry of an open file."""
        size, digest = 0, hashlib.sha256()
        while block := file.read(_BLOCK_BYTES):
            size += len(block)
            digest.update(block)
        return FileEntry(size, digest.hexdigest())

    @staticmethod
    def parse(name: str, fields: Any) -> "FileEntry":
        """Parse an entry; raises ValueError, KeyError or TypeError if it is invalid."""
        parse_file_name(name)
        return FileEntry(parse_size(fields["bytes"]), str(fields["sha256"]))

    def check(self, file: IO[Any]) -> None:
        """Raise ValueError unless this is the entry of `file`, which is read from its start and rewound."""
        size = file.seek(0, io.SEEK_END)
        if size != self.bytes:
            raise ValueError(f"{size} bytes instead of {self.bytes}")
        file.seek(0)
        if FileEntry.of(file).sha256 != self.sha256:
            raise ValueError("its checksum does not match")
        file.seek(0)


def parse_file_name(value: Any) -> str:
    """Return the name of a file in the same folder; raises ValueError for anything else."""
    if type(value) is not str or not _FILE_NAME.fullmatch(value):
        raise ValueError(f"{str(value)[:100]!r} is no name for a file")
    return value


def parse_size(value: Any) -> int:
    """Return an integer from 0 to 2**63 - 1; raises ValueError for anything else."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{str(value)[:20]!r} is no size")
    return value


def parse_names(value: Any) -> dict[str, Any]:
    """Return a JSON object; raises ValueError for anything else."""
    if type(value) is not dict:
        raise ValueError("expected a JSON object")
    return value


def sealed(text: bytes) -> bytes:
    """Return a JSON object with a last field, the SHA-256 of all bytes before it."""
    body = text[:-1]
    return body + _seal(body)


def unsealed(text: bytes) -> Any:
    """Parse the output of `sealed`; raises ValueError before parsing if the checksum is wrong."""
    body = text[: -len(_seal(b""))]
    if text != body + _seal(body):
        raise ValueError("its checksum does not match")
    return json.loads(text)


def unsealed_if_sealed(text: bytes) -> Any:
    """Parse JSON, after verifying its checksum if it has one: files of older versions have none."""
    return unsealed(text) if b'"sha256"' in text else json.loads(text)


def _seal(body: bytes) -> bytes:
    return f', "sha256": "{hashlib.sha256(body).hexdigest()}"}}\n'.encode()


def write_manifest(run: Folder, names: Iterable[str]) -> None:
    """Write the manifest of those files that exist."""
    entries = {}
    for name in filter(run.has, names):
        with run.open(name) as file:
            entries[name] = asdict(FileEntry.of(file))
    run.write_whole(MANIFEST, sealed(json.dumps({"format": FORMAT, "files": entries}).encode()))


def read_manifest(directory: Path) -> dict[str, FileEntry]:
    """Return the entries of a run's files, none if there is no manifest; raises OSError or ValueError if damaged."""
    try:
        content = parse_names(unsealed(read_file(directory / MANIFEST)))
    except FileNotFoundError:
        return {}
    if content.get("format") != FORMAT:
        raise ValueError(f"there is no format {content.get('format')!s:.20}")
    return {name: FileEntry.parse(name, fields) for name, fields in parse_names(content.get("files")).items()}
