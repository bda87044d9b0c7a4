"""Errors that users can fix, and helpers for their messages."""

import difflib
from collections.abc import Iterable

_MOST_NAMES = 20


class UserError(Exception):
    """Invalid input. The message is one sentence that says how to fix it; the command line exits with code 2."""


class BusyError(UserError):
    """The run directory is locked by another process; retrying may succeed."""


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or an empty string."""
    return next(iter(str(error).strip().splitlines()), "")


def nearest_name(word: str, names: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for the name closest to `word`, or the valid names if none is close."""
    known = sorted(names)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    if len(known) <= _MOST_NAMES:
        return f"choose from {', '.join(known)}."
    nearest = difflib.get_close_matches(word, known, n=3, cutoff=0.0)
    return f"the nearest of {len(known)} names are {', '.join(nearest)}."
