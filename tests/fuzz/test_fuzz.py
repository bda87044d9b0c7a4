"""The fuzzer itself: a short form finds no bug, and it finds those that are put in."""

from __future__ import annotations

import subprocess
import sys

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
    assert ": silent: finished, evaluate: bit " in done.stdout
