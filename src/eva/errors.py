"""The one exception that is the user's to mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_NAMES = 20


class UserError(Exception):
    """Bad input: the message is one sentence that says what to do (the command line exits with 2)."""


class BusyError(UserError):
    """Another process is at it: a little later it may no longer be."""


def first_line(error: BaseException) -> str:
    """Return the first line of what an exception says, which may be nothing."""
    return next(iter(str(error).strip().splitlines()), "")


def nearest_name(word: str, names: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for the name closest to `word`, or what to choose from when none is close."""
    known = sorted(names)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    if len(known) <= _MOST_NAMES:
        return f"choose from {', '.join(known)}."
    nearest = difflib.get_close_matches(word, known, n=3, cutoff=0.0)
    return f"the nearest of {len(known)} names are {', '.join(nearest)}."
