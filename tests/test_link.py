"""Linking: the same answer in any company, the options one by one against brute force, and odd input."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kriss import Excerpt, Link, Linker
from kriss.encoder.session import OnnxEncoder
from kriss.errors import ConfigError, InputError, UnknownEntityError
from kriss.index.prototypes import Prototypes
from kriss.index.vectors import Index
from kriss.link.linker import as_mention
from kriss.rank.features import FEATURES
from kriss.records import Evidence, Mention
from tests.train_fixtures import one_thread, world  # noqa: F401 - fixtures

EVERY = 100
"""More candidates than there are entities."""
WORDS = "the of heart attack kidney cold fever pain chest gastrosis neuritis shared alias unheard gene (HA) ü é".split()


def weights(**more: float) -> dict[str, float]:
    """Return weights by which the vectors alone count, but for those that a test names."""
    return {feature.name: 0.0 for feature in FEATURES if feature.name not in ("bare", "context", "learned")} | more


def load(path: Path, **options: object) -> Linker:
    """Return a linker that scores by the vectors alone, unless a test says otherwise."""
    return Linker.load(path, threads=1, **{"weights": weights(), "shared_names": False} | options)


def some_mentions(count: int, seed: int = 0) -> list[Excerpt]:
    """Return mentions of all lengths, some of them several times."""
    draw = Random(seed)
    sides = [" ".join(draw.choices(WORDS, k=draw.randint(0, 9))) for _ in range(2 * count)]
    found = [
        Excerpt(f"{sides[2 * n]} ", " ".join(draw.choices(WORDS, k=draw.randint(1, 3))), f" {sides[2 * n + 1]}.")
        for n in range(count)
    ]
    return [draw.choice(found[: n + 1]) if n % 5 == 4 else mention for n, mention in enumerate(found)]


def scores_of(link: Link) -> dict[str, float]:
    return {candidate.entity: candidate.score for candidate in link.candidates}


class BruteForce:
    """Every prototype of a linker, scored one by one."""

    def __init__(self, path: Path) -> None:
        self.encoder = OnnxEncoder.load(path / "encoder", threads=1)
        self.table, index = Prototypes(path / "prototypes.arrow"), Index.open(path / "vectors")
        self.vectors = index.vectors(np.arange(len(index))).astype(np.float64)

    def dense(self, query: NDArray[np.float64]) -> dict[str, float]:
        products, ontology = self.vectors @ query, world().ontology
        return {ontology.id_at(row): float(products[self.table.entity == row].max()) for row in ontology.rows()}

    def query(self, mention: Excerpt, context: float) -> NDArray[np.float64]:
        whole, bare = self.encoder.mentions([mention, Excerpt.bare(mention.surface)]).astype(np.float64)
        return np.asarray(context * whole + (1 - context) * bare)


@pytest.fixture(scope="module")
def brute(built: Path) -> BruteForce:
    """Return the oracle."""
    return BruteForce(built)


@pytest.fixture(scope="module")
def linker(built: Path) -> Linker:
    """Return a linker that nobody teaches."""
    return load(built)


# --- in any company ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"weights": {"spelling": 0.3}}, {"types": ["Thing"], "mode": "self-supervised"}]
)
def test_answers_do_not_depend_on_company(taught: Path, options: dict[str, object]) -> None:
    linker = load(taught, **options)
    mentions = some_mentions(300)
    linker.add_all([(mention, f"X:{number:03d}") for number, mention in enumerate(mentions[:20])])
    together = linker.link(mentions)
    assert linker.link(mentions[::-1]) == together[::-1]
    assert linker.link(mentions[:7]) + linker.link(mentions[7:250]) + linker.link(mentions[250:]) == together
    assert [one for mention in mentions[::25] for one in linker.link([mention])] == together[::25]
    assert linker.link([mentions[3]] * 30) == [together[3]] * 30
    assert [link.mention for link in together] == list(map(as_mention, mentions))


# --- what is asked -------------------------------------------------------------------------------


def test_mentions_in_three_ways(linker: Linker) -> None:
    text = "who had kidney neuritis and a shared alias."
    expected = linker.link([Mention.at(text, 15, 23), Mention.at(text, 30, 42)])
    assert linker.link([(text, 15, 23), (text, 30, 42)]) == expected
    assert linker.link_text("who had kidney [[neuritis]] and a [[shared alias]].") == expected
    assert linker.link([]) == []
    with pytest.raises(InputError, match=r"the text marks no mention; put double brackets around it: \[\[MS\]\]"):
        linker.link_text("who had kidney neuritis")


@pytest.mark.parametrize(("start", "end"), [(3, 3), (4, 2), (-1, 2), (0, 5), (9, 12)])
def test_a_span_outside_its_text_is_refused(linker: Linker, start: int, end: int) -> None:
    with pytest.raises(InputError, match=f"the span from {start} to {end} does not lie in its text of 4 characters"):
        linker.link([("cold", 0, 4), ("cold", start, end)])


@pytest.mark.parametrize("surface", [" ", "\n\t", "\u2003"])
def test_a_mention_without_text_is_refused(linker: Linker, surface: str) -> None:
    with pytest.raises(InputError, match="a mention must have a text"):
        linker.link([Excerpt("a ", surface, " b")])


ODD = [
    Excerpt.bare("heart " * 300),
    Excerpt("x " * 20_000, "cold", " y" * 20_000),
    Excerpt("أصيب المريض ", "بنوبة قلبية", " حادة."),
    Excerpt("患者は", "多発性硬化症", "です。"),
    Excerpt("🫀 ", "💔", " e\u0301"),
    Excerpt("a\0b ", "co\0ld", "\0"),
    Excerpt("\ud800 ", "co\udfffld", "\udc00"),
    Excerpt("[CLS] ", "[MASK]", " [SEP] [M_s]"),
    Excerpt("((((" * 500, "))", "[[" * 500),
]


@pytest.mark.parametrize("mention", ODD, ids=lambda mention: ascii(mention.surface[:12]))
def test_odd_texts_are_linked_like_any_other(linker: Linker, mention: Excerpt) -> None:
    [link] = linker.link([mention], top=3)
    assert link.mention == as_mention(mention)
    assert len(link.candidates) == 3
    assert np.isfinite([link.score, link.probability]).all()
    assert linker.link([*some_mentions(5), mention], top=3)[-1] == link
    assert linker.with_options(weights=weights(spelling=1.0)).link([mention])[0].entity


@given(left=st.text(max_size=40), surface=st.text(min_size=1, max_size=20), right=st.text(max_size=40))
def test_any_text_can_be_linked(linker: Linker, left: str, surface: str, right: str) -> None:
    mention = Excerpt(left, surface, right)
    if surface.strip():
        [link] = linker.with_options(weights=weights(spelling=0.5)).link([mention], EVERY)
        assert len(link.candidates) == len(world().ontology)
        assert 0 <= link.probability <= 1


def test_top(linker: Linker) -> None:
    mentions = some_mentions(10)
    everything = linker.link(mentions, EVERY)
    assert {len(link.candidates) for link in everything} == {len(world().ontology)}
    for one in (linker, linker.with_options(weights=weights(spelling=0.4))):
        longest = one.link(mentions, 16)
        for top in (1, 2, 3, 5):
            for link, whole in zip(one.link(mentions, top), longest, strict=True):
                assert link.candidates == whole.candidates[:top]
                assert (link.entity, link.score, link.probability) == (whole.entity, whole.score, whole.probability)
    with pytest.raises(ConfigError, match="'top' must be at least 1, not 0"):
        linker.link(mentions, 0)


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [0.0, 0.3, 0.5, 1.0])
def test_the_context_weighs_as_it_is_told(linker: Linker, brute: BruteForce, context: float) -> None:
    one = linker.with_options(weights=weights(context=context), abbreviations=False)
    for mention, link in zip(some_mentions(12), one.link(some_mentions(12), EVERY), strict=True):
        expected = brute.dense(brute.query(mention, context))
        assert scores_of(link) == pytest.approx(expected, abs=1e-5)
        assert link.entity == max(expected, key=lambda entity: expected[entity])
        row = next(c.evidence for c in link.candidates)
        assert row in [brute.table.evidence(at) for at in range(len(brute.table))]


def test_a_learned_example_is_spelled_like_a_name(taught: Path) -> None:
    mention, linker = Excerpt("the heart of ", "unheard", " pain"), load(taught)
    example = linker.add(mention, "X:003")
    [link] = linker.with_options(weights=weights(spelling=100.0)).link([mention])
    assert (link.entity, link.candidates[0].evidence.example) == ("X:003", example)
    assert link.candidates[0].features["spelling"] == pytest.approx(100.0)


def test_abbreviations_are_read_as_the_document_says(clinic: Path) -> None:
    linker = load(clinic)
    text = "Patients with multiple sclerosis (MS) relapsed; MS is chronic, and PS is not defined."
    short, undefined = Mention.at(text, 48, 50), Mention.at(text, text.index("PS"), text.index("PS") + 2)
    long = Excerpt(text[:48], "multiple sclerosis", text[50:])
    for one in (linker, linker.with_options(weights=weights(spelling=0.5))):
        found, other, plain = one.link([short, undefined, long], EVERY)
        assert (found.expanded, other.expanded, plain.expanded) == ("multiple sclerosis", "", "")
        assert found.mention == short
        assert (found.entity, found.candidates, found.probability) == (
            plain.entity,
            plain.candidates,
            plain.probability,
        )
        [off] = one.with_options(abbreviations=False).link([short], EVERY)
        assert off.expanded == ""
        assert off.candidates != found.candidates


def test_types_and_ids_limit_what_is_linked_to(clinic: Path, linker: Linker) -> None:
    mentions = some_mentions(6)
    whole = [scores_of(link) for link in linker.link(mentions, EVERY)]
    ids = ["X:030", "X:002", "X:011", "X:011"]
    for link, every in zip(linker.with_options(ids=ids).link(mentions, EVERY), whole, strict=True):
        assert scores_of(link) == {entity: every[entity] for entity in every if entity in ids}
    ward = load(clinic)
    for kinds, expected in (
        (["Disease"], {"D003110", "D009103", "D009369"}),
        (["Procedure", "Chemical"], {"D013058", "D001241"}),
    ):
        for link in ward.with_options(types=kinds).link(mentions, EVERY):
            assert set(scores_of(link)) == expected
    [link] = ward.with_options(types=["Disease"], ids=["D013058", "D009103"]).link(mentions[:1])
    assert set(scores_of(link)) == {"D009103"}
    [link] = ward.with_options(types=["Chemical"], ids=["D009103"]).link(mentions[:1])
    assert (link.entity, link.name, link.score, link.probability, link.candidates) == (None, "", 0.0, 0.0, ())
    with pytest.raises(UnknownEntityError, match=f"no entity 'D1' in {clinic}"):
        ward.with_options(ids=["D009103", "D1"])
    with pytest.raises(ConfigError, match="Weather"):
        ward.with_options(types=["Weather"])


def test_a_threshold_makes_weak_links_nil(linker: Linker) -> None:
    mentions = some_mentions(60)
    links = linker.link(mentions)
    middle = sorted(link.probability for link in links)[30]
    strict = linker.with_options(threshold=middle).link(mentions)
    for link, found in zip(links, strict, strict=True):
        assert found.candidates == link.candidates
        assert (found.score, found.probability) == (link.score, link.probability)
        kept = link.probability >= middle
        assert (found.entity, found.name) == ((link.entity, link.name) if kept else (None, ""))
    assert {link.entity is None for link in strict} == {True, False}


def test_a_probability_grows_with_the_score(linker: Linker) -> None:
    links = linker.link(some_mentions(200, seed=4))
    assert all(0 <= link.probability <= 1 for link in links)
    margins = np.array([link.score - link.candidates[1].score for link in links])
    scores, probabilities = (np.array([getattr(link, name) for link in links]) for name in ("score", "probability"))
    better = (scores[:, None] >= scores) & (margins[:, None] >= margins)
    assert (probabilities[:, None] >= probabilities - 1e-12)[better].all()


def test_modes(taught: Path) -> None:
    linker = load(taught)
    mentions = some_mentions(4)
    alone, gold = linker.with_options(mode="self-supervised"), linker.with_options(mode="supervised")
    for link in gold.link(mentions):  # nothing is learned yet
        assert (link.entity, link.name, link.score, link.probability, link.candidates) == (None, "", 0.0, 0.0, ())
    assert linker.link(mentions) == alone.link(mentions)
    before = alone.link(mentions, EVERY)
    example = linker.add(mentions[0], "X:005")
    assert alone.link(mentions, EVERY) == before
    for link, both, mined in zip(gold.link(mentions), linker.link(mentions, EVERY), before, strict=True):
        assert [(c.entity, c.evidence.example) for c in link.candidates] == [("X:005", example)]
        expected = scores_of(mined)
        expected["X:005"] = max(expected["X:005"], link.score)
        assert scores_of(both) == expected


def test_options_are_checked(linker: Linker) -> None:
    for options, sentence in (
        ({"weights": {"context": 1.5}}, "the weight of 'context' is from 0 to 1, not 1.5"),
        ({"weights": {"spelling": float("nan")}}, "'weights'"),
        ({"threshold": -0.1}, "'threshold' is a number from 0 to 1, not -0.1"),
        ({"mode": "eager"}, "'mode' must be one of lazy, self-supervised, supervised, not 'eager'"),
        ({"tpyes": ["Thing"]}, "did you mean 'types'"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            linker.with_options(**options)
    one = linker.with_options(weights={"context": 0.25}).with_options(threshold=0.5)
    assert (one.weights["context"], one.config.threshold, linker.config.threshold) == (0.25, 0.5, 0.0)


def test_evidence_is_the_prototype_that_scores(linker: Linker, brute: BruteForce) -> None:
    one = linker.with_options(weights=weights(context=1.0), abbreviations=False)
    for mention, link in zip(some_mentions(8), one.link(some_mentions(8), EVERY), strict=True):
        query = brute.query(mention, 1.0)
        for candidate in link.candidates:
            rows = [at for at in range(len(brute.table)) if brute.table.evidence(at) == candidate.evidence]
            assert max(float(brute.vectors[at] @ query) for at in rows) == pytest.approx(candidate.score, abs=1e-5)
            assert isinstance(candidate.evidence, Evidence)
