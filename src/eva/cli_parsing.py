"""From what was typed to what was asked for, or one sentence on what is wrong with it."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

import tyro

from eva.config import Config
from eva.errors import UserError, nearest_name
from eva.schema import flatten

T = TypeVar("T")


def parse(kind: type[T], arguments: list[str], default: T | None = None) -> T:
    """Parse flags with tyro, and turn its complaints into one sentence."""
    _refuse_unknown_flags(kind, arguments)
    parse: Callable[..., T] = partial(tyro.cli, kind, args=arguments, prog=f"eva {kind.__name__.lower()}")
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            return parse() if default is None else parse(default=default)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(_sentence(complaint.getvalue())) from None


def value_of(flag: str, arguments: Sequence[str]) -> str | None:
    """Return what follows a flag, the last time that it is given, as `--flag value` or `--flag=value`."""
    split = (argument.split("=", 1) if argument.startswith("--") else [argument] for argument in arguments)
    words = [word for part in split for word in part]
    values = [following for word, following in itertools.pairwise(words) if word == flag]
    return values[-1] if values else None


def _refuse_unknown_flags(kind: Any, arguments: Sequence[str]) -> None:
    names = {f.name for f in fields(kind)}
    known = names | {"help", "config"}
    if "config" in names:  # all of its fields are options
        known |= {name for name, _ in flatten(Config())}
    flags = {"--" + name.replace("_", "-") for name in known}
    for argument in arguments:
        flag = argument.split("=")[0].replace("_", "-")
        if flag.startswith("--") and re.sub(r"(--|\.)no-", r"\1", flag) not in flags:
            raise UserError(f"there is no option {flag}: {nearest_name(flag, flags)}")


def _sentence(box: str) -> str:
    """Return the first paragraph below the title of a message of tyro's, framed or not."""
    _, *lines = [line.strip("│ ") for line in box.splitlines()] or [""]
    rules = [number for number, line in enumerate(lines) if not line.strip("─-╰╯")]
    begin = next((number for number in range(len(lines)) if number not in rules), 0)
    end = next((number for number in rules if number > begin), len(lines))
    return (" ".join(lines[begin:end]).rstrip(".") or "these arguments are not understood") + ": see --help."
