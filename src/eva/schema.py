"""Frozen dataclasses as a checked tree: rules on fields, to and from plain JSON types."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from eva.errors import UserError, nearest_name

T = TypeVar("T")


@dataclass(frozen=True)
class Rule:
    """What a value must be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


Count = Annotated[int, Rule("of at least 1", lambda n: n >= 1)]
CountOrZero = Annotated[int, Rule("of at least 0", lambda n: n >= 0)]
Share = Annotated[float, Rule("between 0 and 1", lambda x: 0 <= x <= 1)]
Positive = Annotated[float, Rule("above 0", lambda x: x > 0)]
Scale = Annotated[float, Rule("between 1e-100 and 1e100", lambda x: 1e-100 <= x <= 1e100)]  # its square is a number
Threads = Annotated[int, Rule("between 0 and 1024", lambda n: 0 <= n <= 1024)]
Name = Annotated[str, Rule("that can name a directory", lambda text: _can_name_a_directory(text))]
Sizes = Annotated[tuple[int, ...], Rule("of at least 1", lambda sizes: all(n >= 1 for n in sizes))]


def check(tree: Any, path: str = "") -> None:
    """Raise UserError for the first field of a wrong type or against its rule."""
    for name, hint in _hints(type(tree)).items():
        value, here = getattr(tree, name), f"{path}{name}"
        if is_dataclass(hint):
            check(value, f"{here}.")
        elif not _fits(value, hint):
            raise UserError(f"{here} is {value!r}, but must be {_words(hint)}.")


def wanted(kind: type, path: str) -> str:
    """Return, in words, what the field `path`, "group.field", of a tree of this kind must be."""
    name, _, rest = path.partition(".")
    hint = _hints(kind)[name]
    return wanted(hint, rest) if rest else _words(hint)


def to_dict(tree: Any) -> dict[str, Any]:
    """Return the tree as nested dicts of plain JSON types; equal trees give the same text."""
    return {name: _plain(getattr(tree, name), hint) for name, hint in _hints(type(tree)).items()}


def from_dict(kind: type[T], data: Any, path: str = "") -> T:
    """Build a tree from nested dicts; fields left out take their defaults, unknown ones raise UserError."""
    hints = _hints(kind)
    if not isinstance(data, Mapping):
        raise UserError(f"{path.rstrip('.') or 'the configuration'} must be a group of fields, not {data!r}.")
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in hints:
            raise UserError(f"there is no field {path}{name}: {nearest_name(str(name), hints)}")
        if is_dataclass(hints[name]):
            values[name] = from_dict(hints[name], value, f"{path}{name}.")
        else:
            values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def flatten(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf as ("group.field", value)."""
    for f in fields(tree):
        value = getattr(tree, f.name)
        if is_dataclass(value):
            yield from flatten(value, f"{path}{f.name}.")
        else:
            yield f"{path}{f.name}", value


_hints: Callable[[type], dict[str, Any]] = functools.cache(functools.partial(get_type_hints, include_extras=True))


def _plain(value: Any, hint: Any) -> Any:
    if is_dataclass(value):
        return to_dict(value)
    if isinstance(value, tuple):
        return list(value)
    return float(value) if type(value) is int and _takes_floats(hint) else value


def _takes_floats(hint: Any) -> bool:
    return hint is float or any(map(_takes_floats, get_args(hint)))


def _words(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        base, *rules = arguments
        return " ".join([_words(base), *(rule.words for rule in rules if isinstance(rule, Rule))])
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin in (Union, types.UnionType):
        return " or ".join(map(_words, arguments))
    if origin is tuple:
        return f"a list of {_words(arguments[0]).removeprefix('a ')}s"
    nouns = {float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "null"}
    return nouns.get(hint, "a path")


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        base, *rules = arguments
        return _fits(value, base) and all(rule.holds(value) for rule in rules)
    if origin is Literal:
        return value in arguments
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in arguments)
    return _is_a(value, hint)


def _is_a(value: Any, kind: Any) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_is_a(item, get_args(kind)[0]) for item in value)
    return isinstance(value, kind)


def _can_name_a_directory(text: str) -> bool:
    return text.isprintable() and text not in ("", ".", "..") and "/" not in text and len(text.encode()) <= 200
