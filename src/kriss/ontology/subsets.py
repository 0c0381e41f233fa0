"""Named subsets, and how a selector picks entities by type or by place in the tree.

A selector is one of: a subset named here, a type name (any case), a type code such as a TUI,
or a tree number, which stands for itself and all below it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from kriss.errors import ConfigError

SUBSETS: Mapping[str, tuple[str, ...]] = {
    # MeSH: tree C and mental disorders; tree D.
    "disease": ("C", "F03"),
    "chemical": ("D",),
    # The 21 semantic types of MedMentions ST21pv, by the tree numbers of the UMLS Semantic Network,
    # for the corpus counts their descendants too. In the order of their TUIs:
    # T005 T007 T017 T022 T031 T033 T037 T038 T058 T062 T074
    # T082 T091 T092 T097 T098 T103 T168 T170 T201 T204
    "st21pv": (
        *("A1.1.4", "A1.1.2", "A1.2", "A2.1.4.1", "A1.4.2", "A2.2", "B2.3", "B2.2.1", "B1.3.1", "B1.3.2", "A1.3.1"),
        *("A2.1.5", "A2.6.1", "A2.7", "A2.9.1", "A2.9.2", "A1.4.1", "A1.4.3", "A2.4", "A2.3.1", "A1.1.3"),
    ),
}  # fmt: skip

SOURCE_SETS: Mapping[str, tuple[str, ...]] = {
    # The 18 vocabularies that MedMentions ST21pv draws its concepts from.
    "st21pv": tuple(
        "CPT FMA GO HGNC HPO ICD10 ICD10CM ICD9CM MDR MSH MTH NCBI NCI NDDF NDFRT OMIM RXNORM SNOMEDCT_US".split()
    ),
}


def in_tree(number: str, prefix: str) -> bool:
    """Tell whether a tree number is `prefix` or below it.

    >>> in_tree("C04.557", "C04"), in_tree("C04.557", "C"), in_tree("C045", "C04")
    (True, True, False)
    """
    if not number.startswith(prefix):
        return False
    rest = number[len(prefix) :]
    return not rest or rest[0] == "." or (prefix.isalpha() and rest[0].isdigit())


def chosen_values(
    selectors: Iterable[str],
    types: Iterable[str],
    trees: Iterable[str],
    codes: Mapping[str, str],
) -> tuple[set[str], set[str]]:
    """Resolve selectors against the types and tree numbers that exist: (types chosen, trees chosen)."""
    by_case = {name.casefold(): name for name in types}
    all_trees = set(trees)
    chosen_types: set[str] = set()
    chosen_trees: set[str] = set()
    for selector in selectors:
        prefixes = (*SUBSETS.get(selector.casefold(), ()), codes.get(selector.upper(), selector))
        found = {by_case[prefix.casefold()] for prefix in prefixes if prefix.casefold() in by_case}
        below = {number for number in all_trees if any(in_tree(number, prefix) for prefix in prefixes)}
        if not found and not below:
            close = difflib.get_close_matches(selector.casefold(), [*by_case, *SUBSETS], n=3)
            names = ", ".join(f"'{by_case.get(name, name)}'" for name in close)
            hint = f"did you mean {names}?" if names else "see the types with 'kriss ontology info'"
            raise ConfigError(f"no entity has the type or tree number '{selector}'; {hint}")
        chosen_types |= found
        chosen_trees |= below
    return chosen_types, chosen_trees
