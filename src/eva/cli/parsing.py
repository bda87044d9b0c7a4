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
from eva.schema import flatten, wanted

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
        raise UserError(_sentence(kind, arguments, complaint.getvalue())) from None


def value_of(flag: str, arguments: Sequence[str]) -> str | None:
    """Return what follows a flag, the last time that it is given, as `--flag value` or `--flag=value`."""
    values = [following for word, following in itertools.pairwise(_split(arguments)) if word == flag]
    return values[-1] if values else None


def _split(arguments: Sequence[str]) -> list[str]:
    """Return flags, spelled as `--help` spells them, and their values, each by itself."""
    words: list[str] = []
    for argument in arguments:
        flag, *value = argument.split("=", 1)
        words += [flag.replace("_", "-"), *value] if argument.startswith("--") else [argument]
    return words


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


def _sentence(kind: type, arguments: Sequence[str], box: str) -> str:
    """Say what is wrong with a value or a word too many, or else what tyro says."""
    complaint, words = _first_paragraph(box), _split(arguments)
    if named := re.search(r"(?:parsing |argument ')(--[\w.-]+)", complaint):
        return _wrong_value(kind, named[1], words)
    if (extra := re.match(r"Unrecognized options: (\S+)", complaint)) and extra[1] in words[1:]:
        before = words[-words[::-1].index(extra[1]) - 2]  # of the last of its kind
        what = f"{before} takes no value, but" if before.startswith("--") else "one word too many:"
        return f"{what} there is '{extra[1]}': see --help."
    return f"{complaint or 'these arguments are not understood'}: see --help."


def _wrong_value(kind: type, flag: str, words: Sequence[str]) -> str:
    path = flag.removeprefix("--").replace("-", "_")
    must = wanted(kind if path in kind.__annotations__ else Config, path).removesuffix(" or null")
    while flag in words:
        words = words[words.index(flag) + 1 :]
    values = list(itertools.takewhile(lambda word: not word.startswith("--"), words))
    if not values:
        return f"{flag} must be followed by {must}."
    return f"{flag} is '{' '.join(values if must.startswith('a list') else values[:1])}', but must be {must}."


def _first_paragraph(box: str) -> str:
    """Return it without the title of a message of tyro's, framed or not."""
    _, *lines = [line.strip("│ ") for line in box.splitlines()] or [""]
    rules = [number for number, line in enumerate(lines) if not line.strip("─-╰╯")]
    begin = next((number for number in range(len(lines)) if number not in rules), 0)
    end = next((number for number in rules if number > begin), len(lines))
    return " ".join(lines[begin:end]).rstrip(".")
