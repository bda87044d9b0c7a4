"""The fuzzer itself: a short form finds no bug, and it finds those that are put in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BLIND = "from eva.digests import FileEntry; FileEntry.check = lambda *_: None; "
MAIN = "import sys; from tests.fuzz.__main__ import main; sys.exit(main())"


def fuzzed(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Fuzz in a process of its own, which the fuzzer prepares for its children."""
    words = ["--seconds", "900", *arguments]
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_damaged_and_killed_runs_are_noticed() -> None:
    done = fuzzed(MAIN, "--cases", "120")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| 0 | 0 | 0 | 120 |\n" in done.stdout, "no bug in 120 cases"


@pytest.mark.slow
def test_damage_is_silent_without_checksums() -> None:
    done = fuzzed(BLIND + MAIN, "--cases", "60")
    assert done.returncode == 1
    assert re.search(r": silent: (maze|atari|minatar), (evaluate|inspect|report|extend): ", done.stdout), done.stdout


KILLS = """
import os, signal
from pathlib import Path
from tests.fuzz.kills import killed_after, killed_at_call, killed_at_operation

def command():
    for name in ("first", "second"):
        Path(name).write_text("")
    return 7

def states(kill, num_moments):
    for moment in range(1, num_moments):
        for name in os.listdir():
            os.unlink(name)
        yield kill(moment), *sorted(os.listdir())

KILLED = -signal.SIGKILL
code, num_stops = killed_at_call(command, None)
assert code == 7
at_calls = set(states(lambda stop: killed_at_call(command, stop)[0], num_stops + 5))
assert at_calls == {(KILLED,), (KILLED, "first"), (KILLED, "first", "second"), (7, "first", "second")}, at_calls
at_operations = set(states(lambda number: killed_at_operation(command, number), 5))
assert at_operations == {(KILLED,), (KILLED, "first"), (7, "first", "second")}, at_operations
assert killed_after(lambda: signal.pause(), 0.1) == KILLED
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ptrace differs elsewhere, where `make fuzz` says that it lacks it")
def test_kills_are_before_and_after_each_system_call(tmp_path: Path) -> None:
    """In a process of its own, without threads."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    subprocess.run([sys.executable, "-c", KILLS], cwd=tmp_path, env=environment, check=True)
