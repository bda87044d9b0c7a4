"""Parse the arguments of a command with tyro; every error is one sentence."""

import io
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from decimal import Decimal
from typing import Any, TypeVar, get_args

import tyro

from eva.errors import UserError, nearest_name
from eva.schema import Arguments, FieldError, Rule, field_types, fits, flatten, in_words

T = TypeVar("T")

_SCIENTIFIC = re.compile(r"\+?\d[\d_]*(\.\d+)?[eE]\+?\d{1,2}")  # 1e5, 2.5e6; a longer exponent is no count
_REGISTRY = tyro.constructors.ConstructorRegistry()


@_REGISTRY.primitive_rule
def _json_objects(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[Arguments] | None:
    """Return how keyword arguments are written: as JSON, in one word."""
    if info.type is not Arguments:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda words: _json_object(words[0]),
        is_instance=lambda value: isinstance(value, Arguments),
        str_from_instance=lambda value: [repr(value)],
    )


def _json_object(word: str) -> Arguments:
    content = json.loads(word)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return Arguments(content)


def parse(kind: type[T], arguments: list[str], default: T | None = None) -> T:
    """Return the options of a command; raise UserError if one is unknown, of the wrong type or out of range.

    `kind` is a dataclass with one field for each option. Options that are not given take the values of `default`.
    """
    command = f"eva {kind.__name__.lower()}"
    defaults: dict[str, Any] = {} if default is None else {"default": default}
    options = {"--" + path.replace("_", "-"): hint for path, hint in field_types(kind).items()}
    arguments = list(_with_plain_counts(arguments, options))
    words = list(_split(arguments))
    try:
        with redirect_stderr(io.StringIO()), _REGISTRY:  # tyro prints a box around every error
            parsed: T
            parsed, extra = tyro.cli(kind, args=arguments, prog=command, return_unknown_args=True, **defaults)
    except SystemExit as stop:
        if not stop.code:  # --help
            raise
        required = [path.upper() for path, hint in field_types(kind).items() if _is_positional(hint)]
        sentence = _wrong_value(words, options) or f"{' '.join(required)} is missing: see {command} --help."
        raise UserError(sentence) from None
    except FieldError as error:  # of a group that checks itself
        raise UserError(_out_of_range("--" + error.path.replace("_", "-"), error.value, options)) from None
    if extra:
        raise UserError(_unknown(next(_split(extra)), words, options))
    for (flag, hint), (_, value) in zip(options.items(), flatten(parsed), strict=True):
        if _has_rule(hint) and not fits(value, hint):  # tyro has checked types, but not ranges
            raise UserError(_out_of_range(flag, value, options))
    return parsed


def _split(arguments: Sequence[str]) -> Iterator[str]:
    """Yield flags, spelled as in `--help`, and values: two words for `--flag=value`."""
    for argument in arguments:
        flag, *value = argument.split("=", 1)
        yield from [flag.replace("_", "-"), *value] if argument.startswith("--") else [argument]


def _out_of_range(flag: str, value: Any, options: dict[str, Any]) -> str:
    return f"{flag} is {value}, but must be {_in_words(options[flag])}."


def _with_plain_counts(arguments: Sequence[str], options: dict[str, Any]) -> Iterator[str]:
    """Write counts like 1e5 and 2.5e6, which are whole numbers, as Python writes them."""
    flag = ""
    for argument in arguments:
        name, separator, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        flag = name.replace("_", "-") or flag
        is_count = "whole number" in _in_words(options.get(flag, bool))
        plain = Decimal(value) if is_count and _SCIENTIFIC.fullmatch(value) else None
        yield argument if plain is None or plain != plain.to_integral_value() else f"{name}{separator}{int(plain)}"


def _unknown(word: str, words: list[str], options: dict[str, Any]) -> str:
    """Return a sentence about a word that is neither an option nor the value of one."""
    if word.startswith("--"):
        flags = [flag for flag, hint in options.items() if not _is_positional(hint)]
        return f"there is no option {word}: {nearest_name(word, flags)}"
    words_before = [before for before, each in itertools.pairwise(words) if each == word]
    flag = words_before[-1] if words_before else ""
    problem = f"{flag} takes no value, but got" if flag.startswith("--") else "unexpected argument"
    return f"{problem} '{word}': see --help."


def _wrong_value(words: list[str], options: dict[str, Any]) -> str | None:
    """Return a sentence about the first option whose value is missing or of the wrong type."""
    for place, flag in enumerate(words):
        hint = options.get(flag, bool)
        values = list(itertools.takewhile(lambda word: not word.startswith("--"), words[place + 1 :]))
        must = _in_words(hint)
        if not must.startswith("a list"):
            del values[1:]
        if must != "true or false" and not values:
            return f"{flag} must be followed by {must}."
        if must != "true or false" and not _parses(values, hint):
            return f"{flag} is '{' '.join(values)}', but must be {must}."
    return None


def _parses(values: list[str], hint: Any) -> bool:
    try:
        with redirect_stderr(io.StringIO()), _REGISTRY:
            tyro.cli(hint, args=values, console_outputs=False)
    except SystemExit:
        return False
    return True


def _has_rule(hint: Any) -> bool:
    return isinstance(hint, Rule) or any(map(_has_rule, get_args(hint)))


def _is_positional(hint: Any) -> bool:
    return tyro.conf.Positional in get_args(hint)


def _in_words(hint: Any) -> str:
    return in_words(hint).removesuffix(" or null")  # an option that is not given is null
