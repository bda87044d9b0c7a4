"""Registers this package's environment with Gymnasium without importing it, which would slow down `import eva`.

Packages cannot announce environments in their metadata: Gymnasium 1.0 removed the entry point `gymnasium.envs`. So
`import eva` registers at once if Gymnasium is imported already, and otherwise as soon as it is.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from eva.ids import MAZE_ID


def register_environments() -> None:
    """Register now, or when Gymnasium is imported."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None:
        _register(gymnasium)
    else:
        sys.meta_path.insert(0, _AfterGymnasium())


def _register(gymnasium: Any) -> None:
    if MAZE_ID not in gymnasium.registry:
        gymnasium.register(MAZE_ID, entry_point="eva.envs.maze:CoinMaze")


class _AfterGymnasium(MetaPathFinder):
    """Finds Gymnasium as the other finders do, and registers once it has been imported."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                _register(module)

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
