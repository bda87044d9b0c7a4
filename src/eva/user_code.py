"""Code of the user: imported where a config names it as `module:name` (docs/limits.md), and its failures reported."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eva.errors import UserError, described, reason_of


@contextmanager
def working_directory_last() -> Iterator[None]:
    """Find the user's module in the working directory, unless an installed module has its name."""
    before, here = sys.path, str(Path.cwd())
    sys.path = before if {"", here} & {*before} else [*before, here]
    try:
        yield
    finally:
        sys.path = before


@contextmanager
def reported_failures(what: str) -> Iterator[None]:
    """Turn exceptions of the user's code into a `UserError` with file and line."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{what} failed ({described(error)}): fix it.") from error


def import_callable(path: str, field: str) -> Any:
    """Return the class or function that `path`, the value of the config's `field`, names as `module:name`."""
    module, _, name = path.partition(":")
    advice = "give MODULE:NAME, of a module that is installed or in the working directory"
    try:
        with working_directory_last():
            found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # the module's own code may raise anything
        raise UserError(f"{field} '{path}' cannot be imported ({reason_of(error)}): {advice}.") from error
    if not callable(found):
        raise UserError(f"{field} '{path}' is a {type(found).__name__} and cannot be called: {advice}.")
    return found
