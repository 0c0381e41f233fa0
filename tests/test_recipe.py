"""Recipes: what is run, what is skipped, and what is left when a stage fails."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from kriss.cli import app, run
from kriss.errors import ConfigError
from kriss.recipe import Recipe

SCRIPT = """
import sys
from pathlib import Path
out, text, *inputs = sys.argv[1:]
if text == "fail":
    sys.exit(3)
if text == "nothing":
    sys.exit(0)
if Path(out).is_dir():
    (Path(out) / "more").write_text(text)
else:
    Path(out).write_text(text + "".join(Path(one).read_text() for one in inputs))
with open(Path(__file__).with_name("ran"), "a") as log:
    log.write(text + chr(10))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "write.py").write_text(SCRIPT)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in.txt").write_text("data")
    return tmp_path


def recipe(folder: Path, *stages: str) -> Path:
    (folder / "r.toml").write_text("\n".join(f"[[stage]]\n{stage}" for stage in stages))
    return folder / "r.toml"


def ran(folder: Path) -> list[str]:
    log = folder / "ran"
    found = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return found


def go(folder: Path, *options: str) -> int:
    return run(["run", str(folder / "r.toml"), "--out", str(folder / "out"), "--data", str(folder / "data"), *options])


def test_stages_run_once_and_again_when_something_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = [
        'name = "a"\nscript = "write.py {out} one {data}/in.txt"',
        'name = "b"\nfile = "deep/b.txt"\nscript = "write.py {out} two {a}"',
        'name = "c"\nscript = "write.py {out} three"',
    ]
    recipe(folder, *stages)
    assert go(folder) == 0
    assert ran(folder) == ["one", "two", "three"]
    assert (folder / "out" / "deep" / "b.txt").read_text() == "twoonedata"
    assert go(folder) == 0
    assert ran(folder) == []
    assert capsys.readouterr().err.count("as it was") == 3
    recipe(folder, stages[0], stages[1].replace("two", "zwei"), stages[2])
    assert go(folder) == 0
    assert ran(folder) == ["zwei"]
    (folder / "data" / "in.txt").write_text("other data")
    assert go(folder) == 0
    assert ran(folder) == ["one", "zwei"]  # what uses it, too
    (folder / "out" / "c").unlink()
    assert go(folder, "--only", "b") == 0
    assert ran(folder) == []
    assert go(folder, "--only", "c", "--again", "a") == 0
    assert ran(folder) == ["one", "three"]
    assert go(folder) == 0
    assert ran(folder) == ["zwei"]  # made from what "a" wrote before
    (folder / "out" / "a").unlink()
    assert go(folder) == 0
    assert ran(folder) == ["one", "zwei"]
    assert go(folder) == 0
    assert ran(folder) == []
    assert json.loads((folder / "out" / ".stages" / "a.json").read_text())["seconds"] >= 0


def test_a_stage_for_each(folder: Path) -> None:
    path = recipe(
        folder,
        'name = "x-{n}"\nfile = "x/{n}.txt"\nscript = "write.py {out} {n}"\neach = [{n = "1"}, {n = "2"}]',
        'name = "sum"\nscript = "write.py {out} s {x-1} {x-2}"',
    )
    assert [stage.name for stage in Recipe.load(path).stages] == ["x-1", "x-2", "sum"]
    assert go(folder) == 0
    assert (folder / "out" / "sum").read_text() == "s12"
    assert (folder / "out" / "x" / "2.txt").exists()


def test_a_stage_for_each_of_both(folder: Path) -> None:
    path = recipe(
        folder,
        'name = "{o}"\nscript = "write.py {out} {o}"\neach = [{o = "p"}, {o = "q"}]',
        'name = "{a}-{b}"\nscript = "write.py {out} {a}{b} {{o}}"\n'
        'each = [{a = "x", o = "p"}, {a = "y", o = "q"}]\nby = [{b = "1"}, {b = "2"}]',
    )
    assert [stage.name for stage in Recipe.load(path).stages] == ["p", "q", "x-1", "x-2", "y-1", "y-2"]
    assert go(folder) == 0
    assert (folder / "out" / "y-1").read_text() == "y1q"


