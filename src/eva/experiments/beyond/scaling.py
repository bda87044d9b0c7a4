"""The cost of a step as the memory grows from 10,000 to 2,000,000 states (P125)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import Measure
from eva.report.plots import Chart, Line
from eva.report.statistics import FloatArray, mean

BRUTE, PROJECTED = "brute force", "projection"
SEARCH, UPDATE, FIT = "search", "update", "fit"
SIZES = (10_000, 50_000, 200_000, 500_000, 1_000_000, 2_000_000)
PAPER_SIZE = 500_000  # states in the paper's memory on Atari
ARMS = {f"{search}, {size:,}": (search, size) for search in (BRUTE, PROJECTED) for size in SIZES}
"""Search and size by label; nothing is trained."""


def times(measured: dict[str, Any], search: str, size: int, *parts: str) -> FloatArray:
    """Return microseconds of some parts of a step, or of all, round by round; of the nearest size that was measured."""
    place = int(np.argmin(np.abs(np.subtract(measured["sizes"], size))))
    rounds = measured["microseconds"][search]
    total: FloatArray = np.sum([rounds[part][place] for part in parts or rounds], axis=0)
    return total


def search_times(measured: dict[str, Any], search: str, size: int) -> FloatArray:
    """Return microseconds of a step's share of searching, round by round."""
    return times(measured, search, size, SEARCH, FIT)


def figures(evidence: Evidence) -> Figures:
    """Draw the whole step and the search by size."""
    measured, lines = evidence.measured, []
    for search in (BRUTE, PROJECTED):
        for name, part in (("whole step", times), ("search", search_times)):
            means = [mean(part(measured, search, size)) for size in measured["sizes"]]
            lines.append(Line.through(f"{name}, {search}", measured["sizes"], means))
    return {"costs": Chart("states in the memory", "microseconds", lines, logarithmic=True)}


def _measure(name: str, values: Callable[[dict[str, Any], str, int], FloatArray]) -> Measure:
    return Measure(name, lambda e, _, label: values(e.measured, *ARMS[label]), unit="rounds", higher_is_better=False)


# m: what was measured, s: search, n: size
GROWTH = _measure("step, multiple of the smallest memory's", lambda m, s, n: times(m, s, n) / times(m, s, SIZES[0]))
RATIO = _measure("search, multiple of brute force's", lambda m, s, n: search_times(m, s, n) / search_times(m, BRUTE, n))
PER_UPDATE = _measure("search, multiple of an update's", lambda m, s, n: search_times(m, s, n) / times(m, s, n, UPDATE))
LARGEST, PAPERS = f"{PROJECTED}, {SIZES[-1]:,}", f"{PROJECTED}, {PAPER_SIZE:,}"
EXPERIMENT = Experiment(
    name="scaling",
    title="The cost of a step as the memory grows",
    question="How much slower is a step of EVA over a memory of 2,000,000 states than over one of 10,000?",
    arms=lambda: tuple(Arm("maze agent, one thread", label, ()) for label in ARMS),
    claims=(
        Claim(OURS, "2,000,000 states take less than twice the time.", GROWTH, LARGEST, 2.0, "better", 0, primary=True),
        *(
            Claim(OURS, f"The projection halves the search over {size:,}.", RATIO, label, 0.5, "better", 0)
            for label, (search, size) in ARMS.items()
            if search == PROJECTED and size >= PAPER_SIZE
        ),
        Claim(OURS, "A step's share of searching costs less than its update.", PER_UPDATE, PAPERS, 1.0, "better", 0),
    ),
    columns=(_measure("step, microseconds", times), _measure("search, microseconds", search_times), GROWTH),
    figures=figures,
    timing="eva.experiments.timing.scaling_costs",
    notes=(
        "The maze's agent: one environment, 64-dimensional embeddings, a plan every 20 steps, an update at each. The "
        "memory repeats random play, with synthetic embeddings that have the spectrum of real ones; queries likewise.",
        "n counts rounds in which all sizes and both searches are measured in turn, by CPU time.",
    ),
)
