"""The stages as functions: what the commands do, without printing. `import kriss` has them by these names.

    kriss.mine("out/mesh", ["text"], "out/mentions", per_entity=8, workers=4)
    kriss.train("out/mesh", "out/mentions", "out/encoder", steps=200)
    kriss.build("out/mesh", "out/mentions", "out/encoder", "out/linker", precision="int8")
    for document, links in kriss.link_documents("out/linker", ["notes.jsonl"], threshold=0.5): ...
    kriss.evaluate("out/links.jsonl", "gold.pubtator", linker="out/linker").evaluation.rows

Settings are keywords, as they are options of the commands; or one object, `config`, that keywords change. Folders are
given as paths, an ontology or a linker also as what it was loaded into. A function imports its stage when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kriss.config import changed

if TYPE_CHECKING:
    from kriss.documents.format import Linked
    from kriss.evaluate.report import Result
    from kriss.index.config import IndexConfig
    from kriss.link.build import IndexReport
    from kriss.link.linker import Linker
    from kriss.mine.config import MineConfig
    from kriss.mine.run import MineReport
    from kriss.ontology import Ontology
    from kriss.records import Document
    from kriss.train.config import TrainConfig
    from kriss.train.run import TrainReport
    from kriss.work import Engine

Where = str | PathLike[str]
Progress = Callable[[dict[str, Any]], None]


def _quiet(event: dict[str, Any]) -> None:
    pass


def mine(
    ontology: Ontology | Where,
    text: Where | Sequence[Where],
    out: Where,
    config: MineConfig | None = None,
    *,
    exclude: Where | None = None,
    workers: int = 1,
    engine: Engine | None = None,
    skip_bad_files: bool = False,
    force: bool = False,
    progress: Progress = _quiet,
    **settings: Any,  # noqa: ANN401 - the fields of MineConfig
) -> MineReport:
    """Find the names of an ontology in text, and write a sample of the mentions to a folder."""
    from kriss.mine.config import MineConfig
    from kriss.mine.run import mine

    return mine(
        changed(config or MineConfig(), settings, "kriss.mine"),
        _ontology(ontology),
        _paths(text),
        Path(out),
        exclude=Path(exclude) if exclude else None,
        workers=workers,
        engine=engine,
        skip_bad_files=skip_bad_files,
        force=force,
        progress=progress,
    )


def train(
    ontology: Ontology | Where,
    mentions: Where,
    out: Where,
    config: TrainConfig | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = _quiet,
    **settings: Any,  # noqa: ANN401 - the fields of TrainConfig
) -> TrainReport | None:
    """Train an encoder on mined mentions; of several processes that do so together the first has the report."""
    from kriss.train.config import MINI
    from kriss.train.run import train

    chosen = changed(config or MINI, settings, "kriss.train")
    return train(chosen, _ontology(ontology), Path(mentions), Path(out), resume=resume, force=force, progress=progress)


def build(
    ontology: Ontology | Where,
    mentions: Where,
    encoder: Where,
    out: Where,
    config: IndexConfig | None = None,
    *,
    threads: int = 0,
    engine: Engine | None = None,
    force: bool = False,
    progress: Progress = _quiet,
    **settings: Any,  # noqa: ANN401 - the fields of IndexConfig
) -> IndexReport:
    """Build a linker of an ontology, its mined mentions and an encoder."""
    from kriss.index.config import IndexConfig
    from kriss.link.build import build_linker

    return build_linker(
        changed(config or IndexConfig(), settings, "kriss.build"),
        _ontology(ontology),
        Path(mentions),
        Path(encoder),
        Path(out),
        threads=threads,
        engine=engine,
        force=force,
        progress=progress,
    )


def link_documents(
    linker: Linker | Where,
    documents: Where | Iterable[Where | Document],
    *,
    top: int = 5,
    **settings: Any,  # noqa: ANN401 - the fields of LinkConfig
) -> Iterator[Linked]:
    """Link the mentions that documents mark, in files of any format or in memory; they come out one by one."""
    from kriss.link.linker import Linker, link_documents

    loaded = linker.with_options(**settings) if isinstance(linker, Linker) else Linker.load(linker, **settings)
    return link_documents(loaded, _documents(documents), top)


def evaluate(
    predictions: Where,
    gold: str | Sequence[str],
    *,
    data: Where | None = None,
    ontology: Where | None = None,
    linker: Where | None = None,
    train: Sequence[str] = (),
    against: Sequence[Where] = (),
    name: str = "",
    out: Where | None = None,
    skip_surplus: bool = False,
    force: bool = False,
) -> Result:
    """Score predictions strictly, with slices, intervals and kinds of error; write a report if `out` is given.

    Gold is data sets and their splits (`ncbi-disease:test`), or files. `ontology` or `linker` tell slices and kinds of
    error apart, `train` is gold that tells seen entities, `against` are predictions of other systems.
    """
    from kriss.artifacts import check_target
    from kriss.documents.read import gold as read_gold
    from kriss.errors import ConfigError
    from kriss.evaluate.gold import gold_mentions, unlinked
    from kriss.evaluate.knowledge import Knowledge
    from kriss.evaluate.predictions import read_predictions
    from kriss.evaluate.report import Comparison, Result, write_report
    from kriss.evaluate.score import compare
    from kriss.evaluate.score import evaluate as score

    sources = [gold] if isinstance(gold, str) else list(gold)
    files = [Path(predictions), *map(Path, against)]
    folders = [Path(one) if one else None for one in (data, ontology, linker, out)]
    data_folder, ontology_folder, linker_folder, target = folders
    if target:
        check_target(target, "evaluation", force=force)
        given = [*files, *map(Path, [*sources, *train]), *filter(None, [ontology_folder, linker_folder])]
        if inside := next((path for path in given if path.resolve().is_relative_to(target.resolve())), None):
            raise ConfigError(f"{inside} lies in {target}, which would be replaced; give another --out")
    documents = [document for source in sources for document in read_gold(source, data_folder)]
    mentions, without = gold_mentions(documents), unlinked(documents)
    seen = gold_mentions(document for source in train for document in read_gold(source, data_folder)) if train else None
    knowledge = Knowledge.load(ontology_folder, linker_folder, seen)
    main, *others = (
        score(mentions, read_predictions(file), knowledge, unlinked=without, source=file, skip_surplus=skip_surplus)
        for file in files
    )
    title, *titles = _titles(files)
    compared = [Comparison(one, other, compare(main, other)) for one, other in zip(titles, others, strict=True)]
    result = Result(" ".join(name.split()) or title, ", ".join(sources), main, knowledge, tuple(compared))
    if target:
        write_report(target, result, files, force=force)
    return result


def _titles(files: Sequence[Path]) -> list[str]:
    """Return what to call the systems of files: their names, and where these are alike all of their paths."""
    names = [path.name.removesuffix(".gz").removesuffix(".jsonl") for path in files]
    return [str(path) if names.count(name) > 1 else name for path, name in zip(files, names, strict=True)]


def _documents(given: Where | Iterable[Where | Document]) -> Iterator[Document]:
    from kriss.documents.read import read
    from kriss.records import Document

    for one in [given] if isinstance(given, str | PathLike) else given:
        if isinstance(one, Document):
            yield one
        else:
            yield from read(_paths(one))


def _ontology(given: Ontology | Where) -> Ontology:
    from kriss.ontology import Ontology

    return given if isinstance(given, Ontology) else Ontology.load(Path(given))


def _paths(given: Where | Sequence[Where]) -> list[Path | str]:
    """Return sources as a list; text may be a glob, so it stays text."""
    several = [given] if isinstance(given, str | PathLike) else given
    return [one if isinstance(one, str) else Path(one) for one in several]
