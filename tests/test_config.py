"""Settings are filled strictly: a key that would be ignored is an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from kriss.config import from_mapping, read_toml, to_mapping
from kriss.errors import ConfigError, InputError


@dataclass(frozen=True)
class Settings:
    """One field of each sort that stages use."""

    kind: Literal["small", "large"]
    steps: int = 10
    rate: float = 0.5
    deep: bool = False
    names: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)
    limit: int | None = None
    file: Path | None = None


def settings(**values: Any) -> Settings:
    return from_mapping(Settings, {"kind": "small"} | values, "recipe.toml")


def test_values_and_defaults() -> None:
    assert settings() == Settings("small")
    assert settings(steps=3, rate=0.1, deep=True, extra={"a": "b"}) == Settings(
        "small", 3, 0.1, deep=True, extra={"a": "b"}
    )


def test_unknown_key_with_and_without_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"recipe\.toml: unknown key 'step'; did you mean 'steps'\?"):
        settings(step=3)
    with pytest.raises(ConfigError, match=r"unknown key 'zzz'; known keys: kind, steps"):
        settings(zzz=3)


def test_missing_key() -> None:
    with pytest.raises(ConfigError, match=r"recipe\.toml: key 'kind' is required"):
        from_mapping(Settings, {}, "recipe.toml")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("steps", "3"),
        ("steps", 3.5),
        ("steps", True),
        ("steps", None),
        ("rate", "fast"),
        ("rate", True),
        ("deep", 1),
        ("deep", "yes"),
        ("names", "one"),
        ("names", [1]),
        ("names", {"a": 1}),
        ("extra", ["a"]),
        ("extra", {"a": 1}),
        ("limit", "none"),
        ("file", 3),
    ],
)
def test_wrong_type_names_the_key(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"recipe\.toml: '{key}' must be [\w ]+, not "):
        settings(**{key: value})


def test_literal_lists_its_choices() -> None:
    with pytest.raises(ConfigError, match=r"'kind' must be one of small, large, not 'huge'"):
        settings(kind="huge")
    with pytest.raises(ConfigError, match="must be one of"):
        settings(kind=["small"])


def test_coercion() -> None:
    assert settings(names=["a", "b"]).names == ("a", "b")
    assert settings(rate=1).rate == 1.0
    assert isinstance(settings(rate=1).rate, float)
    assert settings(limit=None).limit is None
    assert settings(limit=4).limit == 4
    assert settings(file="a/b").file == Path("a/b")


def test_round_trip_through_plain_values() -> None:
    full = Settings("large", 1, 0.25, True, ("a",), {"x": "y"}, 3, Path("p"))
    plain = to_mapping(full)
    assert plain["names"] == ["a"]
    assert plain["file"] == "p"
    assert from_mapping(Settings, plain, "x") == full


def test_read_toml(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('kind = "small"\nsteps = 3\n')
    assert read_toml(tmp_path / "a.toml") == {"kind": "small", "steps": 3}
    (tmp_path / "b.toml").write_text('kind = "small"\nsteps = = 3\n')
    with pytest.raises(InputError, match=r"b\.toml.*line 2"):
        read_toml(tmp_path / "b.toml")
    (tmp_path / "c.toml").write_bytes(b'kind = "\xff"\n')
    with pytest.raises(InputError, match=r"c\.toml"):
        read_toml(tmp_path / "c.toml")
    with pytest.raises(InputError, match="no such file"):
        read_toml(tmp_path / "d.toml")
