"""From predictions and gold to figures, and to a report of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kriss.artifacts import check_target
from kriss.documents.read import gold as read_gold
from kriss.errors import ConfigError
from kriss.evaluate import score
from kriss.evaluate.gold import gold_mentions, unlinked
from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.predictions import read_predictions
from kriss.evaluate.report import Comparison, Result, write_report
from kriss.files import Where


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
        score.evaluate(
            mentions, read_predictions(file), knowledge, unlinked=without, source=file, skip_surplus=skip_surplus
        )
        for file in files
    )
    title, *titles = _titles(files)
    compared = [Comparison(one, other, score.compare(main, other)) for one, other in zip(titles, others, strict=True)]
    result = Result(" ".join(name.split()) or title, ", ".join(sources), main, knowledge, tuple(compared))
    if target:
        write_report(target, result, files, force=force)
    return result


def _titles(files: Sequence[Path]) -> list[str]:
    """Return what to call the systems of files: their names, and where these are alike all of their paths."""
    names = [path.name.removesuffix(".gz").removesuffix(".jsonl") for path in files]
    return [str(path) if names.count(name) > 1 else name for path, name in zip(files, names, strict=True)]
