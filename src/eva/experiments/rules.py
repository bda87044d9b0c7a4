"""When a claim holds (P86).

It holds if the estimate agrees with it and the 95% interval excludes the contrary ("beyond doubt"); it holds in part if
only the estimate agrees, or one half of the claim holds; else it does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from eva.experiments.definition import Verdict
from eva.report.measures import Estimate

MARGIN = 0.05
"""What counts as no difference, as a share of the optimal return."""
SLIGHTLY_MORE_THAN_HALF = 0.6
SATURATED = 0.25
"""Beyond saturation less than this share of the gain up to it is gained."""


Effect = Literal["better", "worse", "no difference", "undecided"]


def is_above(gain: Estimate, bound: float = 0.0) -> Verdict:
    """Judge that a gain is above a bound."""
    return _verdict(gain.low > bound, gain.value > bound)


def is_below(gain: Estimate, bound: float = 0.0) -> Verdict:
    """Judge that a gain is below a bound."""
    return _verdict(gain.high < bound, gain.value < bound)


def suffices(data_share: Estimate) -> Verdict:
    """Judge that slightly more than half of the data suffices; in part if less than all of it does."""
    return _verdict(data_share.high <= SLIGHTLY_MORE_THAN_HALF, data_share.value < 1)


def rises(steps: Sequence[Estimate], upper_half: Estimate) -> Verdict:
    """Judge that more is better: at every step by the estimate, and over the upper half beyond doubt."""
    return _verdict(upper_half.low > 0 and all(step.value > 0 for step in steps), upper_half.value > 0)


def saturates(gain: Estimate, further: Estimate) -> Verdict:
    """Judge that there is a gain up to a point, and from there on hardly any."""
    no_more = further.value < SATURATED * gain.value
    return _verdict(gain.low > 0 and further.low <= 0 and no_more, gain.value > 0 and no_more)


def are_all_below(gains: Sequence[Estimate], bound: float) -> Verdict:
    """Judge that none of several gains reaches a bound."""
    return _verdict(all(gain.high < bound for gain in gains), all(gain.value < bound for gain in gains))


def effect(gain: Estimate, margin: float) -> Effect:
    """Tell what a change does (P121): by at least the margin and beyond doubt, surely by less, or neither."""
    if gain.low > 0 and gain.value >= margin:
        return "better"
    if gain.high < 0 and gain.value <= -margin:
        return "worse"
    return "no difference" if -margin < gain.low and gain.high < margin else "undecided"


def both(first: Verdict, second: Verdict) -> Verdict:
    """Judge a claim of two halves."""
    return _verdict(first == second == "holds", "does not hold" not in (first, second) or "holds" in (first, second))


def _verdict(beyond_doubt: bool, by_the_estimate: bool) -> Verdict:
    return "holds" if beyond_doubt else "holds in part" if by_the_estimate else "does not hold"
