"""The small typed records that travel between stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kriss.errors import InputError


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
class Mention:
    """A stretch of text that may mean an entity, with what stands on both sides of it.

    >>> Mention.at("Patients with MS relapsed.", 14, 16)
    Mention(left='Patients with ', surface='MS', right=' relapsed.', masked=False)
    """

    left: str
    surface: str
    right: str
    masked: bool = False
    """Whether the encoder is to see a mask in the place of the surface."""

    @classmethod
    def at(cls, text: str, start: int, end: int) -> Mention:
        """Return the mention between two character offsets of a text."""
        if not 0 <= start < end <= len(text):
            raise InputError(f"the span from {start} to {end} does not lie in its text of {len(text)} characters")
        return cls(text[:start], text[start:end], text[end:])

    @classmethod
    def bare(cls, name: str) -> Mention:
        """Return a name without any context."""
        return cls("", name, "")


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


def folded(name: str) -> str:
    """Return a name as two are compared that may differ in case and white space.

    >>> folded("Breast  Cancer")
    'breast cancer'
    """
    return " ".join(name.casefold().split())
