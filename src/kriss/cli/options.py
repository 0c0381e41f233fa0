"""Options of a command made of its settings: each field of a `Settings` class is one, with its name, default and help.

    @app.command()
    @with_settings
    def link(linker: LinkerFolder, *, settings: LinkConfig) -> None:

The command is called with one object, made of a preset, then of `--config FILE`, then of the options that were given;
one that has a parameter `given` is told what was not left to defaults.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kriss.config import Setting, Settings, defaults, described, read_toml, typed
from kriss.errors import ConfigError
from kriss.files import BadRows, read_lines

PANEL = "Settings"
_File = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML; options override it.")]


def with_settings(command: Callable[..., None], *, only: Sequence[str] = ()) -> Callable[..., None]:
    """Replace the parameter `settings` of a command by an option for each of its fields, and one for a file of them.

    A command on which the other fields have no effect has options for `only` some.
    """
    own = dict(inspect.signature(command, eval_str=True).parameters)
    wanted: type[Settings] = own.pop("settings").annotation
    wants_given = own.pop("given", None) is not None
    presets = wanted.presets
    shown = _values(presets[next(iter(presets))]) if presets else defaults(wanted)
    made = {"config_file": _parameter("config_file", _File, None)}
    if presets:
        help = f"{' or '.join(presets)}: settings to begin with, which a file and options override."
        hint = Annotated[str, typer.Option(metavar="NAME", help=help)]
        made["preset"] = _parameter("preset", hint, next(iter(presets)))
    fields = {name: field for name, field in described(wanted).items() if name in only or not only}
    for name, (hint, setting) in fields.items():
        made[name] = _setting(name, hint, setting, shown)
    if twice := {*made} & {*own}:
        raise TypeError(f"{command.__name__} has options of its own that its settings have, too: {', '.join(twice)}")
    made["_context"] = _parameter("_context", typer.Context, inspect.Parameter.empty)
    ordered = sorted([*made.values(), *own.values()], key=lambda one: _rank(one, own))
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in ordered]

    def run(_context: typer.Context, **given: Any) -> None:  # noqa: ANN401 - whatever the command takes
        start = defaults(wanted)
        if presets:
            if given["preset"] not in presets:
                raise ConfigError(f"--preset is one of {', '.join(presets)}, not '{given['preset']}'")
            start = _values(presets[given["preset"]])
        file = given["config_file"]
        in_file = typed(wanted, read_toml(file), str(file)) if file else {}
        options = {name: _read(given[name], *field) for name, field in fields.items() if _is_told(_context, name)}
        told = in_file | typed(wanted, options, _command_of(_context))
        extra = {"given": told} if wants_given else {}
        command(**{name: given[name] for name in own}, **extra, settings=wanted(**start | told))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _command_of(context: Any) -> str:  # noqa: ANN401 - click's own, which typer hides
    """Return a command as it is typed; the usual one of a group has no name of its own."""
    return f"{_command_of(context.parent)} {context.info_name}".removesuffix(" run") if context.parent else "kriss"


def _rank(parameter: inspect.Parameter, own: Mapping[str, object]) -> int:
    """Return where a parameter stands in the help: arguments that settings need first, options of settings last."""
    return 1 if parameter.name in own else 0 if parameter.default is inspect.Parameter.empty else 2


def _values(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in described(type(settings))}


def _is_told(context: typer.Context, name: str) -> bool:
    """Whether an option was given, not only has a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")


def _setting(name: str, hint: Any, setting: Setting, shown: Mapping[str, Any]) -> inspect.Parameter:  # noqa: ANN401
    """Return a field as typer wants it: an option, or an argument if there is no default."""
    origin = typing.get_origin(hint)
    choices = [str(one) for one in typing.get_args(hint)] if origin is Literal else []
    metavar = setting.metavar or "|".join(choices) or {int: "N", float: "X"}.get(hint)
    if name not in shown:
        argument = Annotated[str, typer.Argument(metavar=metavar or name.upper(), help=setting.help)]
        return _parameter(name, argument, inspect.Parameter.empty)
    flag = setting.option(name)
    default = shown[name]
    kind: Any = hint if hint in (bool, int, float, str) or type(None) in typing.get_args(hint) else str
    if setting.from_file:
        kind, default = Path | None, None
    elif origin is not None and origin is not Literal and type(None) not in typing.get_args(hint):
        items = default.items() if isinstance(default, Mapping) else default
        kind, default = list[str], [f"{one[0]}={one[1]}" if isinstance(one, tuple) else str(one) for one in items]
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=setting.help,
        metavar=metavar,
        show_default=default not in ("", [], None),
        rich_help_panel=PANEL,
    )
    return _parameter(name, Annotated[kind, option], default)


def _parameter(name: str, hint: Any, default: object) -> inspect.Parameter:  # noqa: ANN401 - a typing construct
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _read(value: Any, hint: Any, setting: Setting) -> object:  # noqa: ANN401 - what typer read
    """Return the value of an option as TOML would have it."""
    if setting.from_file:
        lines = [text for _, line in read_lines(value, BadRows(skip=False)) if (text := line.strip())]
        if not lines:
            raise ConfigError(f"{value} has no line to read; write one value a line")
        return lines
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if not isinstance(value, list | tuple) or origin is tuple:
        return value
    pairs = {}
    for one in value:
        key, equals, text = one.partition("=")
        if not (key and equals and text):
            raise ConfigError(f"{setting.flag} wants {setting.metavar}, not '{one}'")
        try:
            pairs[key] = args[1](text)
        except ValueError:
            raise ConfigError(f"{setting.flag} wants {setting.metavar} with a number, not '{one}'") from None
    return pairs
