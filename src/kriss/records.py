"""The small typed records that travel between stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kriss.errors import InputError

REACH = 2048
"""Characters on each side that an excerpt has at most: more than any window of an encoder shows."""


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity of an ontology, as every stage sees it.

    >>> Entity("HP:0001250", "Seizure", aliases=("Epileptic seizure",)).names
    ('Seizure', 'Epileptic seizure')
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tree_numbers: tuple[str, ...] = ()
    definition: str = ""
    parents: tuple[str, ...] = ()
    xrefs: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The preferred name, then the aliases."""
        return (self.name, *self.aliases)


@dataclass(frozen=True, slots=True)
class Span:
    """A mention as a file marks it: from `start` up to, not including, `end`, in characters of the text."""

    start: int
    end: int
    entities: tuple[str, ...] = ()
    """The entities it means, if the file says so; none for a mention that is not in the ontology."""
    type: str = ""
    id: str = ""
    name: str = ""
    """What the entity is called, if the file says so: with it, one that a linker does not have can be added."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text, and the mentions that are marked in it. Offsets anywhere in kriss count the characters of `text`."""

    id: str
    text: str
    spans: tuple[Span, ...] = ()
    offset: int = 0
    """Where in its document the text begins, if it is a part of one."""
    ordinal: int = field(default=0, compare=False)
    """The index of the record within its file, from 0; records without text have one too."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A mention cut out of its text, with as much on both sides as an encoder or a reader looks at.

    >>> Mention.at("Patients with MS relapsed.", 14, 16).excerpt()
    Excerpt(left='Patients with ', surface='MS', right=' relapsed.', masked=False)
    """

    left: str
    surface: str
    right: str
    masked: bool = False
    """Whether the encoder is to see a mask in the place of the surface."""

    @classmethod
    def bare(cls, name: str) -> Excerpt:
        """Return a name without any context."""
        return cls("", name, "")


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of a document that may mean an entity: the document and two offsets, so that a million are small.

    >>> Mention.at("Patients with MS relapsed.", 14, 16).surface
    'MS'
    """

    document: Document
    start: int
    end: int

    def __post_init__(self) -> None:
        size = len(self.document.text)
        if not 0 <= self.start < self.end <= size:
            named = f"document '{self.document.id}': " if self.document.id else ""
            what = f"the span from {self.start} to {self.end}"
            raise InputError(f"{named}{what} does not lie in its text of {size} characters")

    @classmethod
    def at(cls, text: str, start: int, end: int) -> Mention:
        """Return the mention between two character offsets of a text."""
        return cls(Document("", text), start, end)

    @property
    def surface(self) -> str:
        """The text that is marked."""
        return self.document.text[self.start : self.end]

    def excerpt(self, reach: int = REACH) -> Excerpt:
        """Return the mention with so many characters on each side."""
        text = self.document.text
        return Excerpt(text[max(0, self.start - reach) : self.start], self.surface, text[self.end : self.end + reach])


EvidenceKind = Literal["mined", "name", "gold"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The prototype that speaks for a candidate: text that was mined, a name, or an example that a person gave."""

    kind: EvidenceKind
    surface: str
    left: str = ""
    right: str = ""
    document: str = ""
    """The document that it stands in; a name has none."""
    start: int = 0
    end: int = 0
    """Where in the document the surface stands, in characters."""
    example: str = ""
    """The id under which a learned example can be removed."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a mention may mean."""

    entity: str
    name: str
    score: float
    evidence: Evidence
    features: Mapping[str, float] = field(default_factory=dict)
    """What each feature adds to the score."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a mention was linked to; `entity` is None where nothing is likely enough."""

    mention: Mention
    entity: str | None
    name: str
    score: float
    probability: float
    """How likely the first candidate is the right one, as calibrated on mentions that nobody labeled."""
    candidates: tuple[Candidate, ...] = ()
    """The likeliest first; also given where `entity` is None."""
    expanded: str = ""
    """The long form of an abbreviation that the document or the mined text explains, if it was read as that."""
