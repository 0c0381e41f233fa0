"""The linker: mentions in, entities with their evidence out.

linker = Linker.load("out/linker")
[link] = linker.link([Mention.at("Patients with MS relapsed.", 14, 16)])
link.entity, link.probability, link.candidates[0].evidence.document
linker.add(link.mention, "D009103")                 # the next mention like it is right
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kriss.artifacts import Artifact, open_artifact
from kriss.config import from_mapping, to_mapping
from kriss.documents.bracketed import parse_bracketed
from kriss.documents.problems import flaw_of
from kriss.documents.spans import known_entities
from kriss.encoder.pairs import Option
from kriss.encoder.session import OnnxEncoder, Precision
from kriss.errors import ConfigError, DamagedError, InputError, UnknownEntityError
from kriss.index.layout import ENCODER, LEARNED, NGRAMS, ONTOLOGY, PROTOTYPES, REFERENCES, RERANKER, VECTORS
from kriss.index.vectors import Index
from kriss.link.ahead import one_ahead
from kriss.link.config import LinkConfig, check
from kriss.link.given import Given, as_mention, encodable, storable
from kriss.link.learned import Example, Learned, Snapshot, addition, gold_evidence
from kriss.link.log import Record
from kriss.link.parts import digest_of_encoder, made_for, map_prototypes, map_references, weight_of_references
from kriss.mine.abbreviations import long_forms
from kriss.ontology import Ontology
from kriss.rank.calibrate import Calibration
from kriss.rank.hierarchy import Hierarchy
from kriss.rank.ngrams import NgramIndex
from kriss.rank.query import Remembering, query_vectors
from kriss.rank.rerank import Answer, Reranker
from kriss.rank.scope import scope_of
from kriss.rank.search import Hit, Search
from kriss.rank.short_forms import read_short_forms
from kriss.rank.ties import LOOKED_AT, Ties
from kriss.records import Candidate, Entity, Evidence, Excerpt, Link, Mention

_BATCH = 256
"""Mentions that are encoded and searched for at a time: memory stays bounded."""
_ALIKE: dict[Precision, float] = {"fp32": 0.999, "int8": 0.9}
"""The least cosine between a prototype encoded now and as it is stored: processors round, int8 a good deal."""


class _Asking(NamedTuple):
    """A batch of mentions, made ready for the search."""

    mentions: Sequence[Mention]
    expanded: Sequence[str]
    """The long forms of those that are abbreviations."""
    asked: Sequence[Excerpt]
    """The mentions with these, and without what no tokenizer takes."""
    queries: NDArray[np.float32]
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
        self.ontology = Ontology.load(folder / ONTOLOGY)
        self.encoder = OnnxEncoder.load(folder / ENCODER, artifact.config.get("precision", ""), threads)
        self._remembering = Remembering(self.encoder)
        self._weight = weight_of_references(artifact)
        self._is_checked = False
        self.prototypes = map_prototypes(folder / PROTOTYPES, len(self.ontology))
        self._index = Index.open(folder / VECTORS)
        self._references = map_references(folder / REFERENCES, len(self.ontology), self._index.width)
        if len(self.prototypes) != len(self._index):
            raise DamagedError(
                f"{folder} has {len(self._index):,} vectors for {len(self.prototypes):,} prototypes; build it again"
            )
        self.calibration = Calibration.load(folder)
        self._short_forms = read_short_forms(folder)
        self.ngram_index = NgramIndex.open(folder / NGRAMS) if (folder / NGRAMS).is_dir() else None
        self.hierarchy = Hierarchy(self.ontology)
        self._reranker: Reranker | None = None
        made_by = digest_of_encoder(artifact, self._weight)
        self.learned = Learned(folder / LEARNED, made_by, self._index.kind, self.ontology)
        self._configure(config or LinkConfig())

    @classmethod
    def load(cls, path: str | PathLike[str], *, threads: int = 0, **options: Any) -> Linker:  # noqa: ANN401
        """Open a linker that `kriss index` wrote; options are the fields of `LinkConfig`."""
        config = from_mapping(LinkConfig, options, "Linker.load")
        return cls(open_artifact(Path(path), "linker"), threads, config)

    def __reduce__(self) -> tuple[Callable[..., Linker], tuple[Artifact, int, LinkConfig]]:
        return type(self), (self.artifact, self._threads, self.config)

    def __repr__(self) -> str:
        return f"<Linker {self.artifact.path}: {len(self.ontology):,} entities, {len(self._index):,} prototypes>"

    def with_options(self, **options: Any) -> Linker:  # noqa: ANN401 - the fields of LinkConfig
        """Return the same linker, asked otherwise; what is in memory is shared."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._configure(from_mapping(LinkConfig, to_mapping(self.config) | options, "Linker.with_options"))
        return other

    def _configure(self, config: LinkConfig) -> None:
        check(config)
        self.config = config
        self.context = self.calibration.context if config.context is None else config.context
        added = self.learned.now().entities if config.ids else ()
        scope = scope_of(config, self.ontology, added, str(self.artifact.path))
        self.ngrams = (self.calibration.ngrams if self.ngram_index else 0.0) if config.ngrams is None else config.ngrams
        self.broader = self.calibration.broader if config.broader is None else config.broader
        config = replace(config, ngrams=self.ngrams, broader=self.broader)
        parts = self._index, self.prototypes, self.ontology, self.hierarchy
        self.search = Search(*parts, self.ngram_index, config, scope)
        self._ties = Ties(self._index, self.prototypes, self._references, self._weight, self.hierarchy)
        if config.rerank and self._reranker is None:
            self._reranker = Reranker(self.artifact.path / RERANKER, self.made_for(), self._threads)

    def made_for(self) -> dict[str, str]:
        """Return what a re-ranker that orders the candidates of this linker must have been trained for."""
        return made_for(self.artifact, self.ontology.artifact)

    # --- linking --------------------------------------------------------------------------------

    def link(self, mentions: Sequence[Given], top: int = 5) -> list[Link]:
        """Link mentions; each answer has its `top` likeliest entities as candidates.

        An answer does not depend on what else is asked in the call.
        """
        if top < 1:
            raise ConfigError(f"'top' must be at least 1, not {top}")
        asked = [as_mention(given) for given in mentions]
        self._check_encoder()
        batches = (asked[first : first + _BATCH] for first in range(0, len(asked), _BATCH))
        return [link for asking in one_ahead(self._asking, batches) for link in self._link(asking, top)]

    def link_text(self, text: str, top: int = 5) -> list[Link]:
        """Link the mentions that a text marks by double brackets: `Patients with [[MS]] relapsed`."""
        plain, spans = parse_bracketed(text)
        if not spans:
            raise InputError("the text marks no mention; put double brackets around it: [[MS]]")
        return self.link([Mention.at(plain, start, end) for start, end in spans], top)

    def _asking(self, mentions: Sequence[Mention]) -> _Asking:
        learned = self.learned.now()
        defined = long_forms(mentions) if self.config.abbreviations or self.config.short_forms else [""] * len(mentions)
        expanded = [
            (long if self.config.abbreviations else "") if long else self._stands_for(mention, learned)
            for mention, long in zip(mentions, defined, strict=True)
        ]
        asked = [
            encodable(replace(m.excerpt(), surface=long) if long else m.excerpt())
            for m, long in zip(mentions, expanded, strict=True)
        ]
        return _Asking(mentions, expanded, asked, query_vectors(self._remembering, asked, self.context), learned)

    def _stands_for(self, mention: Mention, learned: Snapshot) -> str:
        """Return what a short form stands for in the mined text, if nobody taught the linker what it means."""
        if not self.config.short_forms:
            return ""
        long = self._short_forms.get(mention.surface, "")
        return long if long and not self.search.is_taught(mention.surface, learned) else ""

    def _link(self, asking: _Asking, top: int) -> list[Link]:
        mentions, expanded, asked, queries, learned = asking
        spelled = [mention.surface for mention in asked]
        found = self.search(queries, spelled, mentions, learned, max(top, LOOKED_AT, self._read()))
        likely = [self._likely(hits) for hits in found]
        answers = self._reranked(asked, found, likely, learned)
        if self.config.ties:
            answers = [self._settled(answer, mention) for answer, mention in zip(answers, asked, strict=True)]
        links = []
        for mention, long, answer, by_linker in zip(mentions, expanded, answers, likely, strict=True):
            if not answer.hits:
                links.append(Link(mention, None, "", 0.0, 0.0, (), long))
                continue
            probability = by_linker if answer.probability is None else answer.probability
            shown = tuple(
                Candidate(*self._name(one.entity, learned), one.score, self._evidence(one.row, learned))
                for one in answer.hits[:top]
            )
            nil = probability < self.config.threshold
            entity, name = (None, "") if nil else (shown[0].entity, shown[0].name)
            links.append(Link(mention, entity, name, answer.hits[0].score, probability, shown, long))
        return links

    def _likely(self, hits: Sequence[Hit]) -> float:
        """Return how likely the first candidate is right, by its score and its lead."""
        dense = np.array([hit.dense for hit in hits])
        return self.calibration.fit(self.context).likely(dense, 0) if hits else 0.0

    def _read(self) -> int:
        """Return how many candidates are re-ranked."""
        if not self.config.rerank or self._reranker is None:
            return 0
        return self._reranker.blend.candidates if self.config.rerank_top is None else self.config.rerank_top

    def _reranked(
        self, mentions: Sequence[Excerpt], found: Sequence[list[Hit]], likely: Sequence[float], learned: Snapshot
    ) -> list[Answer]:
        """Return the candidates as a re-ranker orders them, or as they are.

        Where a learned example comes first it stays there: a person said so, and the re-ranker knows nothing of it.
        """
        if not self.config.rerank or self._reranker is None:
            return [Answer(hits, None) for hits in found]
        taught = [bool(hits) and hits[0].row >= len(self._index) for hits in found]
        likely = [np.inf if said else share for said, share in zip(taught, likely, strict=True)]

        def option(hit: Hit) -> Option:
            added = isinstance(hit.entity, str)
            entity = Entity(*self._name(hit.entity, learned)) if added else self.ontology.at(int(hit.entity))
            shown = self._evidence(hit.row, learned)
            return Option(entity, Excerpt(shown.left, shown.surface, shown.right))

        return self._reranker(
            mentions, found, likely, option, candidates=self.config.rerank_top, sure=self.config.rerank_sure
        )

    def _settled(self, answer: Answer, mention: Excerpt) -> Answer:
        """Put the entity that is meant first, of those that share a name.

        The context is not asked where a re-ranker has read it, nor for one who wants it to count for nothing.
        """

        def in_context() -> NDArray[np.float32]:
            return np.asarray(self.encoder.mentions([mention])[0])  # alone: the same bits as in any batch

        read = answer.probability is not None or self.config.context == 0
        return replace(answer, hits=self._ties.settled(answer.hits, None if read else in_context))

    def _check_encoder(self) -> None:
        """Refuse an encoder that does not give the vectors which the index was built of; asked once."""
        if self._is_checked:
            return
        [found] = self.encoder.mentions(self.prototypes.mentions(0, 1))
        [stored] = self._index.vectors(np.zeros(1, dtype=np.int64))
        built = stored - self._weighed(np.asarray(self._references[self.prototypes.entity[0]], dtype=np.float32))
        alike = found.shape == built.shape and found @ built / np.linalg.norm(found) / np.linalg.norm(built)
        if not alike >= _ALIKE[self.encoder.precision]:
            raise DamagedError(
                f"{self.artifact.path / ENCODER} is not the encoder that the linker was built with; put that back, "
                "or build the linker again"
            )
        self._is_checked = True

    def _name(self, entity: int | str, learned: Snapshot) -> tuple[str, str]:
        if isinstance(entity, str):
            return entity, learned.entities[entity][0]
        return self.ontology.id_at(entity), self.ontology.name_at(entity)

    def _evidence(self, row: int, learned: Snapshot) -> Evidence:
        """Return a prototype: those of the index count from 0, those that were learned go on behind them."""
        if row < len(self._index):
            return self.prototypes.evidence(row)
        return learned.example(row - len(self._index)).evidence

    # --- learning -------------------------------------------------------------------------------

    def add(self, mention: Given, entity: str, *, name: str = "", document: str = "", offset: int = 0) -> str:
        """Learn an example, and return the id by which it can be removed; it survives a crash from here on.

        An entity that the ontology does not have is added if it is given a `name`. Where the text is only a part
        of its document, `offset` says where in that it begins: the evidence is shown with its place.
        """
        names = {entity: name} if name else {}
        return self.add_all([(mention, entity)], names=names, documents=[document], offsets=[offset])[0]

    def add_all(
        self,
        examples: Sequence[tuple[Given, str]],
        *,
        names: Mapping[str, str] | None = None,
        documents: Sequence[str] | None = None,
        offsets: Sequence[int] | None = None,
    ) -> list[str]:
        """Learn many examples at once: all of them, or none if one is bad.

        An example is seen as this linker sees a query, with the same weight of the context: so it is also found
        by the same name in another context, as the names in the index are.
        """
        mentions = [storable(as_mention(given)) for given, _ in examples]
        places = list(zip(documents or [""] * len(examples), offsets or [0] * len(examples), strict=True))
        known = self.learned.now()
        targets = [self._known(entity, known, names or {}) for _, entity in examples]
        self._check_encoder()
        vectors = query_vectors(self._remembering, [mention.excerpt() for mention in mentions], self.context)
        if self.encoder.config.normalize and len(vectors):  # the sum of two is shorter than either, and names are not
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        with self.learned.writing() as learned:
            fresh = {e: n for e, n in (names or {}).items() if e in targets and not self._has(e, learned)}
            records, references = self._new_entities(fresh, learned.issued)
            number = learned.issued + len(records) // 2
            ids = []
            for mention, entity, place, vector in zip(mentions, targets, places, vectors, strict=True):
                number += 1
                ids.append(f"g{number}")
                evidence = gold_evidence(mention, *place, ids[-1])
                records.append(
                    addition(ids[-1], number, entity, evidence, vector + self._reference(entity, learned, references))
                )
            self.learned.append(records)
        return ids

    def _known(self, entity: str, learned: Snapshot, names: Mapping[str, str]) -> str:
        """Return the id that an entity has here; a new one needs a name."""
        if found := self._find(entity, learned):
            return found
        if name := names.get(entity, "").strip():
            if known_entities([entity]) != (entity,) or flaw_of(entity + name):
                raise InputError(f"{entity!r} cannot be the id of an entity, or {name!r} its name; take another")
            return entity
        where = f"{self.artifact.path}; give it a name to add it"
        raise UnknownEntityError(entity, where)

    def _has(self, entity: str, learned: Snapshot) -> bool:
        return entity in learned.entities or entity in self.ontology

    def _new_entities(
        self, names: Mapping[str, str], issued: int
    ) -> tuple[list[Record], dict[str, NDArray[np.float32]]]:
        """Return records of entities that are new, each with its name as a prototype, and their references."""
        if not names:
            return [], {}
        entities = [Entity(entity, " ".join(name.split())) for entity, name in names.items()]
        references = self.encoder.references(entities)
        bare = self.encoder.mentions([Excerpt.bare(entity.name) for entity in entities])
        records = []
        for number, (entity, reference, vector) in enumerate(zip(entities, references, bare, strict=True), issued + 1):
            records.append(Record({"what": "entity", "id": entity.id, "name": entity.name}, reference))
            evidence = Evidence("name", entity.name, end=len(entity.name), example=f"g{number}")
            records.append(addition(f"g{number}", number, entity.id, evidence, vector + self._weighed(reference)))
        return records, {entity.id: reference for entity, reference in zip(entities, references, strict=True)}

    def _reference(self, entity: str, learned: Snapshot, new: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        row = self.ontology.row_of(entity)
        if row is not None:
            return self._weighed(np.asarray(self._references[row], dtype=np.float32))
        return self._weighed(new[entity] if entity in new else learned.entities[entity][1])

    def _weighed(self, reference: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a reference as it is added to prototypes: with the weight that the index was built with."""
        return self._weight * reference

    def find_id(self, entity: str) -> str | None:
        """Return the id that an entity has here, with or without the prefix that a corpus gives it.

        `MESH:D009103` is found as `D009103`, and `0001250` as `HP:0001250` if all ids begin so.
        """
        return self._find(entity, self.learned.now())

    def _find(self, entity: str, learned: Snapshot) -> str | None:
        for form in self.ontology.forms_of(entity):
            if form in learned.entities:
                return form
            if (row := self.ontology.row_of(form)) is not None:
                return self.ontology.id_at(row)
        return None

    def added_name(self, entity: str) -> str:
        """Return the name of an entity that was added, and nothing for one of the ontology."""
        return self.learned.now().entities.get(entity, ("",))[0]

    def remove(self, *examples: str) -> None:
        """Forget examples: all of them, or none if one is not there."""
        self._check_examples(examples, self.learned.now())  # no folder is made to forget what was never learned
        with self.learned.writing() as learned:
            self._check_examples(examples, learned)
            self.learned.append(
                [Record({"what": "remove", "id": example}, np.zeros(0, np.float32)) for example in examples]
            )

    def _check_examples(self, examples: Sequence[str], learned: Snapshot) -> None:
        known = {example.id for example in learned.examples()}
        if strangers := [example for example in examples if example not in known]:
            raise InputError(f"there is no example '{strangers[0]}' in {self.artifact.path}; see 'kriss learn list'")

    def examples(self) -> list[Example]:
        """Return what was learned and not forgotten."""
        return list(self.learned.now().examples())
