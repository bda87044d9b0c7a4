"""`import eva` registers the maze with Gymnasium without importing it. Each case is a new process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import eva

SOURCE = str(Path(eva.__file__).parents[1])
MAKE = "assert gymnasium.make('eva/CoinMaze-v0', num_coins=2).reset(seed=0)[0].shape == (7, 15, 3)"


def run(code: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize(
    "imports",
    [
        "import eva, gymnasium",
        "import gymnasium, eva",
        "import eva.envs.maze, gymnasium",
        "import eva; from gymnasium.spaces import Box; import gymnasium, eva.envs.maze",
        "import eva, importlib.util; assert importlib.util.find_spec('gymnasium'); import gymnasium",
        "import eva, gymnasium, importlib; importlib.reload(eva)",
    ],
)
def test_gymnasium_makes_the_maze_whatever_is_imported_first(imports: str) -> None:
    run(f"{imports}; {MAKE}")


def test_gymnasium_imports_eva_by_the_id() -> None:
    run("import gymnasium; gymnasium.make('eva:eva/CoinMaze-v0').reset(seed=0)")


def test_without_gymnasium_its_import_fails_as_always() -> None:
    run("import sys; sys.modules['gymnasium'] = None; import eva")
    attempt = f"import sys; sys.path.insert(0, {SOURCE!r}); import eva, gymnasium"
    done = subprocess.run([sys.executable, "-S", "-c", attempt], capture_output=True, text=True)
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'gymnasium'\n")
