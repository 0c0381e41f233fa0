"""Options made of settings: a preset, then a file, then what is given; refused in the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
import typer
from typer.testing import CliRunner

from kriss.cli.options import with_settings
from kriss.config import Setting, Settings, from_mapping
from kriss.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Baking(Settings):
    """One field of each sort."""

    presets: ClassVar[Mapping[str, Baking]]

    heat: Annotated[float, Setting("Heat of the oven.", "C", low=-3, high=300)] = 180.0
    loaves: Annotated[int, Setting("How many.", above=0)] = 1
    crust: Annotated[Literal["soft", "hard"], Setting("How hard it is.")] = "soft"
    steam: Annotated[bool, Setting("With steam.")] = False
    seeds: Annotated[tuple[str, ...], Setting("Seed on it. Repeatable.", "SEED", flag="--seed")] = ()
    grams: Annotated[Mapping[str, float], Setting("Of each. Repeatable.", "NAME=W", flag="--gram")] = field(
        default_factory=dict
    )
    shops: Annotated[tuple[str, ...], Setting("Where it is sold.", "FILE", from_file=True)] = ()


Baking.presets = {"bread": Baking(), "rolls": Baking(loaves=12, crust="hard")}
made: list[tuple[str, Baking]] = []
app = typer.Typer()


@app.command()
@with_settings
def bake(flour: Annotated[str, typer.Argument(help="Its sort.")], *, settings: Baking) -> None:
    """Bake."""
    made.append((flour, settings))


def baked(*words: str) -> Baking:
    made.clear()
    CliRunner().invoke(app, ["rye", *words], catch_exceptions=False)
    [(flour, settings)] = made
    assert flour == "rye"
    return settings


def test_a_preset_then_a_file_then_options(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('loaves = 5\nseeds = ["oat"]\n')
    (tmp_path / "shops").write_text("one\n\n two \n")
    assert baked() == Baking()
    assert baked("--preset", "rolls") == Baking(loaves=12, crust="hard")
    both = ("--preset", "rolls", "--config", str(file))
    assert baked(*both) == Baking(loaves=5, crust="hard", seeds=("oat",))
    assert baked(*both, "--loaves", "1", "--seed", "rye", "--seed", "flax").seeds == ("rye", "flax")
    assert baked(*both, "--loaves", "1").loaves == 1  # a default that is asked for overrides, too
    assert baked("--steam", "--heat", "-1", "--gram", "salt=2", "--gram", "malt=0.5") == Baking(
        heat=-1.0, steam=True, grams={"salt": 2.0, "malt": 0.5}
    )
    assert baked("--shops", str(tmp_path / "shops")).shops == ("one", "two")


@pytest.mark.parametrize(
    ("words", "values", "said"),
    [
        (["--heat", "301"], {"heat": 301}, "'heat' is a number from -3 to 300, not 301.0"),
        (["--loaves", "0"], {"loaves": 0}, "'loaves' must be more than 0, not 0"),
        (["--crust", "burnt"], {"crust": "burnt"}, "'crust' must be one of soft, hard, not 'burnt'"),
        (["--gram", "salt=-1"], {"grams": {"salt": -1}}, "'grams' must be at least 0, not -1.0"),
        (["--heat", "nan"], {"heat": float("nan")}, "'heat' must be a number, not nan"),
    ],
)
def test_one_refusal_wherever_it_is_said(words: list[str], values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        baked(*words)
    with pytest.raises(ConfigError, match=f"bread.toml: {said}"):
        from_mapping(Baking, values, "bread.toml")


def test_help_says_name_default_and_choices() -> None:
    shown = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output.split())
    for part in (
        "--heat",
        "Heat of the oven.",
        "180.0",
        "soft|hard",
        "--no-steam",
        "--gram",
        "NAME=W",
        "bread or rolls",
    ):
        assert part in shown
