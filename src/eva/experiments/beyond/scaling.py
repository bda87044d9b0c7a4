"""The cost of a step as the memory grows from 10,000 to 2,000,000 states (P125)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import Measure
from eva.report.plots import Chart, Line, chart_files
from eva.report.statistics import FloatArray, mean
from eva.timing import BRUTE, FIT, MEMORY_SIZES, PROJECTED, SEARCH, UPDATE

PAPER_SIZE = 500_000  # states in the paper's memory on Atari
SEARCHING = (SEARCH, FIT)


def arm_label(search: str, size: int) -> str:
    """Return the name of an arm."""
    return f"{search}, {size:,}"


def arms() -> tuple[Arm, ...]:
    """Return both searches with every size; nothing is trained."""
    return tuple(
        Arm("maze agent, one thread", arm_label(search, size), ())
        for search in (BRUTE, PROJECTED)
        for size in MEMORY_SIZES
    )


def measure(is_quick: bool) -> dict[str, Any]:
    """Time steps on this machine."""
    from eva.timing.scaling_costs import measure_scaling  # imports torch: not to list experiments

    return measure_scaling(is_quick)


def times(measured: dict[str, Any], label: str, *parts: str) -> FloatArray:
    """Return microseconds of some parts of a step, or of all, round by round; of the nearest size that was measured."""
    search, _, size = label.partition(", ")
    sizes, rounds = measured["sizes"], measured["microseconds"][search]
    place = int(np.argmin([abs(each - int(size.replace(",", ""))) for each in sizes]))
    total: FloatArray = np.sum([rounds[part][place] for part in parts or rounds], axis=0)
    return total


def figures(evidence: Evidence) -> Figures:
    """Draw the whole step and the search by size."""
    measured, lines = evidence.measured, []
    for search in (BRUTE, PROJECTED):
        for name, parts in (("whole step", ()), ("search", SEARCHING)):
            values = [mean(times(measured, arm_label(search, size), *parts)) for size in measured["sizes"]]
            y, low, high = ([getattr(each, end) for each in values] for end in ("value", "low", "high"))
            lines.append(Line(f"{name}, {search}", measured["sizes"], y, low, high))
    return {"costs": chart_files(Chart("states in the memory", "microseconds", lines, logarithmic=True))}


def _measure(name: str, values: Callable[[dict[str, Any], str], FloatArray]) -> Measure:
    return Measure(
        name, lambda evidence, _, label: values(evidence.measured, label), unit="rounds", higher_is_better=False
    )


def _growth(measured: dict[str, Any], label: str) -> FloatArray:
    smallest = arm_label(label.partition(", ")[0], MEMORY_SIZES[0])
    growth: FloatArray = times(measured, label) / times(measured, smallest)
    return growth


def _against_brute_force(measured: dict[str, Any], label: str) -> FloatArray:
    brute = label.replace(PROJECTED, BRUTE)
    ratio: FloatArray = times(measured, label, *SEARCHING) / times(measured, brute, *SEARCHING)
    return ratio


def _against_update(measured: dict[str, Any], label: str) -> FloatArray:
    ratio: FloatArray = times(measured, label, *SEARCHING) / times(measured, label, UPDATE)
    return ratio


GROWTH = _measure("step, multiple of the smallest memory's", _growth)
RATIO = _measure("search, multiple of brute force's", _against_brute_force)
PER_UPDATE = _measure("search, multiple of an update's", _against_update)
LARGEST, PAPERS = arm_label(PROJECTED, MEMORY_SIZES[-1]), arm_label(PROJECTED, PAPER_SIZE)
EXPERIMENT = Experiment(
    name="scaling",
    title="The cost of a step as the memory grows",
    question="How much slower is a step of EVA over a memory of 2,000,000 states than over one of 10,000?",
    arms=arms,
    claims=(
        Claim(OURS, "2,000,000 states take less than twice the time.", GROWTH, LARGEST, 2.0, "better", 0, primary=True),
        *(
            Claim(
                OURS,
                f"The projection halves the search over {size:,}.",
                RATIO,
                arm_label(PROJECTED, size),
                0.5,
                "better",
                0,
            )
            for size in MEMORY_SIZES
            if size >= PAPER_SIZE
        ),
        Claim(OURS, "A step's share of searching costs less than its update.", PER_UPDATE, PAPERS, 1.0, "better", 0),
    ),
    columns=(
        _measure("step, microseconds", times),
        _measure("search, microseconds", lambda m, x: times(m, x, *SEARCHING)),
    ),
    figures=figures,
    measure=measure,
    notes=(
        "The maze's agent: one environment, 64-dimensional embeddings, a plan every 20 steps, an update at each. The "
        "memory repeats random play, with synthetic embeddings that have the spectrum of real ones; queries likewise.",
        "n counts rounds in which all sizes and both searches are measured in turn, by CPU time.",
    ),
)
