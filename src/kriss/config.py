"""Stage settings are frozen dataclasses; this module fills them from TOML or JSON, strictly.

A key that no field has is an error, as is a value of the wrong type: a setting that is
silently ignored costs a day of somebody's training run.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kriss.errors import ConfigError, InputError, Place

T = TypeVar("T")


def from_mapping(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """Build the settings dataclass `cls` from plain values; `where` names their origin in errors."""
    hints = typing.get_type_hints(cls)
    known = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key '{key}'; {hint}")
    missing = [
        name
        for name, field in known.items()
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: key '{missing[0]}' is required")
    return cls(**{key: _coerce(value, hints[key], f"{where}: key '{key}'") for key, value in values.items()})


def to_mapping(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any settings dataclass
    """Return plain JSON values of a settings dataclass, for a manifest."""
    return {key: _plain(value) for key, value in dataclasses.asdict(settings).items()}


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a syntax error names the file and the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no such file", Place(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid TOML: {error}", Place(path)) from None


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """Return what options such as `--set batch=256` say; a value that is not TOML is a bare word.

    >>> parse_settings(["batch=256", "pooling=mean", 'fields=["names"]'])
    {'batch': 256, 'pooling': 'mean', 'fields': ['names']}
    """
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: expected KEY=VALUE")
        try:
            values[key.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = text.strip()
    return values


def _plain(value: object) -> object:
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


def _coerce(value: object, hint: Any, where: str) -> object:  # noqa: ANN401 - a typing construct
    """Check `value` against the annotation `hint`; lists become tuples, ints become floats."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        return _coerce(value, next(arg for arg in args if arg is not type(None)), where)
    if origin is typing.Literal:
        if value not in args:
            raise ConfigError(f"{where}: {value!r} is not one of {', '.join(map(str, args))}")
        return value
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_coerce(item, args[0], where) for item in value)
    if origin is dict and isinstance(value, Mapping):
        return {key: _coerce(item, args[1], where) for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    expected = origin or hint
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise ConfigError(f"{where}: expected {getattr(expected, '__name__', expected)}, got {value!r}")
    return value
