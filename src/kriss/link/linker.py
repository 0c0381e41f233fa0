"""The linker: mentions in, entities with their evidence out.

linker = Linker.load("out/linker")
[link] = linker.link([Mention.at("Patients with MS relapsed.", 14, 16)])
link.entity, link.probability, link.candidates[0].evidence.document
linker.add(link.mention, "D009103")                 # the next mention like it is right

for document, links in link_documents(linker, documents): ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kriss.abbreviations import long_forms
from kriss.artifacts import Artifact, open_artifact
from kriss.config import changed, from_mapping
from kriss.documents.problems import flaw_of
from kriss.documents.spans import known_entities
from kriss.documents.text import parse_bracketed
from kriss.encoder.config import Precision
from kriss.encoder.session import OnnxEncoder
from kriss.errors import ConfigError, DamagedError, InputError, UnknownEntityError
from kriss.index.prototypes import CONTEXT
from kriss.link.config import LinkConfig
from kriss.link.learned import Change, Learned
from kriss.names import clean
from kriss.rank.decide import Ranked, Ranking
from kriss.rank.parts import ENCODER, LEARNED, RERANKER, Parts, Scope, encoder_digest
from kriss.rank.queries import Queries, Remembering
from kriss.rank.rerank import Reranker, made_for
from kriss.rank.short_forms import read_short_forms
from kriss.rank.snapshot import Example, Snapshot
from kriss.rank.tune import Weights
from kriss.records import Candidate, Entity, Evidence, Excerpt, Link, Mention

Given = Mention | Excerpt | tuple[str, int, int]
"""A mention of a document, one with the text on its sides, or a text and the span of the mention in it."""
BATCH = 256
"""Mentions that are encoded and searched for at a time, and documents at most that are read for them."""
_LEARNED_AT_ONCE = 1024
"""Examples that are encoded at a time."""
_HALF = re.compile("[\ud800-\udfff]")
_ALIKE: dict[Precision, float] = {"fp32": 0.999, "int8": 0.9}
"""The least cosine between a prototype encoded now and as it is stored: processors round, int8 a good deal."""


class _Batch(NamedTuple):
    """Mentions made ready for ranking."""

    mentions: Sequence[Mention]
    expanded: Sequence[str]
    """The long forms of those that are abbreviations."""
    queries: Queries
    learned: Snapshot
    """What is learned now: one state from the first look at it to the last."""


class Linker:
    """Links mentions to the entities of an ontology, and learns from examples.

    It may be shared between threads. A pickled one is its path and options, and is opened again where
    it is unpickled.
    """

    def __init__(self, artifact: Artifact, threads: int = 0, config: LinkConfig | None = None) -> None:
        self.artifact = artifact
        self._threads = threads
        folder = artifact.path
        self.parts = Parts.open(folder)
        self.ontology, self.prototypes = self.parts.ontology, self.parts.prototypes
        self.encoder = OnnxEncoder.load(folder / ENCODER, artifact.config.get("precision", ""), threads)
        self._remembering = Remembering(self.encoder)
        self._is_checked = False
        self.tuned = Weights.load(folder)
        self._short_forms = read_short_forms(folder)
        self._reranker: Reranker | None = None
        self.learned = Learned(folder / LEARNED, encoder_digest(artifact), self.ontology)
        self._configure(config or LinkConfig())

    @classmethod
    def load(cls, path: str | PathLike[str], *, threads: int = 0, **options: Any) -> Linker:  # noqa: ANN401
        """Open a linker that `kriss index` wrote; options are the fields of `LinkConfig`."""
        config = from_mapping(LinkConfig, options, "Linker.load")
        return cls(open_artifact(Path(path), "linker"), threads, config)

    def __reduce__(self) -> tuple[Callable[..., Linker], tuple[Artifact, int, LinkConfig]]:
        return type(self), (self.artifact, self._threads, self.config)

    def __repr__(self) -> str:
        return f"<Linker {self.artifact.path}: {len(self.ontology):,} entities, {len(self.prototypes):,} prototypes>"

    def with_options(self, **options: Any) -> Linker:  # noqa: ANN401 - the fields of LinkConfig
        """Return the same linker with other options; what is in memory is shared."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._configure(changed(self.config, options, "Linker.with_options"))
        return other

    def _configure(self, config: LinkConfig) -> None:
        self.config = config
        folder = self.artifact.path
        if config.rerank and self._reranker is None:
            self._reranker = Reranker(folder / RERANKER, made_for(self.artifact), self._threads)
        reranker = self._reranker if config.rerank else None
        tuned = reranker.tuned if reranker else self.tuned
        added = self.learned.now().entities if config.ids else ()
        scope = Scope.of(config.types, config.ids, self.ontology, added, folder)
        weights = dict(tuned.weights) | dict(config.weights)
        self.ranking = Ranking(self.parts, weights, tuned.chance, scope, config.mode, config.shared_names, reranker)

    @property
    def weights(self) -> Mapping[str, float]:
        """The weights of features: those that the linker chose, and those that were given instead."""
        return self.ranking.weights

    # --- linking --------------------------------------------------------------------------------

    def link(self, mentions: Sequence[Given], top: int = 5) -> list[Link]:
        """Link mentions; each answer has its `top` likeliest entities as candidates.

        An answer does not depend on what else is linked in the call.
        """
        asked = [as_mention(given) for given in mentions]
        batches = (asked[first : first + BATCH] for first in range(0, len(asked), BATCH))
        return [link for batch in self.link_batches(batches, top) for link in batch]

    def link_batches(self, batches: Iterable[Sequence[Mention]], top: int = 5) -> Iterator[list[Link]]:
        """Yield the links of each batch of mentions.

        While one is ranked, the next is encoded: encoders and products run without Python's lock.
        """
        if top < 1:
            raise ConfigError(f"'top' must be at least 1, not {top}")
        self._check_encoder()
        coming: Iterator[Sequence[Mention]] = iter(batches)
        if (first := next(coming, None)) is None:
            return
        ready = self._prepared(first)
        with ThreadPoolExecutor(1) as worker:
            for batch in coming:
                following = worker.submit(self._prepared, batch)
                yield self._linked(ready, top)
                ready = following.result()
        yield self._linked(ready, top)

    def link_text(self, text: str, top: int = 5) -> list[Link]:
        """Link the mentions that a text marks by double brackets: `Patients with [[MS]] relapsed`."""
        plain, spans = parse_bracketed(text)
        if not spans:
            raise InputError("the text marks no mention; put double brackets around it: [[MS]]")
        return self.link([Mention.at(plain, start, end) for start, end in spans], top)

    def _prepared(self, mentions: Sequence[Mention]) -> _Batch:
        learned = self.learned.now()
        defined = long_forms(mentions) if self.config.abbreviations or self.config.short_forms else [""] * len(mentions)
        expanded = [
            (long if self.config.abbreviations else "") if long else self._stands_for(mention, learned)
            for mention, long in zip(mentions, defined, strict=True)
        ]
        excerpts = [
            encodable(replace(shown, surface=long) if long else shown)
            for shown, long in zip((mention.excerpt() for mention in mentions), expanded, strict=True)
        ]
        return _Batch(mentions, expanded, self._queries(excerpts, mentions), learned)

    def _queries(self, excerpts: Sequence[Excerpt], mentions: Sequence[Mention]) -> Queries:
        return Queries.of(self._remembering, excerpts, context=self.ranking.context > 0, mentions=mentions)

    def _stands_for(self, mention: Mention, learned: Snapshot) -> str:
        """Return what a short form stands for in the mined text, unless it was learned what it means."""
        long = self._short_forms.get(mention.surface, "") if self.config.short_forms else ""
        if long and self.config.mode != "self-supervised":
            places = learned.spelled_as(mention.surface)
            return "" if len(places) and self.ranking.finder(learned).allowed()[places].any() else long
        return long

    def _linked(self, batch: _Batch, top: int) -> list[Link]:
        links = []
        ranked = self.ranking(batch.queries, batch.learned, top)
        for mention, long, one in zip(batch.mentions, batch.expanded, ranked, strict=True):
            shown = tuple(self._candidate(one, place, batch.learned) for place in range(min(top, len(one.entities))))
            if not shown:
                links.append(Link(mention, None, "", 0.0, 0.0, (), long))
                continue
            nil = one.probability < self.config.threshold
            entity, name = (None, "") if nil else (shown[0].entity, shown[0].name)
            links.append(Link(mention, entity, name, shown[0].score, one.probability, shown, long))
        return links

    def _candidate(self, ranked: Ranked, place: int, learned: Snapshot) -> Candidate:
        entity, name = self._name(int(ranked.entities[place]), learned)
        shares = {feature: float(share[place]) for feature, share in ranked.contributions.items() if share[place]}
        return Candidate(
            entity, name, float(ranked.sums[place]), self._evidence(int(ranked.rows[place]), learned), shares
        )

    def _check_encoder(self) -> None:
        """Refuse an encoder that does not give the vectors which the index was built of; checked once."""
        if self._is_checked:
            return
        [found] = self.encoder.mentions(self.prototypes.mentions(0, 1))
        [built] = self.parts.index.vectors(np.zeros(1, dtype=np.int64))
        alike = found.shape == built.shape and found @ built / np.linalg.norm(found) / np.linalg.norm(built)
        if not alike >= _ALIKE[self.encoder.precision]:
            raise DamagedError(
                f"{self.artifact.path / ENCODER} is not the encoder that the linker was built with; put that back, "
                "or build the linker again"
            )
        self._is_checked = True

    def _name(self, number: int, learned: Snapshot) -> tuple[str, str]:
        if number < len(self.ontology):
            return self.ontology.id_at(number), self.ontology.name_at(number)
        added = list(learned.entities)[number - len(self.ontology)]
        return added, learned.entities[added][0]

    def _evidence(self, row: int, learned: Snapshot) -> Evidence:
        """Return a prototype: those of the index count from 0, learned examples go on behind them."""
        count = len(self.prototypes)
        return self.prototypes.evidence(row) if row < count else learned.example(row - count).evidence

    # --- learning -------------------------------------------------------------------------------

    def add(
        self, mention: Given, entity: str, *, name: str = "", document: str = "", offset: int = 0, who: str = ""
    ) -> str:
        """Learn an example, and return the id by which it can be removed; it survives a crash from here on.

        An entity that the ontology does not have is added if it is given a `name`. Where the text is only a part
        of its document, `offset` says where in that it begins: the evidence is shown with its place. `who` is
        remembered beside it, the login name if nobody is named.
        """
        names = {entity: name} if name else {}
        return self.add_all([(mention, entity)], names=names, documents=[document], offsets=[offset], who=who)[0]

    def add_all(
        self,
        examples: Sequence[tuple[Given, str]],
        *,
        names: Mapping[str, str] | None = None,
        documents: Sequence[str] | None = None,
        offsets: Sequence[int] | None = None,
        who: str = "",
        progress: Callable[[int], None] = lambda count: None,
    ) -> list[str]:
        """Learn many examples at once, as one change: all of them, or none if one is bad.

        An example is seen as this linker sees a query, with the same weight of the context: so it is also found
        by the same name in another context, as the names in the index are.
        """
        names, documents = names or {}, documents or [""] * len(examples)
        mentions = [storable(as_mention(given[0]), place) for given, place in zip(examples, documents, strict=True)]
        known = self.learned.now()
        targets = [self._known(entity, known, names) for _, entity in examples]
        if not examples:
            return []
        self._check_encoder()
        vectors = []
        for first in range(0, len(mentions), _LEARNED_AT_ONCE):
            some = mentions[first : first + _LEARNED_AT_ONCE]
            vectors.append(self._queries([one.excerpt() for one in some], some).vectors(self.ranking.context))
            progress(len(some))
        learned = np.concatenate(vectors)
        if self.encoder.config.normalize:  # the sum of two is shorter than either, and names are not
            learned /= np.linalg.norm(learned, axis=1, keepdims=True)
        with self.learned.changing("add", who) as draft:
            fresh = [
                Entity(entity, clean(names[entity]))
                for entity in dict.fromkeys(targets)
                if entity in names and self._find(entity, draft.now) is None
            ]
            references = self.encoder.references(fresh)
            named = self.encoder.mentions([Excerpt.bare(entity.name) for entity in fresh])
            for entity, reference, vector in zip(fresh, references, named, strict=True):
                draft.add_entity(entity.id, entity.name, reference)
                draft.add(entity.id, Evidence("name", entity.name, end=len(entity.name)), vector)
            places = zip(documents, offsets or [0] * len(examples), strict=True)
            evidence = [_gold(mention, *place) for mention, place in zip(mentions, places, strict=True)]
            return [draft.add(*one) for one in zip(targets, evidence, learned, strict=True)]

    def _known(self, entity: str, learned: Snapshot, names: Mapping[str, str]) -> str:
        """Return the id that an entity has here; a new one needs a name."""
        if found := self._find(entity, learned):
            return found
        if name := names.get(entity, "").strip():
            if known_entities([entity]) != (entity,) or flaw_of(entity + name):
                raise InputError(f"{entity!r} cannot be the id of an entity, or {name!r} its name; take another")
            return entity
        raise UnknownEntityError(entity, f"{self.artifact.path}; give it a name to add it")

    def find_id(self, entity: str) -> str | None:
        """Return the id that an entity has here, with or without the prefix that a corpus gives it.

        `MESH:D009103` is found as `D009103`, and `0001250` as `HP:0001250` if all ids begin so.
        """
        return self._find(entity, self.learned.now())

    def _find(self, entity: str, learned: Snapshot) -> str | None:
        added = list(learned.entities)
        for form in self.ontology.forms_of(entity):
            if form in learned.entities and learned.stands(len(self.ontology) + added.index(form)):
                return form
            if (row := self.ontology.row_of(form)) is not None:
                return self.ontology.id_at(row)
        return None

    def added_name(self, entity: str) -> str:
        """Return the name of an entity that was added, and nothing for one of the ontology."""
        return self.learned.now().entities.get(entity, ("",))[0]

    def remove(self, *examples: str, who: str = "") -> None:
        """Forget examples: all of them, or none if one is not there."""
        self.learned.remove(examples, who)

    def undo(self, change: int | None = None, *, who: str = "") -> Change:
        """Take back a change, the last one unless another is named: what it added goes, what it removed comes back."""
        return self.learned.undo(change, who)

    def history(self) -> list[Change]:
        """Return every change to the examples, the first one first: what was done, by whom and when."""
        return self.learned.history()

    def examples(self) -> list[Example]:
        """Return what was learned and not forgotten."""
        return self.learned.now().examples()


