"""All access to the files of run directories: no link is followed, no pipe waited for; atomic writes, locks, TOML."""

import errno
import fcntl
import gzip
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from eva.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WRITING = ("write", "choose another place or free disk space")
READING = ("read", "restore it or choose another")
LOCKING = ("lock", "choose a place on a file system with locks, such as NFS version 4 (docs/scaling.md)")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_MOST_BYTES = 128 << 20  # of a record; a larger one is not read into memory
_MOST_LEVELS = 32  # of the folders that are deleted
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class NotOwnFileError(OSError):
    """Something else is in place of a regular file or folder of a run directory, such as a link, pipe or device."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}", str(path))


@contextmanager
def as_user_errors(path: Path, what: tuple[str, str] = WRITING) -> Iterator[None]:
    """Turn an OSError about `path` (no permission, full disk) into a UserError."""
    doing, remedy = what
    try:
        yield
    except NotOwnFileError as error:
        raise UserError(
            f"cannot {doing} {error.filename} ({error.strerror}): replace it with a copy of its content, or remove it."
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot {doing} {path} ({reason}): {remedy}.") from error


DRAFT = re.compile(r"\.[\w-]+\.(json|safetensors)\.\d+")
"""Names of the temporary files that a killed `Folder.drafting` leaves in a run directory."""


class Folder:
    """A directory, held by its descriptor. The directory itself may be reached through links.

    Inside, links are neither followed nor waited for: a link, pipe or device in place of a file or folder raises
    NotOwnFileError, and so does writing to a file that has a second name (a hard link). `name` is that of an entry.
    """

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        self.path = path
        self._descriptor = os.open(path, _FOLDER) if descriptor is None else descriptor

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    def names(self) -> list[str]:
        """Return the names of all entries."""
        return sorted(os.listdir(self._descriptor))  # noqa: PTH208  (a descriptor)

    def has(self, name: str) -> bool:
        """Return whether there is an entry, of whatever kind."""
        return self._mode(name) is not None

    def inode(self, name: str) -> int | None:
        """Return a number that another entry of the same name does not have, or None if there is none."""
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_ino
        except FileNotFoundError:
            return None

    def folder(self, name: str, *, create: bool = False) -> "Folder":
        """Open a folder inside, which `create` creates if it is missing."""
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._descriptor)
        return Folder(self.path / name, self._open(name, _FOLDER))

    def open(self, name: str, mode: str = "rb") -> IO[Any]:
        """Open a regular file; `mode` as for the built-in function."""

        def opener(name: str, flags: int) -> int:
            descriptor = self._open(name, flags & ~os.O_TRUNC)
            if flags & os.O_TRUNC:
                os.ftruncate(descriptor, 0)  # only now: it is a regular file of this directory
            return descriptor

        return open(name, mode, opener=opener)

    def read(self, name: str) -> bytes:
        """Return the content of a file; raises OSError if it is too large for a record."""
        with self.open(name) as file:
            size = os.fstat(file.fileno()).st_size
            _check_size(size)
            content: bytes = file.read(size)
        return content

    def remove(self, name: str, levels: int = _MOST_LEVELS) -> None:
        """Delete a file, a link (not its target) or a folder with its content, if there is one."""
        mode = self._mode(name)
        if mode is None:
            return
        if not stat.S_ISDIR(mode):
            os.unlink(name, dir_fd=self._descriptor)
            return
        if levels == 0:
            raise NotOwnFileError(self.path / name, f"a folder inside {_MOST_LEVELS} others")
        with self.folder(name) as inner:
            for each in inner.names():
                inner.remove(each, levels - 1)
        os.rmdir(name, dir_fd=self._descriptor)

    def rename(self, name: str, new_name: str) -> None:
        """Rename an entry; a file that has the new name is replaced."""
        os.replace(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    @contextmanager
    def drafting(self, name: str) -> Iterator[str]:
        """Write a file atomically: yields the name of a temporary file, which is renamed at the end."""
        draft = f".{name}.{os.getpid()}"
        self.remove(draft)
        try:
            yield draft
            self.rename(draft, name)
        finally:
            self.remove(draft)

    def write_whole(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        with self.drafting(name) as draft, self.open(draft, "xb") as file:
            file.write(content)

    def lock(self, name: str) -> IO[Any] | None:
        """Lock a file until it is closed; returns None if another process has locked it."""
        file = self.open(name, "ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the OS when the process dies
        except OSError as error:
            file.close()
            if error.errno in _NO_LOCKS:
                with as_user_errors(self.path / name, LOCKING):
                    raise
            if not isinstance(error, BlockingIOError):
                raise
            return None
        return file

    def sync(self) -> None:
        """Sync the entries to disk."""
        os.fsync(self._descriptor)

    def _mode(self, name: str) -> int | None:
        """Return the type and permissions of an entry, or None if there is none."""
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None

    def _open(self, name: str, flags: int) -> int:
        """Return the descriptor of a regular file or folder; opening a pipe does not block."""
        if name != Path(name).name:
            raise NotOwnFileError(self.path / name, "outside the directory")
        expected = stat.S_ISDIR if flags & os.O_DIRECTORY else stat.S_ISREG
        try:
            flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o666, dir_fd=self._descriptor)
        except OSError:
            mode = self._mode(name)
            if mode is not None and stat.S_ISLNK(mode):
                raise NotOwnFileError(self.path / name, "a link, which is not followed") from None
            if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise NotOwnFileError(self.path / name, "not a regular file") from None
            raise
        status = os.fstat(descriptor)
        kind = None
        if not expected(status.st_mode):
            kind = "not a regular file"
        elif flags & (os.O_WRONLY | os.O_RDWR) and status.st_nlink > 1:
            kind = "a hard link to a file with another name"
        if kind is not None:
            os.close(descriptor)
            raise NotOwnFileError(self.path / name, kind)
        return descriptor


def open_folder(path: Path, *, create: bool = False) -> Folder:
    """Open a folder of a run directory: `path` itself must not be a link, but the run directory may be one."""
    path = path.absolute()
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
    with Folder(path.parent) as parent:
        return parent.folder(path.name, create=create)


def read_file(path: Path) -> bytes:
    """Return the content of a file of a run directory; raises OSError if it cannot be read."""
    with Folder(path.parent) as folder:
        return folder.read(path.name)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with as_user_errors(path), Folder(path.parent) as folder:
        folder.write_whole(path.name, content)


def check_writable(path: Path) -> None:
    """Create the folder of `path`, and raise UserError if no file can be written there: before any work is done."""
    with as_user_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass


def locked(path: Path) -> IO[Any] | None:
    """Lock a file until it is closed; returns None if another process has locked it."""
    with as_user_errors(path), Folder(path.parent) as folder:
        return folder.lock(path.name)


def packed(path: Path) -> Path:
    """Return the path of the compressed file: the same name with the suffix `.gz`."""
    return path.with_name(f"{path.name}.gz")


def exists_either(path: Path) -> bool:
    """Return whether a file or its .gz file exists."""
    return path.exists() or packed(path).exists()


def read_either(path: Path) -> bytes:
    """Return the content of a file, or of its .gz file if that exists; raises OSError if it cannot be read."""
    if not packed(path).exists():
        return read_file(path)
    try:
        with gzip.open(BytesIO(read_file(packed(path)))) as file:
            content = file.read(_MOST_BYTES + 1)
    except (EOFError, zlib.error) as error:
        raise OSError(f"{packed(path)} is damaged") from error
    _check_size(len(content))
    return content


def _check_size(size: int) -> None:
    if size > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"more than {_MOST_BYTES >> 20} MiB")


def write_packed(path: Path, content: bytes) -> None:
    """Write the .gz file of `path`; the same content gives the same bytes."""
    write_whole(packed(path), gzip.compress(content, mtime=0))


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML file; raises ValueError if it is invalid."""
    content: dict[str, Any] = tomllib.loads(text)
    return content
