"""Ephemeral Value Adjustments: deep reinforcement learning that plans over its own memory before it acts."""

import importlib
from typing import TYPE_CHECKING, Any

from eva.registration import register_environments

if TYPE_CHECKING:
    from eva.agent.adjuster import EphemeralValueAdjuster as EphemeralValueAdjuster
    from eva.agent.agent import EVAAgent as EVAAgent
    from eva.agent.own_network import with_embedding as with_embedding
    from eva.build import build_agent as build_agent
    from eva.build import build_environment as build_environment
    from eva.build import make_adjuster as make_adjuster
    from eva.config import Config as Config
    from eva.config import EVAConfig as EVAConfig
    from eva.errors import UserError as UserError
    from eva.presets import for_environment as for_environment
    from eva.presets import preset as preset
    from eva.report.export import export as export
    from eva.report.listing import RunSummary as RunSummary
    from eva.report.listing import list_runs as list_runs
    from eva.runs.callbacks import Callback as Callback
    from eva.runs.callbacks import EndRecord as EndRecord
    from eva.runs.callbacks import MetricsRecord as MetricsRecord
    from eva.runs.callbacks import Run as Run
    from eva.runs.callbacks import StepRecord as StepRecord
    from eva.runs.evaluate import evaluate as evaluate
    from eva.runs.loading import load_run as load_run
    from eva.runs.loop import interact as interact
    from eva.runs.loop import train as train
    from eva.runs.policy import Policy as Policy
    from eva.runs.policy import load_policy as load_policy
    from eva.runs.record.episodes import Episode as Episode
    from eva.runs.record.episodes import Evaluation as Evaluation
    from eva.runs.stopping import StoppedError as StoppedError
    from eva.sharing.card import card as card
    from eva.types import EnvironmentSpec as EnvironmentSpec
    from eva.types import Explanation as Explanation
    from eva.types import StepOutcome as StepOutcome

__version__ = "0.2.0"

_MODULES = {
    "eva.agent.adjuster": ["EphemeralValueAdjuster"],
    "eva.agent.agent": ["EVAAgent"],
    "eva.agent.own_network": ["with_embedding"],
    "eva.build": ["build_agent", "build_environment", "make_adjuster"],
    "eva.config": ["Config", "EVAConfig"],
    "eva.errors": ["UserError"],
    "eva.presets": ["for_environment", "preset"],
    "eva.report.export": ["export"],
    "eva.report.listing": ["RunSummary", "list_runs"],
    "eva.runs.callbacks": ["Callback", "EndRecord", "MetricsRecord", "Run", "StepRecord"],
    "eva.runs.evaluate": ["evaluate"],
    "eva.runs.loading": ["load_run"],
    "eva.runs.loop": ["interact", "train"],
    "eva.runs.policy": ["Policy", "load_policy"],
    "eva.runs.record.episodes": ["Episode", "Evaluation"],
    "eva.runs.stopping": ["StoppedError"],
    "eva.sharing.card": ["card"],
    "eva.types": ["EnvironmentSpec", "Explanation", "StepOutcome"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = ["__version__", *_MODULE_OF]


register_environments()  # gymnasium.make("eva/CoinMaze-v0") works from here on


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that `import eva` does not import torch."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'eva' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)
