"""What a step costs as the memory grows from 10,000 to 2,000,000 states, by brute force and by projection (P125)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from eva.experiments.framework.definition import OURS, Claim, Experiment, Finding, Judgement, Table
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.judge import are_all_below, is_above, is_below
from eva.experiments.framework.words import brief, capital, measured_by, plain, times
from eva.report.measures import Estimate, difference, estimate, mean
from eva.report.plots import Chart, Line, chart_files
from eva.report.statistics import FloatArray

BRUTE, PROJECTED = "brute force", "projection"
SEARCH, UPDATE, FIT = "search", "update", "fit"
TWICE, HALF = 2.0, 0.5
LARGE = 500_000  # states, the paper's memory on Atari


def measure(is_quick: bool) -> dict[str, Any]:
    """Return what a step costs on this machine."""
    from eva.timing.scaling_costs import measure_scaling  # imports torch: not to list experiments

    return measure_scaling(is_quick)


def judge(evidence: Evidence) -> Judgement:
    """Judge how a step's cost grows, and what the projection saves."""
    costs = Costs(evidence.measured)
    largest, paper = costs.sizes[-1], costs.nearest(LARGE)
    growth = costs.ratio(costs.whole(PROJECTED, largest), costs.whole(PROJECTED, costs.sizes[0]))
    saved = {
        size: costs.ratio(costs.searching(PROJECTED, size), costs.searching(BRUTE, size))
        for size in costs.sizes
        if size >= paper
    }
    dearer = difference(costs.part(PROJECTED, UPDATE, paper), costs.searching(PROJECTED, paper))
    certainty = f"{costs.num_rounds} rounds in turn, one thread, on one machine"
    findings = (
        Finding(
            is_below(growth, TWICE),
            f"a step over {largest:,} states takes {times(growth)} times as long as one over {costs.sizes[0]:,}",
            certainty,
        ),
        Finding(
            are_all_below(list(saved.values()), HALF),
            "the time of a search by projection, as a multiple of brute force's, is "
            + ", ".join(f"{times(each)} over {size:,} states" for size, each in saved.items()),
            certainty,
        ),
        Finding(
            is_above(dearer),
            f"over {paper:,} states an update takes {_microseconds(dearer)} microseconds more than a step's share of "
            "searching",
            certainty,
        ),
    )
    return Judgement(
        outcome=f"A step over {largest:,} states takes {times(growth)} times as long as one over {costs.sizes[0]:,}.",
        findings=findings,
        tables=(_whole(costs), *(_parts(costs, search) for search in (BRUTE, PROJECTED))),
        figures={"costs": chart_files(_chart(costs))},
        numbers={
            "growth": plain(asdict(growth)),
            "search_by_projection": plain({size: asdict(each) for size, each in saved.items()}),
            "update_less_search": plain(asdict(dearer)),
            "sizes": list(costs.sizes),
            "fallbacks": costs.fallbacks,
        },
        lessons=(
            f"A step over {largest:,} remembered states takes {times(growth)} times as long as one over "
            f"{costs.sizes[0]:,} with the projected search, "
            f"{times(costs.ratio(costs.whole(BRUTE, largest), costs.whole(BRUTE, costs.sizes[0])))} times with brute "
            "force.",
        ),
    )


class Costs:
    """What was measured: microseconds of a step, round by round.

    Args:
        measured: By `measure`, and where.
    """

    def __init__(self, measured: dict[str, Any]) -> None:
        self.sizes: tuple[int, ...] = tuple(measured["sizes"])
        self.fallbacks: list[float] = measured["fallbacks"]
        self.origin = measured_by(measured)
        self._rounds: dict[str, dict[str, list[list[float]]]] = measured["microseconds"]

    @property
    def parts(self) -> list[str]:
        """Of a step."""
        return list(self._rounds[BRUTE])

    @property
    def num_rounds(self) -> int:
        """In which each was measured."""
        return len(self._rounds[BRUTE][SEARCH][0])

    def nearest(self, size: int) -> int:
        """Return the size that was measured, nearest to this one."""
        return min(self.sizes, key=lambda each: abs(each - size))

    def part(self, search: str, part: str, size: int) -> FloatArray:
        """Return the time of a part in each round."""
        return np.array(self._rounds[search][part][self.sizes.index(size)])

    def searching(self, search: str, size: int) -> FloatArray:
        """Return the time of a step's share of searching, fitting included."""
        return self.part(search, SEARCH, size) + self.part(search, FIT, size)

    def whole(self, search: str, size: int) -> FloatArray:
        """Return the time of a whole step."""
        whole: FloatArray = np.sum([self.part(search, part, size) for part in self.parts], axis=0)
        return whole

    def ratio(self, first: FloatArray, second: FloatArray) -> Estimate:
        """Return how many times as long the first takes."""
        return estimate(np.divide, first, second)


