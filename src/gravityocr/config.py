"""Load, merge, check and dump configurations: frozen dataclasses over TOML.

A configuration is a frozen dataclass beside its consumer; its fields are `str`, `int`, `float`, `bool`,
`Path`, `Literal`, `tuple`, `dict[str, X]`, optional ones of these, and other such dataclasses (TOML tables).
TOML has no null: an optional field that holds None is written, and read, as the string `"none"`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gravityocr.errors import ConfigError

T = TypeVar("T")
NONE_WORD = "none"
_MOST_BITS = 1000  # of an integer: a float can hold it, and it can be printed
_LONGEST_SHOWN = 120  # characters of a value in a message


def load_config(cls: type[T], path: str | Path | None = None, overrides: Sequence[str] = ()) -> T:
    """Build `cls` from its defaults, the TOML file at `path` and `section.key=value` overrides.

    Each is merged over the one before it: tables key by key, every other value as a whole. The value of an
    override is read as TOML, and as plain text where that does not parse or does not fit the field; a list of words
    may be written with commas alone.

    *Raises*: ConfigError for a file that cannot be read, an unknown key (with the nearest known one), a
    missing one, and a value of the wrong type or one that the dataclass itself refuses (ValueError).
    """
    where = str(path) if path is not None else cls.__name__
    try:
        table = _read_toml(Path(path)) if path is not None else {}
        for override in overrides:
            table = _merge(table, _override_table(override))
        return _build(cls, table, None, where)
    except RecursionError as error:
        given = where if not overrides else f"{where}, --set {_shown(', '.join(overrides))}"
        raise ConfigError(f"{given}: is nested too deeply; no setting needs more than a few levels") from error


def dump_config(cfg: object) -> str:
    """Write a resolved configuration as TOML text that `load_config` reads back to an equal object."""
    lines = _table_lines(_plain_table(cfg), ())
    return "\n".join(lines).lstrip("\n") + "\n"


def check_numbers(config: object, section: str, optional: Collection[str] = (), **limits: tuple[float, float]) -> None:
    """Check that fields are numbers within closed limits: integers where the limits are, tuples item by item.

    *Raises*: ConfigError naming `section` and the field; one in `optional` may be None.
    """
    for name, (low, high) in limits.items():
        value = getattr(config, name)
        if value is None and name in optional:
            continue
        whole = type(low) is int and type(high) is int
        for item in value if isinstance(value, tuple) else (value,):
            # type() and not isinstance: True is no number here. A NaN lies within no limits.
            known = type(item) is int or (type(item) is float and not whole)
            if not known or not low <= item <= high:
                kind = "an integer" if whole else "a number"
                raise ConfigError(f"{section}{name} is {value!r}; choose {kind} from {low} to {high}")


# Reading ------------------------------------------------------------------------------------------


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name a TOML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error
    except ValueError as error:  # an integer of thousands of digits
        raise ConfigError(f"{path}: holds a number that cannot be read ({error}); write a smaller one") from error


@dataclass(frozen=True)
class _Typed:
    """A value as typed after `--set`; its field decides whether it is TOML or plain text."""

    text: str
    where: str

    def __repr__(self) -> str:
        return repr(self.text)


def _override_table(override: str) -> dict[str, Any]:
    name, equals, text = override.partition("=")
    keys = [key.strip() for key in name.split(".")]
    where = f"--set {_shown(override)}"
    if not equals or not all(keys):
        raise ConfigError(f"{where}: is not of the form section.key=value")
    parsed = _toml_value(text.strip())
    value: Any = parsed if isinstance(parsed, dict) else _Typed(text.strip(), where)
    for key in reversed(keys):
        value = {key: value}
    return value


def _shown(value: str) -> str:
    """Return a text as a message shows it: only its head, where it is long."""
    return value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}... ({len(value)} characters)"


def _toml_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, an integer of thousands of digits, thousands of brackets
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merge(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _origin(value: Any, where: str) -> str:
    """Say where a value came from: the override that it is or holds, else `where`."""
    while isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    return value.where if isinstance(value, _Typed) else where


# Checking -----------------------------------------------------------------------------------------


def _build(cls: type[T], given: Mapping[str, Any], base: T | None, where: str, prefix: str = "") -> T:
    """Merge a table over `base` (over the defaults of `cls` where there is none) and check it."""
    known = {field.name: field for field in fields(cls) if field.init}  # type: ignore[arg-type]
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            near = _suggestion(key, known)
            raise ConfigError(f"{_origin(value, where)}: unknown key '{prefix}{key}'{near}")
        current = getattr(base, key) if base is not None else _default(known[key])
        values[key] = _convert(hints[key], value, current, where, prefix + key)
    missing = [name for name, field in known.items() if name not in values and _default(field) is MISSING]
    if base is None and missing:
        raise ConfigError(f"{where}: '{prefix}{missing[0]}' has no default; set it")
    try:
        return replace(base, **values) if base is not None else cls(**values)  # type: ignore[type-var]
    except ValueError as error:  # the dataclass's own check of ranges
        raise ConfigError(f"{where}: {prefix or cls.__name__}: {error}") from error


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _suggestion(word: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(word, names, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; known here: {', '.join(names) or 'nothing'}"


def _convert(hint: Any, value: Any, current: Any, where: str, key: str) -> Any:
    """Check `value` against the type `hint`; `current` is what a table is merged over."""
    if isinstance(value, _Typed):
        return _convert_typed(hint, value, current, key)
    if type(value) is int and value.bit_length() > _MOST_BITS:
        raise ConfigError(f"{where}: '{key}' is an integer of {value.bit_length()} bits; write a smaller one")
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union or origin is UnionType:
        return _convert_union(arguments, value, current, where, key)
    if origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
        choices = [str(choice) for choice in arguments]
        raise ConfigError(
            f"{where}: '{key}' is {_shown(repr(value))}{_suggestion(str(value), choices)} (one of {', '.join(choices)})"
        )
    if origin is tuple and isinstance(value, (list, tuple)):
        return _convert_tuple(arguments, value, where, key)
    if origin is dict and isinstance(value, dict):
        merged = dict(current) if isinstance(current, dict) else {}
        for name, item in value.items():
            below = merged.get(name, MISSING)
            merged[name] = _convert(arguments[1], item, below, where, f"{key}.{name}")
        return merged
    if isinstance(hint, type) and is_dataclass(hint) and isinstance(value, dict):
        return _build(hint, value, current if isinstance(current, hint) else None, where, f"{key}.")
    if hint is float and type(value) is int:
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is Any or (hint in (str, int, float, bool) and type(value) is hint):
        return value
    raise ConfigError(f"{where}: '{key}' must be {_describe(hint)}, not {_shown(repr(value))}")


def _convert_typed(hint: Any, value: _Typed, current: Any, key: str) -> Any:
    parsed = _toml_value(value.text)
    try:
        return _convert(hint, parsed, current, value.where, key)
    except ConfigError:
        if get_origin(hint) is tuple and not value.text.startswith("[") and any(map(_takes_text, get_args(hint))):
            return _convert(hint, [part.strip() for part in value.text.split(",")], current, value.where, key)
        if not _takes_text(hint):
            raise
        return _convert(hint, value.text, current, value.where, key)


def _takes_text(hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return any(isinstance(choice, str) for choice in arguments)
    if origin is Union or origin is UnionType:
        return any(map(_takes_text, arguments))
    return hint in (str, Path)


def _convert_union(arguments: tuple[Any, ...], value: Any, current: Any, where: str, key: str) -> Any:
    if NoneType in arguments and value == NONE_WORD:
        return None
    members = [member for member in arguments if member is not NoneType]
    # An exact type first, so that `int | float` keeps an int and `str | Path` a string.
    for member in sorted(members, key=lambda member: type(value) is not member):
        try:
            return _convert(member, value, current, where, key)
        except ConfigError:
            if len(members) == 1:
                raise  # the only candidate says best what is wrong
    described = _describe(Union[arguments])  # noqa: UP007 (a union of what is only known here)
    raise ConfigError(f"{where}: '{key}' must be {described}, not {_shown(repr(value))}")


def _convert_tuple(arguments: tuple[Any, ...], value: Sequence[Any], where: str, key: str) -> tuple[Any, ...]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(value) != len(arguments):
        raise ConfigError(f"{where}: '{key}' needs {len(arguments)} values, not {len(value)}")
    return tuple(
        _convert(hint, item, MISSING, where, f"{key}[{index}]")
        for index, (hint, item) in enumerate(zip(arguments, value, strict=True))
    )


def _describe(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union or origin is UnionType:
        return " or ".join(NONE_WORD if member is NoneType else _describe(member) for member in arguments)
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin is tuple:
        return "a list"
    if origin is dict or is_dataclass(hint):
        return "a table"
    names = {str: "a string", int: "an integer", float: "a number", bool: "true or false", Path: "a path"}
    return names.get(hint, str(hint))


# Writing ------------------------------------------------------------------------------------------


def _plain_table(cfg: Any) -> dict[str, Any]:
    """Turn a dataclass into a dict one level deep, leaving out what its constructor does not take."""
    return {field.name: getattr(cfg, field.name) for field in fields(cfg) if field.init}


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (is_dataclass(value) and not isinstance(value, type))


def _table_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """List the lines of a table: its values first, as TOML demands, then its sub-tables."""
    lines = [f"{_key(name)} = {_inline(value)}" for name, value in table.items() if not _is_table(value)]
    if path and (lines or not table):
        lines.insert(0, f"\n[{'.'.join(map(_key, path))}]")
    for name, value in table.items():
        if _is_table(value):
            inner = value if isinstance(value, dict) else _plain_table(value)
            lines += _table_lines(inner, (*path, name))
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which only TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline(value: Any) -> str:
    if value is None:
        return _string(NONE_WORD)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(float(value) if isinstance(value, float) else int(value))
    if isinstance(value, (str, Path)):
        return _string(str(value))
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if _is_table(value):
        table = value if isinstance(value, dict) else _plain_table(value)
        return "{" + ", ".join(f"{_key(name)} = {_inline(item)}" for name, item in table.items()) + "}"
    raise ConfigError(f"{type(value).__name__} {value!r} has no TOML form; use a string, number or tuple")
