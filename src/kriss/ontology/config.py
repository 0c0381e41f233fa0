"""What a user can ask of an ontology build; the same fields are the options of the command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Format = Literal["umls", "mesh", "obo", "hpo", "tsv", "jsonl", "dictionary"]
FORMATS: tuple[Format, ...] = ("umls", "mesh", "obo", "hpo", "tsv", "jsonl", "dictionary")


@dataclass(frozen=True, slots=True)
class OntologyConfig:
    """Settings of a build. Those that only one format reads are named after it in the comments."""

    format: Format
    types: tuple[str, ...] = ()
    """Keep only these: named subsets, type names, TUIs, or tree-number prefixes."""
    merge_on: tuple[str, ...] = ()
    """Xref prefixes by which the ontologies of --merge are matched."""
    keep_unmatched: bool = False
    """Keep the entities of --merge that match none of ours: the union of both."""
    default_type: str = "Entity"
    """The type of an entity for which the source gives none and the hierarchy none either."""
    skip_bad_rows: bool = False
    # umls
    languages: tuple[str, ...] = ("ENG",)
    sources: tuple[str, ...] = ()
    keep_suppressed: bool = False
    keep_obsolete: bool = False
    # obo and hpo
    scopes: tuple[str, ...] = ("EXACT",)
    # tsv and jsonl
    columns: dict[str, str] = field(default_factory=dict)
    separators: dict[str, str] = field(default_factory=dict)
    delimiter: str = ""


ONLY_FOR: dict[str, tuple[Format, ...]] = {
    "languages": ("umls",),
    "sources": ("umls",),
    "keep_suppressed": ("umls",),
    "keep_obsolete": ("umls",),
    "scopes": ("obo", "hpo"),
    "columns": ("tsv", "jsonl"),
    "separators": ("tsv", "jsonl"),
    "delimiter": ("tsv",),
}
"""Settings that mean nothing to the other formats; giving them there is an error, not a no-op."""

FLAGS = {
    "languages": "--language",
    "sources": "--sab",
    "scopes": "--scope",
    "columns": "--column",
    "separators": "--separator",
}
"""The command's names of settings, where they differ: an option that is repeated has a singular name."""
