"""Errors that users can fix, and helpers for their messages."""

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path

_MOST_NAMES = 20
_LARGEST_REWARD = 3.4e38  # of a float32, as rewards are stored


class UserError(Exception):
    """Invalid input. The message is one sentence that says how to fix it; the command line exits with code 2."""


class BusyError(UserError):
    """The run directory is locked by another process; retrying may succeed."""


def check_rewards(rewards: Iterable[float], step: int) -> None:
    """Raise UserError unless the reward of every environment at this step is a finite float32."""
    for environment, reward in enumerate(rewards):
        if not abs(reward) <= _LARGEST_REWARD:  # negated so that NaN is rejected
            raise UserError(
                f"environment {environment} gave the reward {reward} at step {step} (a missing reward, None, is nan): "
                "let every reward be a finite number."
            )


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or an empty string."""
    return next(iter(str(error).strip().splitlines()), "")


def reason_of(error: BaseException) -> str:
    """Return the type and the message of an exception, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".: ")


def described(error: BaseException) -> str:
    """Return the type of an exception, its message, and the file and line where it was raised, in one line."""
    *_, where = traceback.extract_tb(error.__traceback__)
    return f"{reason_of(error)}, in {Path(where.filename).name}, line {where.lineno}"


def printable(text: str) -> str:
    """Escape control characters, which a terminal would obey; line breaks and tabs stay."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


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
