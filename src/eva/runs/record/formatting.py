"""Tables in plain text."""

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[+-]?\d|\[|-?$")  # also CIs, and cells without a number


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines with columns of equal width; columns of numbers, CIs and empty cells are right-aligned."""
    lines = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_number = [all(map(_NUMBER.match, column)) for column in zip(*rows, strict=True)]
    is_number = is_number or [False] * len(heads)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in lines
    )


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: `3d 4h`, `4h 05m`, `5m 06s`."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes:02}m"
    return f"{hours // 24}d {hours % 24}h"
