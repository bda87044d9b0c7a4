"""`make demo` installs what the demo needs; `make check` and others add the extras, whichever is called first."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY, EXTRAS = '-e "."', '-e ".[atari,'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the files that installation depends on, all of the same age."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / ".venv").mkdir()
    return tmp_path


def planned(checkout: Path, target: str) -> str:
    """Return the commands that make would run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--dry-run", target]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True).stdout


def touch(checkout: Path, stamp: str, age: int) -> None:
    path = checkout / ".venv" / stamp
    path.touch()
    os.utime(path, (age, age))


def test_demo_installs_the_library_without_extras(checkout: Path) -> None:
    commands = planned(checkout, "demo")
    assert LIBRARY in commands
    assert EXTRAS not in commands
    assert "eva report" in commands


def test_check_installs_the_library_then_the_extras(checkout: Path) -> None:
    commands = planned(checkout, "check")
    assert -1 < commands.find(LIBRARY) < commands.find(EXTRAS) < commands.find("ruff check")


def test_check_after_the_demo_installs_only_the_extras(checkout: Path) -> None:
    touch(checkout, ".installed", age=2)
    commands = planned(checkout, "check")
    assert LIBRARY not in commands
    assert EXTRAS in commands


def test_nothing_is_installed_twice(checkout: Path) -> None:
    touch(checkout, ".installed", age=2)
    touch(checkout, ".installed-extras", age=3)
    assert "pip install" not in planned(checkout, "demo") + planned(checkout, "check")


def test_changed_requirements_are_installed_again(checkout: Path) -> None:
    touch(checkout, ".installed", age=2)
    touch(checkout, ".installed-extras", age=3)
    os.utime(checkout / "constraints.txt", (4, 4))
    commands = planned(checkout, "check")
    assert LIBRARY in commands
    assert EXTRAS in commands


def test_failed_installation_stops_make_and_leaves_no_stamp(checkout: Path) -> None:
    (checkout / "bin").mkdir()
    python = checkout / "bin" / "python"
    python.write_text('#!/bin/sh\ntest "$2" != pip\n')  # `python -m venv` succeeds, `python -m pip` fails
    python.chmod(0o755)
    (checkout / ".venv" / "bin").symlink_to(checkout / "bin")
    command = ["make", f"PYTHON={python}", ".venv/.installed"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 2
    assert not (checkout / ".venv" / ".installed").exists()
