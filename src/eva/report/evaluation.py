"""Evaluations in numbers: means, intervals, and paired differences to the network alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eva.report.statistics import FloatArray, mean_interval

Played = tuple[float, FloatArray, float | None]
"""A weight, the return of each episode, and the share of decisions that EVA changed."""


def summarise_evaluation(played: Sequence[Played]) -> list[dict[str, Any]]:
    """Return mean, 95% bootstrap interval and changed share for each weight.

    Where weight 0 is among them, also the mean difference to it and its interval: episode i starts in the same state
    for every weight, so the differences are taken episode by episode.
    """
    baseline = next((returns for weight, returns, _ in played if weight == 0), None)
    return [
        {
            "weight": weight,
            "episodes": len(returns),
            "mean_return": float(returns.mean()),
            "interval": _interval(returns),
            "gain": None if baseline is None else float((returns - baseline).mean()),
            "gain_interval": None if baseline is None else _interval(returns - baseline),
            "changed_share": changed_share,
        }
        for weight, returns, changed_share in played
    ]


def evaluation_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the summary as aligned text."""
    heads = ("weight", "mean return", "95% interval", "gain over 0", "95% interval", "decisions changed")
    lines = [heads, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['weight']:g}",
        f"{row['mean_return']:.3f}",
        _between(row["interval"]),
        "" if row["gain"] is None else f"{row['gain']:+.3f}",
        "" if row["gain"] is None else _between(row["gain_interval"]),
        "" if row["changed_share"] is None else f"{row['changed_share']:.1%}",
    )


def _interval(values: FloatArray) -> list[float]:
    return [float(np.asarray(end)) for end in mean_interval(values)]


def _between(interval: Sequence[float]) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"