def test_a_copy_is_changed_and_the_original_is_not(folder: Path) -> None:
    (folder / "mkdir.py").write_text("import sys, pathlib; pathlib.Path(sys.argv[1]).mkdir()")
    first = 'name = "base"\nscript = "mkdir.py {out}"'
    recipe(folder, first, 'name = "changed"\ncopy = "base"\nscript = "write.py {out} new"')
    assert go(folder) == 0
    assert not (folder / "out" / "base" / "more").exists()
    assert (folder / "out" / "changed" / "more").read_text() == "new"
    recipe(folder, first, 'name = "changed"\ncopy = "base"\nscript = "write.py {out} fail"')
    assert go(folder) == 1
    assert (folder / "out" / "changed" / "more").read_text() == "new"  # nothing lost


def test_a_failure_stops_the_recipe_and_is_tried_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe(folder, 'name = "a"\nscript = "write.py {out} one"', 'name = "b"\nscript = "write.py {out} fail"',
           'name = "c"\nscript = "write.py {out} three"')  # fmt: skip
    assert go(folder) == 1
    assert "stage 'b'" in capsys.readouterr().err.splitlines()[-1]
    assert ran(folder) == ["one"]
    recipe(folder, 'name = "a"\nscript = "write.py {out} one"', 'name = "b"\nscript = "write.py {out} nothing"')
    assert go(folder) == 1
    assert "wrote no" in capsys.readouterr().err
    assert ran(folder) == []
    recipe(folder, 'name = "a"\nscript = "write.py {out} fail"')
    assert go(folder) == 1
    assert (folder / "out" / "a").read_text() == "one"  # what a stage wrote before is not lost


def test_what_a_killed_run_moved_aside_is_put_back(folder: Path) -> None:
    recipe(folder, 'name = "a"\nscript = "write.py {out} one"')
    assert go(folder) == 0
    out = folder / "out"
    (out / "a").rename(out / ".a.before")
    (out / "a").write_text("half")
    assert go(folder) == 0
    assert ran(folder) == ["one"]  # once: what was whole is taken again
    assert (out / "a").read_text() == "one"
    assert not (out / ".a.before").exists()


def test_what_no_stage_made_is_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe(folder, 'name = "a"\nscript = "write.py {out} one"')
    (folder / "out").mkdir()
    (folder / "out" / "a").write_text("mine")
    assert go(folder) == 1
    assert "stage 'a' did not make it" in capsys.readouterr().err
    assert (folder / "out" / "a").read_text() == "mine"
    assert ran(folder) == []


