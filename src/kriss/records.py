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
