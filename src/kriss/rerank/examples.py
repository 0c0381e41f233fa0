"""Training data: mined mentions, each with candidates of the linker, one of which is right.

A mention is first masked, or another name of its entity is put in its place, or it stays as it is; then the linker's
own ranking is asked, with what would give the answer away hidden from it: the mention's document, and, but for a share
of the mentions, whatever is spelled like it. The answers are kept on disk, block by block, so that an interrupted run
goes on: what an example consists of depends on the seed and its number alone.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kriss.encoder.pairs import Option
from kriss.errors import ConfigError, DamagedError
from kriss.link.given import encodable, storable
from kriss.link.linker import Linker
from kriss.mine.store import mentions_of
from kriss.names import name_key
from kriss.ontology import Ontology
from kriss.rank.features import without_names
from kriss.rank.queries import Hidden, Queries
from kriss.rank.tune import Case
from kriss.records import Document, Excerpt, Mention
from kriss.rerank.config import RerankConfig

_BLOCK = 256
"""Mentions of a block: a minute's work at most."""
_STAMP = "examples.json"
_TEXT = ["entity", "document", "left", "surface", "right"]
_SCHEMA = pa.schema(
    [
        *((name, pa.large_string()) for name in ("left", "surface", "right")),
        ("masked", pa.bool_()),
        ("original", pa.large_string()),
        ("hides", pa.bool_()),
        ("entities", pa.list_(pa.int32())),
        ("prototypes", pa.list_(pa.int32())),
        ("gold", pa.int32()),
    ]
)
Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Seen:
    """An entity and its best prototype: rows of the ontology and of the linker's table."""

    entity: int
    prototype: int


@dataclass(frozen=True, slots=True)
class Example:
    """A mention as the model sees it, and its candidates."""

    mention: Excerpt
    original: str
    """What the text has in the place of the mention."""
    hides: bool
    """Whether references leave out names that are spelled as the mention."""
    candidates: tuple[Seen, ...]
    gold: int
    """The place of the correct entity among them; -1 if it is not there."""

    def spellings(self) -> frozenset[str]:
        """Return the keys of the names that would give the answer away."""
        return frozenset({name_key(self.original), name_key(self.mention.surface)})


def read_cases(file: pq.ParquetFile, ontology: Ontology, split: str, most: int) -> list[Case]:
    """Read the first `most` mentions of each entity in a split."""
    taken: Counter[str] = Counter()
    found = []
    for table in mentions_of(file, [split], _TEXT):
        for entity, document, *text in zip(*(column.to_pylist() for column in table.columns), strict=True):
            taken[entity] += 1
            row = ontology.row_of(entity) if taken[entity] <= most else None
            if row is not None:
                found.append(Case(Excerpt(*text), row, document))
    return found


def labeled_by_hand(documents: Iterable[Document], linker: Linker) -> list[Case]:
    """Return the mentions of documents that name one entity, if the linker has it in its ontology."""
    found = []
    for document in documents:
        for span in document.spans:
            known = linker.find_id(span.entities[0]) if len(span.entities) == 1 else None
            row = None if known is None else linker.ontology.row_of(known)
            if row is not None:
                mention = storable(Mention(document, span.start, span.end))
                found.append(Case(mention.excerpt(), row, document.id))
    return found


def digest_of(cases: Iterable[Case]) -> str:
    """Return a name for what the mentions say."""
    return sha256(json.dumps([astuple(one) for one in cases]).encode()).hexdigest()


class ExampleMaker:
    """Makes examples of one split; `training` puts the correct entity among the candidates, in any place."""

    def __init__(self, linker: Linker, config: RerankConfig, split: str, *, training: bool) -> None:
        self._linker = linker
        self._ranking = linker.ranking
        self._ontology = linker.ontology
        self._config = config
        self._split = split
        self._training = training

    def __call__(self, cases: Sequence[Case], first: int) -> Iterator[Example]:
        """Yield examples of the mentions that have any; `first` is the number of the first of them."""
        drawn = [self._drawn(case, number) for number, case in enumerate(cases, first)]
        views, hidden = [view for view, _, _ in drawn], [hidden for _, hidden, _ in drawn]
        queries = Queries.of(
            self._linker.encoder, list(map(encodable, views)), context=self._ranking.context > 0, hidden=hidden
        )
        finder, vectors = self._ranking.finder(), queries.vectors(self._ranking.context)
        ranked = self._ranking(queries, top=self._config.candidates)
        for place, (case, (view, hides, draw)) in enumerate(zip(cases, drawn, strict=True)):
            best = finder.best_of(case.entity, vectors[place], hides)
            if not len(best.entities):  # only the correct candidate would have no evidence
                continue
            correct = Seen(case.entity, int(best.rows[0]))
            rows = zip(ranked[place].entities.tolist(), ranked[place].rows.tolist(), strict=True)
            found = [Seen(*pair) for pair in rows][: self._config.candidates]
            gold = next((number for number, seen in enumerate(found) if seen.entity == case.entity), -1)
            if self._training:
                found = found if gold >= 0 else [*found[: self._config.candidates - 1], correct]
                draw.shuffle(found)
                gold = next(number for number, seen in enumerate(found) if seen.entity == case.entity)
            example = Example(view, case.excerpt.surface, draw.random() >= self._config.p_same_name, tuple(found), gold)
            yield replace(example, hides=example.hides and self._has_other_names(case.entity, example))

    def _drawn(self, case: Case, number: int) -> tuple[Excerpt, Hidden, random.Random]:
        """Return a mention as it is shown, what is hidden from it, and where its dice go on."""
        draw = random.Random(f"{self._config.seed} {self._split} {number}")  # noqa: S311
        view = self._view(case, draw)
        same = draw.random() < self._config.p_same_prototype
        keys = frozenset() if same else frozenset({name_key(case.excerpt.surface), name_key(view.surface)})
        return view, Hidden(keys, case.document), draw

    def _view(self, case: Case, draw: random.Random) -> Excerpt:
        fate = draw.random()
        if fate < self._config.p_replace:
            others = [name for name in self._ontology.names_at(case.entity) if name != case.excerpt.surface]
            return replace(case.excerpt, surface=draw.choice(others)) if others else case.excerpt
        return replace(case.excerpt, masked=fate < self._config.p_replace + self._config.p_mask)

    def _has_other_names(self, entity: int, example: Example) -> bool:
        keys = example.spellings()
        return any(name_key(name) not in keys for name in self._ontology.names_at(entity))


