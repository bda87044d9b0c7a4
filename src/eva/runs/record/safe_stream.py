"""Streams for what may get lost: a reader that has gone, or a full disk, must not end a run."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast


def unfailing(stream: TextIO | None) -> TextIO:
    """Return a stream that writes to another as long as that can be written to; None is nowhere."""
    return cast(TextIO, _Unfailing(Path(os.devnull).open("w") if stream is None else stream))


def let_go(stream: TextIO | None) -> None:
    """Flush a stream that the interpreter would flush when it ends; drop what cannot be written, or that would fail."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Unfailing:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()
