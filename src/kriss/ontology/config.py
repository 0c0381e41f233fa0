"""What can be set for the build of an ontology; each field is also an option of the command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from kriss.config import Setting, Settings

Format = Literal["umls", "mesh", "obo", "hpo", "tsv", "jsonl", "dictionary"]
FORMATS: tuple[Format, ...] = get_args(Format)
Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OntologyConfig(Settings):
    """Settings of a build; the help of those that only some formats read begins with these."""

    format: Annotated[Format, Setting("umls, mesh, obo, hpo, tsv, jsonl or dictionary.", "FORMAT")]
    types: Annotated[
        Texts,
        Setting(
            "Keep only these: st21pv, disease, chemical, a type, a TUI, a tree prefix. Repeatable.",
            "TYPE",
            flag="--type",
        ),
    ] = ()
    merge_on: Annotated[
        Texts, Setting("Xref prefix that --merge matches by, or NAME, or NAMES. Repeatable.", "PREFIX", flag="--on")
    ] = ()
    keep_unmatched: Annotated[bool, Setting("Keep entities of --merge that match none: the union of both.")] = False
    default_type: Annotated[str, Setting("Type where neither the source nor the hierarchy gives one.", "NAME")] = (
        "Entity"
    )
    skip_bad_rows: Annotated[bool, Setting("Leave bad rows out and count them, instead of stopping.")] = False
    languages: Annotated[Texts, Setting("umls: language to keep, or 'all'. Repeatable.", "LAT", flag="--language")] = (
        "ENG",
    )
    sources: Annotated[
        Texts, Setting("umls: vocabulary to keep, or st21pv for its 18. Repeatable.", "SAB", flag="--sab")
    ] = ()
    keep_suppressed: Annotated[bool, Setting("umls: keep suppressed rows.")] = False
    keep_obsolete: Annotated[bool, Setting("umls: keep obsolete rows.")] = False
    scopes: Annotated[Texts, Setting("obo: scope of the synonyms to keep. Repeatable.", "SCOPE", flag="--scope")] = (
        "EXACT",
    )
    columns: Annotated[
        dict[str, str], Setting("tsv, jsonl: where a field stands. Repeatable.", "FIELD=HEADER", flag="--column")
    ] = field(default_factory=dict)
    separators: Annotated[
        dict[str, str],
        Setting(
            "tsv, jsonl: what separates its values; if not given |. Repeatable.", "FIELD=CHARS", flag="--separator"
        ),
    ] = field(default_factory=dict)
    delimiter: Annotated[str, Setting("tsv: between columns; if not given tab, or comma for .csv.", "CHAR")] = ""

    @staticmethod
    def implied(values: dict[str, Any]) -> dict[str, Any]:
        """Take scopes in any case, and a tab that is written out."""
        if "scopes" in values:
            values["scopes"] = tuple(scope.upper() for scope in values["scopes"])
        if values.get("delimiter") == "\\t":
            values["delimiter"] = "\t"
        return values


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
