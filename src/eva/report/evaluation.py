"""Table of an evaluation: mean returns by weight, and paired differences from weight 0."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from eva.report.statistics import Estimate, FloatArray, difference, mean

Played = tuple[float, FloatArray, float | None]
"""A weight, the return of each episode, and the share of decisions that EVA changed."""
COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("weight", "weight", "{:g}".format),
    ("mean return", "mean_return", "{:.3f}".format),
    ("95% CI", "interval", lambda ends: "[{:.3f}, {:.3f}]".format(*ends)),
    ("gain over 0", "gain", "{:+.3f}".format),
    ("95% CI", "gain_interval", lambda ends: "[{:.3f}, {:.3f}]".format(*ends)),
    ("decisions changed", "changed_share", "{:.1%}".format),
)


def summarise_evaluation(played: Sequence[Played]) -> list[dict[str, Any]]:
    """Return mean, 95% CI and changed share for each weight.

    If weight 0 is among them, also the mean difference from it with its CI. Episode i starts in the same state for
    every weight, so differences are paired. A single episode has no CI.
    """
    baseline = next((returns for weight, returns, _ in played if weight == 0), None)
    rows = []
    for weight, returns, changed_share in played:
        level = mean(returns)
        row = {"weight": weight, "episodes": len(returns), "mean_return": level.value, "interval": _ends(level)}
        gain = None if baseline is None else difference(returns, baseline, paired=True)
        gained = {"gain": gain and gain.value, "gain_interval": gain and _ends(gain)}
        rows.append({**row, **gained, "changed_share": changed_share})
    return rows


def evaluation_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the summary as aligned text."""
    lines = [[head for head, _, _ in COLUMNS]]
    lines += [["" if row[name] is None else form(row[name]) for _, name, form in COLUMNS] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)


def _ends(estimate: Estimate) -> list[float] | None:
    return None if math.isnan(estimate.low) else [estimate.low, estimate.high]