def _microseconds(gain: Estimate) -> str:
    return f"{gain.value:,.0f} (95% interval {gain.low:,.0f} to {gain.high:,.0f})"


def _whole(costs: Costs) -> Table:
    rows = [
        [
            f"{size:,}",
            *(brief(mean(costs.whole(search, size) / 1e3)) for search in (BRUTE, PROJECTED)),
            brief(costs.ratio(costs.searching(PROJECTED, size), costs.searching(BRUTE, size))),
            f"{fallback:.0%}",
        ]
        for size, fallback in zip(costs.sizes, costs.fallbacks, strict=True)
    ]
    heads = [
        "states",
        f"step, {BRUTE}, ms",
        f"step, {PROJECTED}, ms",
        "searching, projection / brute force",
        "fallbacks",
    ]
    caption = (
        "A whole step of the maze's agent, learning included, one thread's processor time: mean over rounds and its "
        "95% bootstrap interval. Fallbacks: searches by projection that took brute force after all. "
        f"{capital(costs.origin)}."
    )
    return Table(caption, heads, rows)


def _parts(costs: Costs, search: str) -> Table:
    rows = [
        [part, *(f"{costs.part(search, part, size).mean():,.0f}" for size in costs.sizes)]
        for part in costs.parts
        if part != FIT or search == PROJECTED
    ]
    heads = [f"with {search}", *(f"{size:,}" for size in costs.sizes)]
    caption = (
        "Where the time of a step goes, in microseconds, by the size of the memory; a plan's parts are spread over "
    )
    return Table(caption + "the 20 steps from one plan to the next, a fit's over a quarter of the memory.", heads, rows)


def _chart(costs: Costs) -> Chart:
    lines = []
    for search in (BRUTE, PROJECTED):
        for what, times_of in (("whole step", costs.whole), ("searching", costs.searching)):
            values = [mean(times_of(search, size)) for size in costs.sizes]
            y, low, high = ([getattr(each, end) for each in values] for end in ("value", "low", "high"))
            lines.append(Line(f"{what}, {search}", costs.sizes, y, low, high))
    return Chart("states in the memory", "microseconds for a step", lines, logarithmic=True)


EXPERIMENT = Experiment(
    name="scaling",
    title="What a step costs as the memory grows",
    claims=(
        Claim(
            OURS,
            "A step over 2,000,000 states costs at most twice a step over 10,000.",
            "With the projected search: holds if the whole interval of the ratio lies below 2.",
        ),
        Claim(
            OURS,
            "From 500,000 states on, searching by projection takes at most half of brute force's time.",
            "Holds if the whole interval of the ratio lies below 0.5 for each size from 500,000 on, fitting included.",
        ),
        Claim(
            OURS,
            "Over the 500,000 states of the paper's memory, learning still takes longer than searching.",
            "Of a step's share, with the projected search: holds if the update takes longer beyond doubt.",
        ),
    ),
    arms=lambda: (),
    judge=judge,
    measure=measure,
    remarks=(
        "The agent is the maze's: one environment, embeddings of 64 numbers, a plan every 20 steps, an update at "
        "each. The memory is random play over and over, with embeddings made up with the spectrum of real ones, which "
        "18 of 64 directions hold: where embeddings fill more directions, the projection excludes less. The queries "
        "are made up likewise (P125).",
    ),
)
