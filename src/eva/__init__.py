"""Ephemeral Value Adjustments: deep reinforcement learning that plans over its own memory before it acts."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eva.agent.adjuster import EphemeralValueAdjuster
    from eva.agent.agent import EVAAgent
    from eva.build import build_agent, build_environment, make_adjuster
    from eva.config import Config, EVAConfig
    from eva.errors import UserError
    from eva.presets import for_environment, preset
    from eva.runs.evaluate import evaluate
    from eva.runs.loading import load_run
    from eva.runs.loop import interact, train
    from eva.runs.stopping import StoppedError
    from eva.types import EnvironmentSpec, Explanation, StepOutcome

__version__ = "0.1.0"

_HOMES = {
    "eva.agent.adjuster": ["EphemeralValueAdjuster"],
    "eva.agent.agent": ["EVAAgent"],
    "eva.build": ["build_agent", "build_environment", "make_adjuster"],
    "eva.config": ["Config", "EVAConfig"],
    "eva.errors": ["UserError"],
    "eva.presets": ["for_environment", "preset"],
    "eva.runs.evaluate": ["evaluate"],
    "eva.runs.loading": ["load_run"],
    "eva.runs.loop": ["interact", "train"],
    "eva.runs.stopping": ["StoppedError"],
    "eva.types": ["EnvironmentSpec", "Explanation", "StepOutcome"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = [
    "Config",
    "EVAAgent",
    "EVAConfig",
    "EnvironmentSpec",
    "EphemeralValueAdjuster",
    "Explanation",
    "StepOutcome",
    "StoppedError",
    "UserError",
    "__version__",
    "build_agent",
    "build_environment",
    "evaluate",
    "for_environment",
    "interact",
    "load_run",
    "make_adjuster",
    "preset",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that `import eva` is instant and needs no torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'eva' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
