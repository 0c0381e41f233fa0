"""Matching against a brute-force reading of its definition, and the rules for words and case by example."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.errors import InputError
from kriss.mine.boundaries import is_end, is_fragment, is_start
from kriss.mine.casing import fits, key, turned_round
from kriss.mine.config import MineConfig
from kriss.mine.matcher import Matcher
from kriss.mine.names import Names, Verdict, common_words, write_names

Found = list[tuple[int, int, int]]


def names_of(entities: list[list[str]], config: MineConfig | None = None) -> Names:
    """Names of entities 0, 1, 2...; the first of each is the preferred one."""
    config = config or MineConfig()
    pairs = [(text, row) for row, texts in enumerate(entities) for text in texts]
    table = pa.table({"text": [text for text, _ in pairs], "entity": pa.array([row for _, row in pairs], pa.int32())})
    folder = Path(tempfile.mkdtemp())
    write_names(table, config, folder)
    return Names(folder, config)


def matched(entities: list[list[str]], text: str, config: MineConfig | None = None) -> Found:
    matcher = Matcher(names_of(entities, config))
    hits = matcher.find([text])
    owners = [matcher.names.forms.entity[form] for form in hits.form.tolist()]
    return list(zip(hits.start.tolist(), hits.end.tolist(), owners, strict=True))


def brute_force(entities: list[list[str]], text: str, config: MineConfig) -> Found:
    """The definition, word for word: try every stretch of text against every name."""
    names: list[tuple[str, int]] = []
    for row, texts in enumerate(entities):
        for name in texts if config.aliases else texts[:1]:
            names.append((name, row))
            if config.casing == "variants" and (turned := turned_round(name)):
                names.append((turned, row))
    found: Found = []
    at = 0
    while at < len(text):
        step = 1
        if is_start(text, at):
            for end in range(len(text), at, -1):
                if not is_end(text, end):
                    continue
                surface = text[at:end]
                owners = {row for name, row in names if written(surface, name, config)}
                usable = len(surface) >= config.min_length and any(char.isalpha() for char in surface)
                common = surface.lower() in common_words() and not surface.isupper()
                if owners and usable and not common:
                    if len(owners) == 1 and not is_fragment(text[:at], surface, text[end:], common_words()):
                        found.append((at, end, owners.pop()))
                    step = end - at
                    break
        at += step
    return found


def written(surface: str, name: str, config: MineConfig) -> bool:
    if config.casing == "preserve":
        return surface == name
    one, other = surface.encode(), name.encode()
    return key(one) == key(other) and fits(one, other)


PIECES = [
    *("IL-2", "IL", "TNF", "alpha", "β-catenin", "catenin", "5'-UTR", "UTR", "Breast", "breast", "cancer", "Cancer"),
    *(
        "Eden ",
        " Prairie",
        "yl ",
        " acid",
        "ium ",
        "oxide",
        "Neoplasms",
        "AIDS",
        "aids",
        "lung",
        "cell",
        "cells",
        "vitamin",
        "D",
        "1,25",
        "25",
        "2",
        "e\u0301",
        "ü",
        "文",
    ),
    *(" ", " ", " ", " ", "-", "–", "'", "’", ",", ".", ", ", "(", ")", "/", "\n", "“", "”", "\u00a0", "_", "—", "+"),
]
pieces = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join).map(str.strip).filter(bool)
texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


@settings(max_examples=300, deadline=None)
@given(
    entities=st.lists(st.lists(pieces, min_size=1, max_size=3), min_size=1, max_size=6),
    text=texts,
    casing=st.sampled_from(["variants", "preserve"]),
    aliases=st.booleans(),
)
def test_equals_brute_force(entities: list[list[str]], text: str, casing: str, aliases: bool) -> None:
    config = MineConfig(casing=casing, aliases=aliases, min_length=2)  # type: ignore[arg-type]
    try:
        found = matched(entities, text, config)
    except InputError:
        assert not brute_force(entities, text, config)
        return
    assert found == brute_force(entities, text, config)


@settings(max_examples=50, deadline=None)
@given(documents=st.lists(texts, max_size=6))
def test_documents_do_not_touch_each_other(documents: list[str]) -> None:
    matcher = Matcher(names_of([["breast cancer"], ["IL-2"], ["β-catenin"], ["lung cells"]]))
    together = matcher.find(documents)
    for number, text in enumerate(documents):
        alone = matcher.find([text])
        mine = together.document == number
        assert together.start[mine].tolist() == alone.start.tolist()
        assert together.end[mine].tolist() == alone.end.tolist()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("IL-2-dependent growth", ["IL-2"]),
        ("IL-2R and IL-21", []),
        ("levels of TNF-α, TNF-alpha and TNFα", []),
        ("TNF/IL-2 (TNF)", ["TNF", "IL-2", "TNF"]),
        ("anti-TNF", []),
        ("β-catenin, catenin", ["β-catenin", "catenin"]),
        ("the 5'-UTR, an UTR", ["5'-UTR", "UTR"]),
        ("‘asthma’ and “asthma” and 'asthma'", ["asthma", "asthma", "asthma"]),
        ("asthma's", []),
        ("asthma. Asthma, asthma; asthma", ["asthma", "Asthma", "asthma", "asthma"]),
        ("ASTHMA", []),
        ("1,25-dihydroxyvitamin D is 25-dihydroxyvitamin D", ["25-dihydroxyvitamin D"]),
        ("insulin-like growth; insulin-dependent; insulin- and", ["insulin"]),
        ("breast cancer cells", ["breast cancer"]),
        ("breast cancerous lung cancer", ["lung cancer"]),
        ("lung  cancer and lung\ncancer", []),
        ("Epstein-Barr virus, epstein-Barr Virus, EPSTEIN-BARR virus", ["Epstein-Barr virus", "epstein-Barr Virus"]),
        ("asthma—asthma–asthma", ["asthma", "asthma"]),
        ("асматический asthma مرض asthma", ["asthma", "asthma"]),
        ("an\u200basthma of asthma\u0301", ["asthma"]),
        ("Eden Asthma, Asthma Initiative, of Asthma, The Asthma. Asthma is", ["Asthma", "Asthma", "Asthma"]),
        ("in H. asthma and in group B, asthma", ["asthma"]),
        ("asthma acid, asthma tetraacetic acid, asthma and acid", ["asthma"]),
        ("phosphatidyl insulin, methyl-insulin, sodium insulin", ["insulin"]),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    names = ["IL-2", "TNF", "β-catenin", "catenin", "5'-UTR", "UTR", "asthma", "25-dihydroxyvitamin D", "insulin"]
    names += ["breast cancer", "lung cancer", "lung cancer cell", "Epstein-Barr Virus", "cancer c"]
    assert [text[start:end] for start, end, _ in matched([[name] for name in names], text)] == found


def test_shared_forms_are_skipped_and_hide_what_is_inside() -> None:
    entities = [["cold", "MS"], ["MS"], ["common cold", "head cold"], ["head cold"]]
    text = "MS, a head cold, a cold, the common cold"
    assert [(text[s:e], owner) for s, e, owner in matched(entities, text)] == [("cold", 0), ("common cold", 2)]


def test_a_form_shared_only_through_case_or_inversion_is_shared() -> None:
    assert matched([["Neoplasms, Breast"], ["breast neoplasms"]], "breast neoplasms") == []
    assert matched([["Neoplasms, Breast"], ["breast neoplasms"]], "breast neoplasms", MineConfig(casing="preserve"))


@pytest.mark.parametrize(
    ("surface", "name", "expected"),
    [
        ("gait disturbance", "Gait Disturbance", True),
        ("Gait disturbance", "gait disturbance", True),
        ("aids", "AIDS", False),
        ("Aids", "AIDS", False),
        ("vitamin D", "Vitamin D", True),
        ("vitamin d", "Vitamin D", False),
        ("crohn's disease", "Crohn's Disease", True),
        ("4-aminopyridine", "4-Aminopyridine", True),
        ("il2", "Il2", False),
        ("type 2 diabetes", "Type 2 Diabetes", True),
        ("Hiv infections", "HIV Infections", False),
        ("multiple sclerosis", "MULTIPLE SCLEROSIS", True),
        ("ca", "Ca", False),
    ],
)
def test_case_policy(surface: str, name: str, expected: bool) -> None:
    assert key(surface.encode()) == key(name.encode())
    assert fits(surface.encode(), name.encode()) is expected


@pytest.mark.parametrize(
    ("name", "turned"),
    [
        ("Neoplasms, Breast", "Breast Neoplasms"),
        ("Leukemia, Myeloid, Acute", "Acute Myeloid Leukemia"),
        ("Diabetes Mellitus, Type 2", "Type 2 Diabetes Mellitus"),
        ("N,N-dimethylaniline", None),
        ("acid, 5-(methylamino)-, (6S)", None),
        ("Bites and Stings", None),
        ("Skin, Hair and", None),
        ("MS1, INCLUDED", None),
    ],
)
def test_inverted_names(name: str, turned: str | None) -> None:
    assert turned_round(name) == turned


def test_verdicts() -> None:
    names = names_of([["asthma", "was", "WAS", "x1"], ["MS2"], ["MS2"]], MineConfig(min_length=2))
    keys = {found: number for number, found in enumerate(names.keys().to_pylist())}

    def verdict(text: str) -> Verdict:
        return names.judge(text.encode(), keys[key(text.encode())])[0]

    assert verdict("asthma") == "kept"
    assert verdict("was") == "common word"
    assert verdict("WAS") == "kept"
    assert verdict("MS2") == "shared"
    assert verdict("ms2") == "no name"


def test_dropped_at_sight_and_nothing_left() -> None:
    table = pa.table({"text": ["ab", "123", "abc"], "entity": pa.array([0, 1, 2], pa.int32())})
    with tempfile.TemporaryDirectory() as folder:
        dropped = write_names(table, MineConfig(), Path(folder))
        assert dropped == [("ab", "too short"), ("123", "no letter")]
        with pytest.raises(InputError, match="no name that can be looked for"):
            write_names(table.slice(0, 2), MineConfig(), Path(folder))


def test_a_name_that_ends_in_a_quotation_mark_at_the_end_of_the_text() -> None:
    assert matched([["IL-2"], ["IL-2'"], ["IL-2 ()."]], "IL-2") == [(0, 4, 0)]
