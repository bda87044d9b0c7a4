"""Ephemeral Value Adjustments: deep reinforcement learning that plans over its own memory before it acts."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eva.agent.adjuster import EphemeralValueAdjuster
    from eva.agent.eva import EVAAgent
    from eva.config import Config
    from eva.errors import UserError

__version__ = "0.1.0"
__all__ = ["Config", "EVAAgent", "EphemeralValueAdjuster", "UserError", "__version__"]

_HOME = {
    "Config": "eva.config",
    "EVAAgent": "eva.agent.eva",
    "EphemeralValueAdjuster": "eva.agent.adjuster",
    "UserError": "eva.errors",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that `import eva` is instant and needs no torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'eva' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
