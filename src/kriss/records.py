"""The small typed records that travel between stages."""

from __future__ import annotations

from dataclasses import dataclass


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
        return cls(text[:start], text[start:end], text[end:])

    @classmethod
    def bare(cls, name: str) -> Mention:
        """Return a name without any context."""
        return cls("", name, "")