class Examples:
    """Examples in memory, as ids; their texts are looked up when they are needed."""

    def __init__(self, table: pa.Table, linker: Linker) -> None:
        self._columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        self._count = len(table)
        self._linker = linker

    def __len__(self) -> int:
        return self._count

    def get(self, place: int) -> Example:
        """Return an example."""
        row = {name: column[place].as_py() for name, column in self._columns.items()}
        mention = Excerpt(row["left"], row["surface"], row["right"], row["masked"])
        seen = tuple(Seen(*pair) for pair in zip(row["entities"], row["prototypes"], strict=True))
        return Example(mention, row["original"], row["hides"], seen, row["gold"])

    def options(self, example: Example) -> list[Option]:
        """Return the candidates as the model sees them."""
        hidden = example.spellings() if example.hides else frozenset[str]()
        found = []
        for seen in example.candidates:
            [prototype] = self._linker.prototypes.mentions(seen.prototype, seen.prototype + 1)
            found.append(Option(without_names(self._linker.ontology.at(seen.entity), hidden), prototype))
        return found


def build_examples(
    folder: Path,
    cases: Sequence[Case],
    maker: ExampleMaker,
    linker: Linker,
    stamp: Mapping[str, Any],
    progress: Progress,
) -> Examples:
    """Make the examples of mentions, or read those that an interrupted run left in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _check_stamp(folder / _STAMP, stamp)
    tables = [_SCHEMA.empty_table()]
    for first in range(0, len(cases), _BLOCK):
        file = folder / f"block-{first // _BLOCK:06d}.parquet"
        if not file.is_file():
            draft = file.with_suffix(".tmp")
            pq.write_table(_table(maker(cases[first : first + _BLOCK], first)), draft)
            draft.rename(file)
        try:
            tables.append(pq.read_table(file, schema=_SCHEMA))
        except (OSError, ValueError) as error:  # Arrow's errors are among them
            raise DamagedError(f"{file} cannot be read ({error}); remove it, and --resume makes it again") from None
        progress({"event": "examples", "done": min(first + _BLOCK, len(cases)), "total": len(cases)})
    return Examples(pa.concat_tables(tables), linker)


def chosen(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Return so many mentions in a random order; all of them if `count` is 0."""
    order = np.random.default_rng((seed, 11)).permutation(len(cases))
    return [cases[place] for place in order[: count or len(cases)].tolist()]


def _check_stamp(file: Path, stamp: Mapping[str, Any]) -> None:
    """Refuse examples that were made in another way than they would be now."""
    if not file.is_file():
        if any(file.parent.glob("block-*")):
            raise DamagedError(
                f"{file} is missing, so who knows how the examples beside it were made; --force starts anew"
            )
        draft = file.with_suffix(".tmp")
        draft.write_text(json.dumps(stamp), encoding="utf-8")
        draft.rename(file)
    try:
        before = dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise DamagedError(f"{file} cannot be read ({error}); start anew with --force") from None
    for key, value in stamp.items():
        if before.get(key) != value:
            raise ConfigError(
                f"the examples in {file.parent} were made with {key} = {before.get(key)!r}, not {value!r}; "
                "give what they were made with, or start anew with --force"
            )


def _table(examples: Iterator[Example]) -> pa.Table:
    rows = []
    for one in examples:
        text = {name: getattr(one.mention, name) for name in ("left", "surface", "right", "masked")}
        more = {"original": one.original, "hides": one.hides, "gold": one.gold}
        entities, prototypes = ([astuple(seen)[part] for seen in one.candidates] for part in (0, 1))
        rows.append({**text, **more, "entities": entities, "prototypes": prototypes})
    return pa.Table.from_pylist(rows, schema=_SCHEMA)