def test_what_a_stage_did_not_make_is_not_replaced_when_it_writes_elsewhere(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = 'name = "a"\nfile = "one.txt"\nscript = "write.py {out} x"'
    recipe(folder, stage)
    assert go(folder) == 0
    (folder / "out/two.txt").write_text("by hand")
    recipe(folder, stage.replace("one.txt", "two.txt"))
    assert go(folder) == 1
    assert "two.txt exists and stage 'a' did not make it" in capsys.readouterr().err
    assert (folder / "out/two.txt").read_text() == "by hand"


def test_a_stage_that_failed_elsewhere_still_knows_what_it_made(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = 'name = "a"\nfile = "one.txt"\nscript = "write.py {out} x"'
    recipe(folder, stage)
    assert go(folder) == 0
    recipe(folder, stage.replace("one.txt", "two.txt").replace("} x", "} fail"))
    assert go(folder) == 1
    (folder / "out/two.txt").write_text("by hand")
    assert go(folder) == 1
    assert "two.txt exists and stage 'a' did not make it" in capsys.readouterr().err
    recipe(folder, stage)
    assert go(folder, "--again", "a") == 0


def test_stages_of_like_names_do_not_share_what_is_known_of_them(folder: Path) -> None:
    recipe(folder, *(f'name = "{name}"\nscript = "write.py {{out}} {name}"' for name in ("a/b", "a-b")))
    assert go(folder) == 0
    assert ran(folder) == ["a/b", "a-b"]
    assert go(folder) == 0
    assert ran(folder) == []


def test_files_of_the_data_folder_may_be_named_by_a_pattern(folder: Path) -> None:
    recipe(folder, 'name = "a"\nscript = "write.py {out} {data}/*.txt"')
    assert go(folder) == 0
    assert len(ran(folder)) == 1
    assert go(folder) == 0
    assert ran(folder) == []
    (folder / "data" / "more.txt").write_text("more")
    assert go(folder) == 0
    assert len(ran(folder)) == 1


def test_a_training_is_resumed_if_it_came_to_a_checkpoint_and_is_still_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, commands = folder / "out", list[list[str]]()

    class Interrupted:
        pid = -1

        def __init__(self, words: list[str], **options: object) -> None:
            commands.append(words)

        def wait(self, patience: float = 0) -> int:
            return 9

    def options() -> list[str]:
        assert go(folder) == 1
        return [word for word in commands[-1] if word in ("--resume", "--force")]

    monkeypatch.setattr("kriss.recipe.subprocess.Popen", Interrupted)
    recipe(folder, 'name = "a"\nrun = "train --steps 5 --out {out}"')
    assert options() == []
    (out / ".a.training").mkdir()
    assert options() == ["--force"]
    (out / ".a.training" / "step-3").mkdir()
    assert options() == ["--resume"]
    recipe(folder, 'name = "a"\nrun = "train --steps 6 --out {out}"')
    assert options() == []
    assert not (out / ".a.training").exists()


def test_commands_of_kriss_are_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "data" / "terms.tsv").write_text("id\tname\nA:1\tfever\n")
    recipe(folder, 'name = "terms"\nrun = "ontology build tsv {data}/terms.tsv --out {out}"')
    assert go(folder, "--list") == 0
    assert "terms: kriss ontology build tsv {data}/terms.tsv" in capsys.readouterr().out
    assert go(folder) == 0
    assert (folder / "out" / "terms" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no [[stage]]"),
        ("[[stage]]\nname = 1", "'name' must be text, not 1"),
        ('[[stage]]\nname = "a"', "either 'run'"),
        ('[[stage]]\nname = "a"\nrun = "x {out}"\nscript = "y"', "either 'run'"),
        ('[[stage]]\nname = "a"\nrun = "x"', "does not say where to write"),
        ('[[stage]]\nname = "a"\nrun = "x {out} {b}"', "uses 'b', which no stage before it is named"),
        ('[[stage]]\nname = "a"\nrun = "x {out}"\nfile = "../b"', "not below the output folder"),
        ('[[stage]]\nname = "a"\nrun = "x {out}"\n[[stage]]\nname = "a"\nrun = "x {out}"', "a name of its own"),
        ('[[stage]]\nname = "a"\nruns = "x {out}"', "did you mean 'run'?"),
        ('[[stages]]\nname = "a"', "unknown key 'stages'"),
        ("[[stage]\n", "not valid TOML"),
        ('[[stage]]\nname = "a{n}"\nrun = "x {out}"\neach = [{ n = 1 }]', "'each' must be text, not 1"),
        ('[[stage]]\nname = "a{n}"\nrun = "x {out}"\nby = ["a"]', "'by' must be a table, not 'a'"),
        ('[[stage]]\nname = "a"\nrun = "x {out} \'y"', "close the quotes"),
        (
            '[[stage]]\nname = "a"\nrun = "x {out}"\n[[stage]]\nname = "b"\nfile = "a"\nrun = "x {out}"',
            "a 'file' of its own",
        ),
        (
            '[[stage]]\nname = "a"\nrun = "x {out}"\n[[stage]]\nname = "b"\nfile = "./a"\nrun = "x {out}"',
            "a 'file' of its own",
        ),
        ('[[stage]]\nname = "a b"\nrun = "x {out}"', "a stage is named 'a b'; take letters"),
        ('[[stage]]\nname = "a\\u0000"\nrun = "x {out}"', "take letters"),
        ('[[stage]]\nname = ""\nrun = "x {out}"', "take letters"),
    ],
)
def test_a_bad_recipe_is_refused(folder: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "r.toml").write_text(text)
    assert go(folder) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_what_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recipe(folder, 'name = "a"\nscript = "write.py {out} one {data}/absent"')
    assert go(folder) == 1
    assert "no such file" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="has no stage 'z'"):
        Recipe.load(path).needed(["z"])


