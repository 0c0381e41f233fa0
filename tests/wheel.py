"""What `make wheel` runs: the built wheel alone, in an environment of its own without torch, links.

    .venv/bin/python -m tests.wheel

A linker of the miniature clinic is built here, where torch is, and used there, where nothing but the wheel is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from kriss.cli import run
from tests.conftest import TINY_VOCABULARY, tiny_bert, write_vocabulary
from tests.linker_fixtures import build_clinic

ROOT = Path(__file__).parent.parent
_LINKS = """if True:
    import importlib.util, sys
    for package in ("torch", "transformers", "accelerate", "spacy", "ray", "pytest"):
        assert importlib.util.find_spec(package) is None, f"{package} is in the bare environment"
    import kriss
    assert "site-packages" in kriss.__file__, f"{kriss.__file__} is not the wheel's"
    linker = kriss.Linker.load(sys.argv[1])
    [link] = linker.link_text("A dose of [[Aspirin]] for chest pain.")
    assert link.entity == "D001241", link
    linker.add(("He was given the usual pill.", 13, 27), "D001241")
    [link] = linker.link([("She too took the usual pill.", 13, 27)])
    assert link.entity == "D001241", link
    """


def built(folder: Path) -> Path:
    """Return a linker with an encoder of two layers."""
    tiny_bert(len(TINY_VOCABULARY)).save_pretrained(folder / "bert")
    write_vocabulary(folder / "bert", TINY_VOCABULARY)
    encoder = folder / "encoder"
    status = run(["export", str(folder / "bert"), "--out", str(encoder), "--pooling", "mean", "--normalize"])
    if status:
        raise SystemExit(status)
    return build_clinic(encoder, folder)


def main() -> int:
    """Build, install, link; any failure is an error."""
    with tempfile.TemporaryDirectory(prefix="kriss-wheel-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
        [wheel] = folder.glob("kriss-*.whl")
        venv.create(folder / "bare", with_pip=True)
        python = str(folder / "bare" / "bin" / "python")
        install = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([python, *install, *constraints, str(wheel)], check=True)
        linker = built(folder)
        subprocess.run([python, "-I", "-c", _LINKS, str(linker)], check=True, cwd=folder)
        note = folder / "note.txt"
        note.write_text("A dose of [[aspirin]] for [[colon cancer]].\n", encoding="utf-8")
        command = [str(folder / "bare" / "bin" / "kriss"), "link", str(linker), str(note), "--format", "text"]
        done = subprocess.run([*command, "--to", "table"], check=True, capture_output=True, text=True, cwd=folder)
        if "D001241" not in done.stdout or "D003110" not in done.stdout:
            sys.stderr.write(f"the wheel's command linked otherwise:\n{done.stdout}{done.stderr}")
            return 1
        sys.stdout.write(f"{wheel.name} alone links with a linker that was built elsewhere\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
