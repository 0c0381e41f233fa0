"""Every error kriss raises on purpose, in one tree.

    KrissError                  the message is one sentence: what, where, what to do
    ├── InputError              a source file, row or record is bad; says file and line
    ├── ConfigError             an option or a recipe key is wrong
    ├── MissingExtraError       an optional dependency is absent; names the pip line
    ├── UnknownEntityError      an id that the ontology lacks (also a KeyError)
    ├── DriftError              an exported model does not give the vectors of its original
    └── ArtifactError           a folder written by kriss cannot be used
        ├── NotAnArtifactError  no such folder, or no manifest in it
        ├── WrongKindError      it is an artifact, but of another stage
        ├── VersionError        it was written by a newer or an incompatible kriss
        ├── DamagedError        its files do not match its manifest
        └── ExistsError         the target is there already, and --force was not given

The command line prints the message of any of them on one line and exits with status 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class KrissError(Exception):
    """Base of all errors that are the user's to read rather than ours to debug."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the user's input something was read: a file and, when known, a line counted from 1."""

    file: Path
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)


class InputError(KrissError):
    """A source that cannot be read as what it claims to be."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class ConfigError(KrissError):
    """An option, a combination of options or a recipe key that makes no sense."""


class MissingExtraError(KrissError):
    """A feature whose optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package '{package}': pip install 'kriss[{extra}]'")


class UnknownEntityError(KrissError, KeyError):
    """An entity id that the ontology does not have, not even as a retired one."""

    def __init__(self, entity_id: str, where: str) -> None:
        self.entity_id = entity_id
        super().__init__(f"no entity '{entity_id}' in {where}")

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


class DriftError(KrissError):
    """An exported form of a model that is too far from it to stand in its place."""


class ArtifactError(KrissError):
    """A folder that kriss wrote, or should have written, cannot be used."""


class NotAnArtifactError(ArtifactError):
    """There is no artifact at this path."""


class WrongKindError(ArtifactError):
    """The artifact belongs to another stage."""


class VersionError(ArtifactError):
    """The artifact's format version is not one this kriss reads."""


class DamagedError(ArtifactError):
    """A file is missing, or has another size or digest than the manifest says."""


class ExistsError(ArtifactError):
    """The target folder exists and was not to be replaced."""
