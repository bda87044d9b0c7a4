"""eva inspect."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from eva.cli.parsing import parse
from eva.config import EVALUATION_EPSILON, MAX_INSPECTED_STEPS


@dataclass(frozen=True)
class Inspect:
    """Play an episode with a trained agent and show what the agent remembered at every decision, on one HTML page."""

    run: tyro.conf.Positional[Path]
    """A run directory; of an unfinished run, its newest checkpoint is shown."""
    seed: int = 0
    """Seed of start state and exploration; the episode is the first of eva evaluate with the same seed."""
    weight: float | None = None
    """Weight of Q_NP; by default the run's own."""
    epsilon: float = EVALUATION_EPSILON
    """Probability of a random action."""
    max_steps: int = MAX_INSPECTED_STEPS
    """Truncate the episode after this number of decisions."""
    out: Path | None = None
    """HTML file to write; by default inspect.html in the run directory."""
    open: bool = True
    """Open the page in a browser if there is a display."""


def main(arguments: list[str]) -> None:
    """Write the inspector's page of a run and open it."""
    asked = parse(Inspect, arguments)

    from eva.inspect.page import inspect_run  # imports torch: not for --help

    inspection = inspect_run(
        asked.run,
        weight=asked.weight,
        seed=asked.seed,
        epsilon=asked.epsilon,
        max_steps=asked.max_steps,
        out=asked.out,
    )
    print(inspection.summary)
    print(inspection.html)
    if asked.open and (sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)):
        import webbrowser

        webbrowser.open(inspection.html.resolve().as_uri())
