"""Kill a process at a chosen system call (Linux), at a chosen operation on files, or after some time."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable

Command = Callable[[], int]
"""Runs a command in this process and returns its exit code."""

_TRACE_ME, _NEXT_CALL, _SET_OPTIONS = 0, 24, 0x4200  # requests of ptrace, the same on all processors
_MARK_CALLS, _KILL_WITH_PARENT = 1, 0x100000
_OPERATIONS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.listdir")


def killed_at_call(command: Command, moment: int | None) -> tuple[int, int]:
    """Run a command in a forked process and kill it at its stop `moment`: stops are before and after each system call.

    Returns its exit code, or minus the number of the signal that killed it; and the number of stops. Raises OSError if
    this system cannot trace processes.
    """
    if sys.platform != "linux":
        raise OSError("only Linux traces system calls like this")
    child = os.fork()
    if child == 0:
        _ptrace(_TRACE_ME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)  # until the parent is ready
        os._exit(command())
    os.waitpid(child, os.WUNTRACED)
    num_stops = passed_on = 0
    try:
        _ptrace(_SET_OPTIONS, child, _MARK_CALLS | _KILL_WITH_PARENT)
    except OSError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    while True:
        _ptrace(_NEXT_CALL, child, passed_on)
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status), num_stops
        passed_on = os.WSTOPSIG(status)
        if passed_on == signal.SIGTRAP | 0x80:
            passed_on, num_stops = 0, num_stops + 1
            if num_stops == moment:
                os.kill(child, signal.SIGKILL)
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), num_stops


def _ptrace(request: int, child: int, data: int = 0) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    library.ptrace.restype = ctypes.c_long
    if library.ptrace(request, child, None, data) == -1:
        raise OSError(ctypes.get_errno(), "this system does not allow processes to be traced")


def killed_at_operation(command: Command, moment: int) -> int:
    """Kill a command at its operation `moment` on files that Python reports, or at a sync; returns its exit code."""
    child = os.fork()
    if child == 0:
        _die_at(moment)
        os._exit(command())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _die_at(moment: int) -> None:
    left, sync = moment, os.fsync

    def count(event: str, _: object = ()) -> None:
        nonlocal left
        if event in _OPERATIONS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def counted_sync(descriptor: int) -> None:
        sync(descriptor)
        count("open")

    os.fsync = counted_sync  # type: ignore[assignment]
    sys.addaudithook(count)


def killed_after(command: Command, seconds: float) -> int:
    """Kill a command after some seconds; returns its exit code."""
    child = os.fork()
    if child == 0:
        os._exit(command())
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid != 0:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
