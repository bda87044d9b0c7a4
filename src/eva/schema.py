"""Checks of frozen dataclasses, and their conversion to and from plain JSON types."""

import functools
import json
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from numbers import Integral, Real
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from eva.errors import UserError, nearest_name

T = TypeVar("T")


@dataclass(frozen=True)
class Rule:
    """The range of a field, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


class Arguments(Mapping[str, Any]):
    """Keyword arguments as a field: an immutable JSON object."""

    def __init__(self, content: Mapping[str, Any] | None = None) -> None:
        try:
            if not all(isinstance(name, str) for name in content or ()):
                raise ValueError("a name is not text")
            self._text = json.dumps(dict(content or {}), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise UserError(f"{content!r} are no keyword arguments ({error}): give names with JSON values.") from None

    def __getitem__(self, name: str) -> Any:
        return self._content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return self._text

    @property
    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._text)  # a copy, so that nothing inside can be changed
        return content


NO_ARGUMENTS = Arguments()


class FieldError(UserError):
    """A field is of a wrong type or out of its range; `path` is its name, such as "eva.trace"."""

    def __init__(self, path: str, value: Any, hint: Any) -> None:
        super().__init__(f"{path} is {value!r}, but must be {in_words(hint)}.")
        self.path, self.value = path, value


Count = Annotated[int, Rule("of at least 1", lambda n: n >= 1)]
CountOrZero = Annotated[int, Rule("of at least 0", lambda n: n >= 0)]
Share = Annotated[float, Rule("between 0 and 1", lambda x: 0 <= x <= 1)]
Positive = Annotated[float, Rule("above 0", lambda x: x > 0)]
Scale = Annotated[float, Rule("between 1e-100 and 1e100", lambda x: 1e-100 <= x <= 1e100)]  # its square is finite
Threads = Annotated[int, Rule("between 0 and 1024", lambda n: 0 <= n <= 1024)]
Name = Annotated[str, Rule("that can name a directory", lambda text: _can_name_a_directory(text))]
Shares = Annotated[tuple[float, ...], Rule("between 0 and 1", lambda shares: all(0 <= x <= 1 for x in shares))]
Sizes = Annotated[tuple[int, ...], Rule("of at least 1", lambda sizes: all(n >= 1 for n in sizes))]


def field_types(kind: Any) -> dict[str, Any]:
    """Return the type of each field of a dataclass and of the dataclasses in it, by its path "group.field"."""
    found: dict[str, Any] = {}
    for name, hint in _hints(kind).items():
        found |= {f"{name}.{path}": x for path, x in field_types(hint).items()} if is_dataclass(hint) else {name: hint}
    return found


def flatten(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield every field as ("group.field", value)."""
    return ((path, attrgetter(path)(tree)) for path in field_types(type(tree)))


def check(tree: Any, path: str = "") -> None:
    """Raise UserError for the first field of a wrong type or out of its range; NumPy's numbers become Python's.

    `path` is where the tree is ("eva.").
    """
    for name, hint in _hints(type(tree)).items():
        value = getattr(tree, name)
        if isinstance(hint, type) and is_dataclass(hint):
            if not isinstance(value, hint):
                raise UserError(
                    f"{path}{name} is {value!r}, but must be a {hint.__name__}: import it from eva.config, or change "
                    f"fields by dataclasses.replace(config.{path}{name}, ...)."
                )
            check(value, f"{path}{name}.")
            continue
        if value is not (built_in := _built_in(value)):
            object.__setattr__(tree, name, built_in)  # frozen: the same value, in a type that JSON knows
            value = built_in
        if not fits(value, hint):
            raise FieldError(path + name, value, hint)


def to_dict(tree: Any) -> dict[str, Any]:
    """Return nested dicts of plain JSON types; equal trees give the same text."""
    return {name: _plain(getattr(tree, name), hint) for name, hint in _hints(type(tree)).items()}


def from_dict(kind: type[T], data: Any, path: str = "") -> T:
    """Build a dataclass from nested dicts; missing fields take their defaults, unknown ones raise UserError."""
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


def changed(tree: T, values: Mapping[str, Any]) -> T:
    """Return a copy with some fields, such as "learner.batch_size", changed."""
    content = to_dict(tree)
    for path, value in values.items():
        *groups, last = path.split(".")
        branch = content
        for group in groups:
            branch = branch.setdefault(group, {})
            if not isinstance(branch, dict):
                raise UserError(f"there is no field {path}: {group} has no fields.")
        branch[last] = value
    return from_dict(type(tree), content)


def in_words(hint: Any) -> str:
    """Return what a value of this type must be: "a whole number of at least 1"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return " ".join([in_words(arguments[0]), *(rule.words for rule in _rules(hint))])
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin in (Union, types.UnionType):
        return " or ".join(map(in_words, arguments))
    if origin is tuple and get_origin(arguments[0]) is Literal:
        return f"a list of {in_words(arguments[0]).removeprefix('one of ')}"
    if origin is tuple:
        return f"a list of {in_words(arguments[0]).removeprefix('a ')}s"
    if hint is Arguments:
        return 'a JSON object, such as {"size": 5}'
    nouns = {float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "null"}
    return nouns.get(hint, "a path")


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of this type and keeps its rules; bool is not int, int is float."""
    value, origin, arguments = _built_in(value), get_origin(hint), get_args(hint)
    if origin is Annotated:
        return fits(value, arguments[0]) and all(rule.holds(value) for rule in _rules(hint))
    if origin is Literal:
        return value in arguments
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(item, arguments[0]) for item in value)
    if hint in (int, float) and isinstance(value, bool):
        return False
    if hint is float:
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return isinstance(value, hint) and (hint is not int or abs(value) < 2**63)


def _built_in(value: Any) -> Any:
    """Return a number of NumPy, or a tuple with some, as int or float; anything else as it is."""
    if isinstance(value, tuple) and not all(each is _built_in(each) for each in value):
        return tuple(map(_built_in, value))
    if isinstance(value, int | float) or not isinstance(value, Real):
        return value
    return operator.index(value) if isinstance(value, Integral) else float(value)


_hints: Callable[[type], dict[str, Any]] = functools.cache(functools.partial(get_type_hints, include_extras=True))


def _rules(hint: Any) -> list[Rule]:
    return [rule for rule in get_args(hint)[1:] if isinstance(rule, Rule)]


def _plain(value: Any, hint: Any) -> Any:
    if is_dataclass(value):
        return to_dict(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Arguments):
        return dict(value)
    return float(value) if type(value) is int and _takes_floats(hint) else value


def _takes_floats(hint: Any) -> bool:
    return hint is float or any(map(_takes_floats, get_args(hint)))


def _can_name_a_directory(text: str) -> bool:
    return text.isprintable() and text not in ("", ".", "..") and "/" not in text and len(text.encode()) <= 200
