"""Abbreviations that a document defines: the published cases, what real abstracts do, and mentions written out."""

from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.abbreviations import abbreviations, expand

DEFINED = [
    # The example of Schwartz and Hearst (2003), and the like.
    ("heat shock transcription factor (HSF)", "HSF", "heat shock transcription factor"),
    ("the heat shock protein (HSP) family", "HSP", "heat shock protein"),
    ("gamma-aminobutyric acid (GABA)", "GABA", "gamma-aminobutyric acid"),
    ("the polymerase chain reaction (PCR)", "PCR", "polymerase chain reaction"),
    ("HSF (heat shock transcription factor) binds", "HSF", "heat shock transcription factor"),
    ("tyrosine hydroxylase (TTH)", "TTH", None),
    # Both directions.
    ("Patients with multiple sclerosis (MS) relapse.", "MS", "multiple sclerosis"),
    ("Patients with MS (multiple sclerosis) relapse.", "MS", "multiple sclerosis"),
    ("Mutations (missense and nonsense) were found.", "Mutations", None),
    # Initials before letters inside words.
    ("severe coronary artery calcification (CAC)", "CAC", "coronary artery calcification"),
    ("cancer of the large bowel (CLB)", "CLB", "cancer of the large bowel"),
    # Initials in another order, as the language of the short form has them.
    ("Myotonic dystrophy (DM) is associated with a repeat.", "DM", "Myotonic dystrophy"),
    ("congenital adrenal hypoplasia (AHC)", "AHC", "congenital adrenal hypoplasia"),
    ("cancer of the breast (BC)", "BC", "cancer of the breast"),
    ("the renal nephropathy (DM) of old age", "DM", None),
    ("a lot to do (DL)", "DL", None),
    # Brackets.
    ("multiple sclerosis [MS]", "MS", "multiple sclerosis"),
    ("a disease (of myelin, multiple sclerosis (MS)) of youth", "MS", "multiple sclerosis"),
    ("mice (models of (MS)) were", "MS", None),
    ("poly (ADP-ribose) polymerase (PARP)", "PARP", "poly (ADP-ribose) polymerase"),
    ("gamma-aminobutyric acid(A) receptors (GABA(A)Rs)", "GABA(A)Rs", "gamma-aminobutyric acid(A) receptors"),
    ("tidal volume (VE), tidal volume (VT)", "VT", "tidal volume"),
    # Several things in one parenthesis.
    ("multiple sclerosis (MS; also called disseminated sclerosis)", "MS", "multiple sclerosis"),
    ("multiple sclerosis (MS, n = 24)", "MS", "multiple sclerosis"),
    ("multiple sclerosis (hereafter 'MS')", "MS", "multiple sclerosis"),
    ("Angelman syndrome (AS)", "AS", "Angelman syndrome"),
    ("MS (i.e., multiple sclerosis)", "MS", "multiple sclerosis"),
    ("Duchenne/Becker dystrophy (DD/BD)", "BD", "Becker dystrophy"),
    ("growth factor/permeability factor (GF/PF)", "GF", "growth factor"),
    # Plurals, hyphens, digits, Greek letters, other scripts.
    ("tyrosine kinase inhibitors (TKIs)", "TKIs", "tyrosine kinase inhibitors"),
    ("ataxia-telangiectasia (A-T)", "A-T", "ataxia-telangiectasia"),
    ("5-fluorouracil (5-FU)", "5-FU", "5-fluorouracil"),
    ("3,4-methylenedioxymethamphetamine (MDMA)", "MDMA", "3,4-methylenedioxymethamphetamine"),
    ("glucose-6-phosphate dehydrogenase (G6PD)", "G6PD", "glucose-6-phosphate dehydrogenase"),
    ("tumor necrosis factor alpha (TNF-α)", "TNF-α", "tumor necrosis factor alpha"),
    ("α-fetoprotein (AFP)", "AFP", "α-fetoprotein"),
    ("épidermolyse bulleuse (EB)", "EB", "épidermolyse bulleuse"),
    ("PCR/single-strand conformation polymorphism (SSCP)", "SSCP", "single-strand conformation polymorphism"),
    # Lines and sentences.
    ("Huntington\ndisease (HD)", "HD", "Huntington disease"),
    ("We saw muscle loss. Sclerosis (MLS)", "MLS", None),
    ("Trial of drugs\n\nSclerosis (TDS)", "TDS", None),
    # What is in parentheses and no short form.
    ("5 or 10 mg per kg of drug (2 mg/kg)", "2 mg/kg", None),
    ("threonine at 274 to methionine (T274M)", "T274M", None),
    ("a genetic reason or a usual past (group 2)", "group 2", None),
    ("it has recently been mapped to 1q21 (HRPT1)", "HRPT1", None),
    ("resection of the adrenal (O-A)", "O-A", None),
    ("the MS gene (MS)", "MS", None),
]


