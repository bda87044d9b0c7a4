"""Output streams that never fail: a closed pipe or a full disk must not end a run."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast


def unfailing(stream: TextIO | None) -> TextIO:
    """Wrap a stream so that write errors are ignored; None discards all output."""
    return cast(TextIO, _Unfailing(Path(os.devnull).open("w") if stream is None else stream))


def flush_or_discard(stream: TextIO | None) -> None:
    """Flush a stream, and discard what cannot be written: the interpreter would fail on it at exit."""
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
