"""Settings of a stage: one frozen dataclass, whose fields are options of its command and keys of its TOML, too.

    @dataclass(frozen=True, slots=True)
    class LinkConfig(Settings):
        threshold: Annotated[float, Setting("Link to nothing where it is less likely right than this.", high=1)] = 0.0

Name, default, help and bounds of a setting stand there and nowhere else. `kriss.cli.options` makes options of them.
Settings that make no sense cannot be made, and a key that no field has is an error: a setting that is silently
ignored costs a day of somebody's training run.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from kriss.errors import ConfigError, InputError, Place

T = TypeVar("T")
_MOST = sys.float_info.max
_NAMES: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    tuple: "a list",
    list: "a list",
    dict: "a table",
    Mapping: "a table",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What a field says of itself: its help, and which numbers it takes."""

    help: str
    metavar: str = ""
    low: float = 0
    """The least number; a setting that may be negative says so."""
    high: float = _MOST
    above: float | None = None
    """It must be more than this."""
    flag: str = ""
    """Its option, if that is not its name: one that is repeated has a singular name."""
    from_file: bool = False
    """Its option names a file that has one value a line."""

    def option(self, name: str) -> str:
        """Return the option of the field of that name."""
        return self.flag or f"--{name.replace('_', '-')}"

    def refusal(self, value: float) -> str:
        """Return what is wrong with a number; nothing if it will do."""
        if self.high < math.inf and not math.isfinite(value):
            return f"must be a number, not {value}"
        if self.above is not None and not value > self.above:
            return f"must be more than {self.above:g}, not {value}"
        if self.low <= value <= self.high:
            return ""
        if self.high >= _MOST:
            return f"must be at least {self.low:g}, not {value}"
        return f"is a number from {self.low:g} to {self.high:.10g}, not {value}"


class Settings:
    """Base of all settings: they are checked when they are made, in Python as on the command line."""

    __slots__ = ()
    presets: ClassVar[Mapping[str, Any]] = {}
    """Sets of answers by name; the first is what a command takes if none is named."""

    def __post_init__(self) -> None:
        for name, (hint, setting) in described(type(self)).items():
            if fault := _fault(getattr(self, name), hint, setting):
                raise ConfigError(f"'{name}' {fault}")
        self.check()

    def check(self) -> None:
        """Refuse settings that make no sense together."""

    @staticmethod
    def implied(values: dict[str, Any]) -> dict[str, Any]:
        """Return values that are given for some fields, and what they say about others."""
        return values


def described(cls: type) -> Mapping[str, tuple[Any, Setting]]:
    """Return the type of each field, and what it says of itself."""
    return _described(cls)


@functools.cache
def _described(cls: type) -> Mapping[str, tuple[Any, Setting]]:
    found: dict[str, tuple[Any, Setting]] = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        plain, *extras = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        setting = next((extra for extra in extras if isinstance(extra, Setting)), Setting("", low=-math.inf))
        found[name] = plain, setting
    return {field.name: found[field.name] for field in dataclasses.fields(cls)}


def defaults(cls: type) -> dict[str, Any]:
    """Return the default of each field that has one."""
    found = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def from_mapping(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """Make settings of plain values; `where` names their origin in errors."""
    given = typed(cls, values, where)
    if missing := [name for name in described(cls) if name not in {*given, *defaults(cls)}]:
        raise ConfigError(f"{where}: key '{missing[0]}' is required")
    return cls(**given)


def changed(settings: T, values: Mapping[str, Any], where: str) -> T:
    """Return the settings with other values for some of them."""
    return dataclasses.replace(settings, **typed(type(settings), values, where))  # type: ignore[type-var]


def typed(cls: type, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return values for some fields of settings as these have them, or refuse them."""
    known = described(cls)
    found = {}
    for key, value in values.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key '{key}'; {hint}")
        hint, setting = known[key]
        found[key] = _coerced(value, hint)
        if fault := _fault(found[key], hint, setting):
            raise ConfigError(f"{where}: '{key}' {fault}")
    return cls.implied(found) if issubclass(cls, Settings) else found


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
    """Return what words such as `batch=256` say; a value that is not TOML is a bare word.

    >>> parse_settings(["batch=256", "pooling=mean", 'fields=["names"]'])
    {'batch': 256, 'pooling': 'mean', 'fields': ['names']}
    """
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"{setting}: expected KEY=VALUE")
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


def _without_none(hint: Any) -> Any:  # noqa: ANN401 - a typing construct
    """Return what a hint such as `int | None` is besides None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return hint


def _coerced(value: object, hint: Any) -> object:  # noqa: ANN401 - a typing construct
    """Return a value of TOML or JSON as the field has it: lists are tuples, whole numbers floats, text a path."""
    hint = _without_none(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_coerced(item, args[0]) for item in value)
    if origin is not None and isinstance(value, Mapping) and len(args) > 1:
        return {key: _coerced(item, args[1]) for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return Path(value) if hint is Path and isinstance(value, str) else value


def _fault(value: object, hint: Any, setting: Setting) -> str:  # noqa: ANN401 - a typing construct
    """Return what is wrong with the value of a field; nothing if it will do."""
    if value is None and type(None) in typing.get_args(hint):
        return ""
    hint = _without_none(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "" if value in args else f"must be one of {', '.join(map(str, args))}, not {value!r}"
    expected = origin or hint
    fits = isinstance(value, (int, float) if expected is float else expected)  # in Python, 0 is a fine 0.0
    if not fits or (expected is not bool and isinstance(value, bool)):
        return f"must be {_NAMES.get(expected, getattr(expected, '__name__', str(expected)))}, not {value!r}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return setting.refusal(value)
    if not args or not isinstance(value, tuple | list | Mapping):
        return ""
    items, hint = (value.values(), args[1]) if isinstance(value, Mapping) else (value, args[0])
    return next((fault for item in items if (fault := _fault(item, hint, setting))), "")