SLOW = """
import os, sys, time
from multiprocessing import get_context
from pathlib import Path
if float(sys.argv[2]) > 100:  # one that has children, which inherit what it holds
    get_context("fork").Process(target=time.sleep, args=(600,), daemon=True).start()
Path(sys.argv[1]).write_text("half")
with open(Path(__file__).with_name("ran"), "a") as log:
    log.write(f"{os.getpid()} ")
time.sleep(float(sys.argv[2]))
Path(sys.argv[1]).write_text("whole")
"""


def begin(folder: Path) -> subprocess.Popen[bytes]:
    """Start a run in a process of its own, and return when its stage has begun."""
    arguments = ["run", str(folder / "r.toml"), "--out", str(folder / "out")]
    process = subprocess.Popen([sys.executable, "-m", "kriss.cli", *arguments], stderr=subprocess.DEVNULL)
    wait(lambda: (folder / "ran").exists())
    return process


def wait(until: Callable[[], bool]) -> None:
    for _ in range(600):
        if until():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come")


def is_running(number: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_run_that_is_ended_ends_its_command_and_puts_back_what_was_there(folder: Path) -> None:
    (folder / "write.py").write_text(SLOW)
    recipe(folder, 'name = "a"\nscript = "write.py {out} 0"')
    assert go(folder) == 0
    (folder / "ran").unlink()
    recipe(folder, 'name = "a"\nscript = "write.py {out} 600"')
    process = begin(folder)
    wait(lambda: (folder / "out" / "a").exists() and (folder / "out" / "a").read_text() == "half")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    [command] = map(int, (folder / "ran").read_text().split())
    wait(lambda: not is_running(command))
    assert (folder / "out" / "a").read_text() == "whole"
    recipe(folder, 'name = "a"\nscript = "write.py {out} 0.1"')
    assert go(folder) == 0  # nothing that was left holds the stage
    assert not list((folder / "out").glob(".a.*"))


def test_two_runs_do_not_make_one_stage_at_the_same_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "write.py").write_text(SLOW)
    recipe(folder, 'name = "a"\nscript = "write.py {out} 2"')
    process = begin(folder)
    assert go(folder) == 0
    assert process.wait(60) == 0
    told = capsys.readouterr().err
    assert "a: waiting for another run" in told
    assert "a: as it was" in told
    assert len((folder / "ran").read_text().split()) == 1


def test_a_command_that_outlives_its_run_is_waited_for(folder: Path) -> None:
    (folder / "write.py").write_text(SLOW)
    recipe(folder, 'name = "a"\nscript = "write.py {out} 2"')
    process = begin(folder)
    process.kill()
    process.wait()
    assert go(folder) == 0
    first, second = map(int, (folder / "ran").read_text().split())
    assert first != second
    assert (folder / "out" / "a").read_text() == "whole"


RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_command_of_a_recipe_is_one_with_these_options(path: Path) -> None:
    top = get_command(app)
    for stage in Recipe.load(path).stages:
        command: Any = top
        context = command.make_context("kriss", shlex.split(stage.run) or ["datasets"])
        while hasattr(command, "commands"):
            name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
            context = command.make_context(name, words, parent=context)  # which refuses what it does not know


def test_an_option_that_is_gone_is_noticed(folder: Path) -> None:
    path = recipe(folder, 'name = "a"\nrun = "index a b c --ngrams 3 --out {out}"')
    with pytest.raises(Exception, match="--ngrams"):
        test_every_command_of_a_recipe_is_one_with_these_options(path)
