"""`kriss learn`: give a linker examples, look at them, forget them, save them."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kriss.cli.shared import Data, DefaultGroup, Force, Format, LinkerFolder, OutFile, Threads, group

app = group("Learn examples from gold files: kriss learn LINKER GOLD...", DefaultGroup)

Who = Annotated[str, typer.Option(metavar="NAME", help="Who says so, as the history shows.  [default: login name]")]


@app.command()
def run(
    linker: LinkerFolder,
    gold: Annotated[
        list[str],
        typer.Argument(
            metavar="GOLD...", help="Linked mentions: JSONL, PubTator, BioC, brat, a data set as ncbi-disease:train."
        ),
    ],
    *,
    format: Format = None,
    data: Data = None,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Pass over mentions of entities that the linker does not have.")
    ] = False,
    per_entity: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Examples of one entity at most, drawn by --seed.")
    ] = None,
    per_document: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Examples of an entity by one spelling in a document at most, the first."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Draws other examples.")] = 0,
    who: Who = "",
    threads: Threads = 0,
) -> None:
    """Learn every mention that a gold file links to an entity; it counts from the next link on."""
    from kriss.cli.console import progress_bar
    from kriss.documents.read import read
    from kriss.link.learn import learn
    from kriss.link.linker import Linker

    documents = read(gold, format, data=data)
    with progress_bar("examples") as bar:
        task = bar.add_task("learning", total=None)
        report = learn(
            Linker.load(linker, threads=threads),
            documents,
            skip_unknown=skip_unknown,
            per_entity=per_entity,
            per_document=per_document,
            seed=seed,
            who=who,
            progress=lambda count: bar.update(task, advance=count),
        )
    typer.echo(f"{linker}: learned {report.examples:,} examples from {report.documents:,} documents")
    if report.without_entity:
        typer.echo(f"note: {report.without_entity:,} mentions link to nothing and were passed over", err=True)
    if report.composite:
        typer.echo(f"note: {report.composite:,} mentions link to several entities and are examples of each", err=True)
    if report.left_out:
        typer.echo(f"note: {report.left_out:,} mentions were left out, for there were examples enough", err=True)
    if report.added:
        typer.echo(f"note: {len(report.added):,} entities that the linker did not have were added by name", err=True)
    if report.unknown:
        common = ", ".join(f"{entity} ({count})" for entity, count in report.unknown.most_common(5))
        many = f"{report.unknown.total():,} mentions of {len(report.unknown):,} unknown entities"
        typer.echo(f"note: {many} were passed over: {common}", err=True)


@app.command()
def add(
    linker: LinkerFolder,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="A text with one mention: 'Patients with [[MS]] relapsed'.")
    ],
    entity: Annotated[str, typer.Argument(metavar="ID", help="The entity it means.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Adds the entity, if the ontology does not have it.")] = "",
    document: Annotated[str, typer.Option(metavar="ID", help="Where the text is from, as shown in the evidence.")] = "",
    who: Who = "",
) -> None:
    """Learn one example."""
    from kriss.documents.text import parse_bracketed
    from kriss.errors import InputError
    from kriss.link.linker import Linker
    from kriss.records import Mention

    plain, spans = parse_bracketed(text)
    if len(spans) != 1:
        raise InputError(
            f"the text marks {len(spans)} mentions where one is needed; put double brackets around it: [[MS]]"
        )
    mention = Mention.at(plain, *spans[0])
    example = Linker.load(linker).add(mention, entity, name=name, document=document, who=who)
    typer.echo(f"{linker}: learned {example}")


@app.command(name="list")
def list_examples(linker: LinkerFolder) -> None:
    """Show what was learned."""
    from kriss.cli.console import listing, output
    from kriss.link.linker import Linker

    rows = []
    for example in Linker.load(linker).examples():
        shown = example.evidence
        text = f"{' '.join(shown.left[-40:].split())} [[{shown.surface}]] {' '.join(shown.right[:40].split())}"
        rows.append((example.id, example.entity, text.strip(), shown.document))
    output().print(listing(f"examples of {linker}", ["example", "entity", "text", "document"], rows))


@app.command()
def remove(
    linker: LinkerFolder,
    examples: Annotated[list[str], typer.Argument(metavar="EXAMPLE...", help="Ids that 'kriss learn list' shows.")],
    who: Who = "",
) -> None:
    """Forget examples."""
    from kriss.link.linker import Linker

    Linker.load(linker).remove(*examples, who=who)
    typer.echo(f"{linker}: forgot {', '.join(examples)}")


@app.command()
def undo(
    linker: LinkerFolder,
    change: Annotated[
        int | None,
        typer.Argument(metavar="CHANGE", help="A number that 'kriss learn history' shows.  [default: the last]"),
    ] = None,
    who: Who = "",
) -> None:
    """Take back a change: what it added goes, what it removed comes back."""
    from kriss.link.linker import Linker

    done = Linker.load(linker).undo(change, who=who)
    typer.echo(f"{linker}: took back change {done.number} ({done.action} {_named(done.examples)})")


@app.command()
def history(linker: LinkerFolder) -> None:
    """Show every change to the examples: what was done, by whom and when."""
    from kriss.cli.console import listing, output
    from kriss.link.linker import Linker

    rows = [
        (str(one.number), f"{one.action} {one.undoes or ''}".strip(), _named(one.examples), one.who, one.time)
        for one in Linker.load(linker).history()
    ]
    output().print(listing(f"changes of {linker}", ["change", "action", "examples", "who", "time"], rows))


def _named(examples: tuple[str, ...]) -> str:
    """Return the ids of examples, of many the first and the last."""
    return ", ".join(examples) if len(examples) <= 3 else f"{examples[0]} to {examples[-1]} ({len(examples):,})"


@app.command()
def export(
    linker: LinkerFolder,
    out: OutFile = None,
    force: Force = False,
) -> None:
    """Write what was learned as JSON lines, which 'kriss learn' reads again."""
    from kriss.documents.write import output
    from kriss.link.learn import exported
    from kriss.link.linker import Linker

    loaded = Linker.load(linker)
    with output(out, force=force) as stream:
        stream.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in exported(loaded))
