"""Stop on a signal: after the current step at the first, immediately if the same signal comes again."""

import os
import signal
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(Exception):
    """The run was stopped cleanly by a signal; `exit_code` is 128 + the signal's number, as in a shell."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


class StopRequest:
    """Context manager that notes Ctrl-C and SIGTERM in `received`; it works in the main thread only."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._all_received: set[int] = set()
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _: FrameType | None) -> None:
        if number in self._all_received:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        # The handlers stay: Python prints a warning if a signal has arrived whose handler is taken away.
        self._all_received.add(number)
        self.received = number
