"""When a claim holds (P86).

A claim holds if the 95% interval excludes the contrary ("beyond doubt"), and does not hold if the interval excludes the
claim. What the interval leaves open is undecided. A claim with two halves, or with a weaker form, holds in part if only
one half does, or the weaker form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from eva.experiments.framework.definition import Verdict
from eva.report.measures import Estimate

MARGIN = 0.05
"""What counts as no difference, as a share of the optimal return."""
SLIGHTLY_MORE_THAN_HALF = 0.6
SATURATED = 0.25
"""Beyond saturation less than this share of the gain up to it is gained."""


Effect = Literal["better", "worse", "no difference", "undecided"]


def is_above(gain: Estimate, bound: float = 0.0) -> Verdict:
    """Judge that a gain is above a bound."""
    return _verdict(gain.low > bound, gain.high <= bound)


def is_below(gain: Estimate, bound: float = 0.0) -> Verdict:
    """Judge that a gain is below a bound."""
    return _verdict(gain.high < bound, gain.low >= bound)


def suffices(data_share: Estimate, data_saved: Estimate) -> Verdict:
    """Judge that slightly more than half of the data suffices; in part if surely less than the baseline needs."""
    if data_saved.low > 0:
        return "holds" if data_share.high <= SLIGHTLY_MORE_THAN_HALF else "holds in part"
    return _verdict(False, data_saved.high <= 0 or data_share.low > SLIGHTLY_MORE_THAN_HALF)


def rises(steps: Sequence[Estimate], stretches: Sequence[Estimate]) -> Verdict:
    """Judge that more is better: by the estimate at every step, and over every stretch beyond doubt."""
    if any(stretch.high <= 0 for stretch in stretches):
        return "does not hold"
    surely = [stretch.low > 0 for stretch in stretches]
    if all(surely) and all(step.value > 0 for step in steps):
        return "holds"
    return "holds in part" if any(surely) and all(stretch.value > 0 for stretch in stretches) else "undecided"


def saturates(gain: Estimate, excesses: Sequence[Estimate]) -> Verdict:
    """Judge that there is a gain up to a point, and nowhere else much more.

    Args:
        gain: Up to that point.
        excesses: What others have above it, less the share of the gain that counts as saturated.
    """
    if gain.high <= 0 or any(excess.low > 0 for excess in excesses):
        return "does not hold"
    if not gain.low > 0 or not all(excess.value < 0 for excess in excesses):
        return "undecided"
    return "holds" if all(excess.high < 0 for excess in excesses) else "holds in part"


def are_all_below(gains: Sequence[Estimate], bound: float) -> Verdict:
    """Judge that none of several gains reaches a bound."""
    return _verdict(all(gain.high < bound for gain in gains), any(gain.low >= bound for gain in gains))


def effect(gain: Estimate, margin: float) -> Effect:
    """Tell what a change does (P121): by at least the margin and beyond doubt, surely by less, or neither."""
    if gain.low > 0 and gain.value >= margin:
        return "better"
    if gain.high < 0 and gain.value <= -margin:
        return "worse"
    return "no difference" if -margin < gain.low and gain.high < margin else "undecided"


def both(first: Verdict, second: Verdict) -> Verdict:
    """Judge a claim of two halves."""
    halves = {first, second}
    if halves == {"holds"}:
        return "holds"
    if halves & {"holds", "holds in part"}:
        return "holds in part"
    return _verdict(False, "does not hold" in halves)


def _verdict(excludes_the_contrary: bool, excludes_the_claim: bool) -> Verdict:
    return "holds" if excludes_the_contrary else "does not hold" if excludes_the_claim else "undecided"