@pytest.mark.parametrize(("text", "short", "long"), DEFINED, ids=[f"{case[1]}: {case[0][:40]}" for case in DEFINED])
def test_a_definition_is_found(text: str, short: str, long: str | None) -> None:
    assert abbreviations(text).get(short) == long


def test_the_first_definition_wins() -> None:
    assert abbreviations("mass spectrometry (MS) in multiple sclerosis (MS)") == {"MS": "mass spectrometry"}


def test_authors_in_brackets_are_not_defined() -> None:
    text = "mutated in the autosomal recessive disease hemochromatosis [Mintier, D. A., Moore, R. C., Princeton]"
    assert abbreviations(text) == {}


FOUND = {
    "MS": "multiple sclerosis",
    "TKIs": "tyrosine kinase inhibitors",
    "VHL": "von Hippel-Lindau disease",
    "BC": "breast cancer",
    "FBC": "familial BC",
    "FAP": "familial adenomatous polyposis",
    "A-T": "ataxia-telangiectasia",
    "HIV": "human immunodeficiency virus",
    "HIV-2": "human immunodeficiency virus type 2",
}


@pytest.mark.parametrize(
    ("surface", "written_out"),
    [
        ("MS", "multiple sclerosis"),
        ("MSs", "multiple sclerosis"),
        ("TKI", "tyrosine kinase inhibitors"),
        ("TKIs", "tyrosine kinase inhibitors"),
        ("MS patients", "multiple sclerosis patients"),
        ("MS-related fatigue", "multiple sclerosis-related fatigue"),
        ("familial BC", "familial breast cancer"),
        ("FBC", "familial breast cancer"),
        ("VHL disease", "von Hippel-Lindau disease"),
        ("VHL disease MS", "von Hippel-Lindau disease multiple sclerosis"),
        ("familial FAP", "familial adenomatous polyposis"),
        ("A-T", "ataxia-telangiectasia"),
        ("HIV-2 infection", "human immunodeficiency virus type 2 infection"),
        ("HIV infection", "human immunodeficiency virus infection"),
        ("MS and BC", "multiple sclerosis and breast cancer"),
        ("breast cancer (BC)", "breast cancer"),
        ("breast cancer (BC) relapse", "breast cancer relapse"),
        ("multiple sclerosis", ""),
        ("EMS", ""),
        ("MSX", ""),
        ("ms", ""),
        ("", ""),
    ],
)
def test_a_mention_is_written_out(surface: str, written_out: str) -> None:
    assert expand(surface, FOUND) == written_out


def test_short_forms_that_define_each_other_come_to_an_end() -> None:
    assert expand("AB", {"AB": "the BA", "BA": "the AB"})


TEXT = st.lists(
    st.sampled_from(
        "multiple sclerosis MS ( ) [ ] ; , . alpha-beta α β AB TNF-α of the 5 \n é 😀 ß / or i.e. (MS) (A-B)".split(" ")
    ),
    max_size=40,
).map(" ".join)


@settings(deadline=None, max_examples=150)
@given(
    text=st.one_of(TEXT, st.text(max_size=60), st.text("aAbB ()[];,/-α\n", max_size=60)), surface=st.text(max_size=9)
)
def test_whatever_the_text_a_long_form_is_part_of_it_and_begins_with_one_of_its_letters(
    text: str, surface: str
) -> None:
    found = abbreviations(text)
    flat = " ".join(text.split())
    plain = str.maketrans("αβéÉ", "abee")
    for short, long in found.items():
        assert short in text
        assert long in flat
        assert len(long) > len(short)
        first_word = long.split()[0].casefold().translate(plain)
        starts = {first_word[i] for i in range(len(first_word)) if not i or not first_word[i - 1].isalnum()}
        assert starts & set(short.casefold().translate(plain))
        assert expand(short, found)
    expand(surface, found)


@pytest.mark.parametrize(
    "text",
    ["(" * 200_000, ")" * 200_000, "()" * 100_000, "(" * 100_000 + ")" * 100_000, "([{" * 70_000 + ")]}" * 70_000,
     "a" * 200_000 + " (AA)", " " * 200_000 + "(AB)", "(" + " or " * 50_000 + ")", "(also " * 30_000],
    ids=["open", "close", "pairs", "nested", "mixed", "word", "blanks", "or", "also"],
)  # fmt: skip
def test_time_is_linear_whatever_the_brackets(text: str) -> None:
    start = perf_counter()
    assert abbreviations(text) == {}
    assert perf_counter() - start < 10
