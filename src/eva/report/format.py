"""Numbers as text, the same on every page."""

import math

from eva.report.statistics import Estimate


def number(value: float) -> str:
    """Return two decimals for small numbers, grouped thousands for game scores."""
    if not math.isfinite(value):
        return "\N{EN DASH}" if math.isnan(value) else "not reached" if value > 0 else "-not reached"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
    return "0.00" if text == "-0.00" else text


def signed(value: float) -> str:
    """Return a difference with its sign."""
    text = number(value)
    return text if not math.isfinite(value) or text.startswith("-") else f"+{text}"


def interval(estimate: Estimate) -> str:
    """Return [low, high], or nothing for a single unit."""
    return "" if math.isnan(estimate.low) else f"[{number(estimate.low)}, {number(estimate.high)}]"