def as_mention(given: Given) -> Mention:
    """Return what was given as a mention; one without any text is an error."""
    if isinstance(given, Excerpt):
        first = len(given.left)
        given = given.left + given.surface + given.right, first, first + len(given.surface)
    mention = given if isinstance(given, Mention) else Mention.at(*given)
    if not mention.surface.strip():
        raise InputError(f"a mention must have a text, and {mention.surface!r} is none")
    return mention


def encodable(mention: Excerpt) -> Excerpt:
    """Return an excerpt with a sign in the place of half surrogate pairs, which no tokenizer takes."""
    left, surface, right = (_HALF.sub("\ufffd", part) for part in (mention.left, mention.surface, mention.right))
    return Excerpt(left, surface, right, mention.masked)


def storable(mention: Mention, document: str = "") -> Mention:
    """Return the mention unless no file could hold its text, or the name of its document."""
    shown = mention.excerpt()
    if flaw := flaw_of(f"{shown.left}{shown.surface}{shown.right}{document}"):
        raise InputError(f"the text of an example cannot be stored: {flaw}; remove it")
    return mention


def _gold(mention: Mention, document: str, offset: int) -> Evidence:
    """Return what is shown of an example: the mention and some of the text around it."""
    shown, start = mention.excerpt(CONTEXT), offset + mention.start
    return Evidence("gold", shown.surface, shown.left, shown.right, document, start, start + len(shown.surface))
