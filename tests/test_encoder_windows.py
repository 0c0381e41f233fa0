"""Windows of tokens, compared with BERT's tokenizer and the rules of windows written anew in plain Python."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.encoder.config import EncoderConfig, SpecialTokens
from kriss.encoder.model import Encoder
from kriss.encoder.windows import Windows
from kriss.errors import ConfigError
from kriss.records import Entity, Excerpt, Mention
from tests.conftest import TINY_VOCABULARY

VOCABULARY = {piece: number for number, piece in enumerate(TINY_VOCABULARY)}
START, END = len(VOCABULARY), len(VOCABULARY) + 1
CLS, SEP, PAD, MASK = (VOCABULARY[token] for token in ("[CLS]", "[SEP]", "[PAD]", "[MASK]"))
ODD = [
    "[SEP]",
    "[M_s]",
    "[M_e]",
    "[MASK]",
    "<ENT>",
    "\0",
    "\u202e",
    "שלום",
    "مرض",
    "😀",
    "é",
    "心",
    "\n",
    "�",
    "x" * 120,
]
WORDS = [piece for piece in TINY_VOCABULARY[5:] if not piece.startswith("##")]

texts = st.lists(st.sampled_from(WORDS + ODD), max_size=30).flatmap(
    lambda words: st.sampled_from([" ", ""]).map(lambda gap: gap.join(words))
)
mentions = st.builds(Excerpt, texts, texts, texts, st.booleans())


@pytest.fixture(scope="module")
def windows(tiny_model: Path) -> Any:
    """Return what makes windows of any width with the tiny model's tokenizer."""
    tokenizer = Encoder.from_pretrained(str(tiny_model), EncoderConfig()).windows._tokenizer
    tokens = SpecialTokens("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[M_s]", "[M_e]")
    return lambda **config: Windows(tokenizer, tokens, EncoderConfig(**config))


# --- the oracle ---------------------------------------------------------------------------------

_LONGEST_WORD = 100


def word_pieces(text: str, vocabulary: Mapping[str, int]) -> list[int]:
    """Return the ids of a text's pieces. It knows no special tokens: a text that spells one is plain text."""
    return [piece for word in _words(text) for piece in _pieces(word, vocabulary)]


def _words(text: str) -> list[str]:
    kept = []
    for char in text:
        if char in "\t\n\r" or unicodedata.category(char) == "Zs":
            kept.append(" ")
        elif char == "\ufffd" or unicodedata.category(char).startswith("C"):
            continue
        elif 0x4E00 <= ord(char) <= 0x9FFF:
            kept.append(f" {char} ")
        else:
            kept.append(char)
    plain = "".join(char for char in unicodedata.normalize("NFD", "".join(kept)) if unicodedata.category(char) != "Mn")
    spaced = "".join(f" {char} " if _is_punctuation(char) else char for char in plain.lower())
    return spaced.split()


def _is_punctuation(char: str) -> bool:
    return (char.isascii() and char.isprintable() and not char.isalnum() and char != " ") or unicodedata.category(
        char
    ).startswith("P")


def _pieces(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    unknown = [vocabulary["[UNK]"]]
    if len(word) > _LONGEST_WORD:
        return unknown
    found: list[int] = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                found.append(vocabulary[piece])
                start = end
                break
        else:
            return unknown
    return found


def shares(room: int, left: int, right: int) -> tuple[int, int]:
    """Of all ways to give tokens to both sides: as many as there is room for, then as evenly as can be."""
    ways = [way for way in product(range(left + 1), range(right + 1)) if sum(way) <= room]
    return max(ways, key=lambda way: (sum(way), -abs(way[0] - way[1]), way[1]))


def expected_window(mention: Excerpt, window: int) -> list[int]:
    left, surface, right = (word_pieces(text, VOCABULARY) for text in (mention.left, mention.surface, mention.right))
    if mention.masked:
        surface = [MASK]
    room = window - 4
    if len(surface) > room:
        tail = room // 2
        surface = surface[: room - tail] + surface[len(surface) - tail :]
    before, after = shares(room - len(surface), len(left), len(right))
    return [CLS, *left[len(left) - before :], START, *surface, END, *right[:after], SEP]


# --- mentions -----------------------------------------------------------------------------------


@settings(max_examples=150)
@given(found=st.lists(mentions, max_size=4), window=st.integers(6, 70))
def test_windows_are_those_of_the_oracle(windows: Any, found: list[Excerpt], window: int) -> None:
    reach = 8 * window
    cut = [Excerpt(m.left[-reach:], m.surface, m.right[:reach], m.masked) for m in found]
    sequences = windows(window=window).mentions(cut)
    assert sequences.ids == [expected_window(mention, window) for mention in cut]
    assert all(len(ids) <= window for ids in sequences.ids)


@settings(max_examples=30)
@given(words=st.lists(st.sampled_from([word for word in WORDS if len(word) < 8]), min_size=200, max_size=400))
def test_of_a_long_text_the_nearest_words_stay(windows: Any, words: list[str]) -> None:
    text = " ".join(words)
    for at in (0, len(words) // 2, len(words) - 1):
        start = len(" ".join(words[:at])) + (at > 0)
        mention = Mention.at(text, start, start + len(words[at])).excerpt(1 << 20)
        assert windows().mentions([mention]).ids == [expected_window(mention, 64)]


def test_windows_by_example(windows: Any) -> None:
    make = windows(window=10)

    def shown(mention: Excerpt) -> str:
        [ids] = make.mentions([mention]).ids
        names = [*TINY_VOCABULARY, "<", ">"]
        return " ".join(names[number] for number in ids)

    assert shown(Excerpt("a b c d e", "x", "f g h i j")) == "[CLS] d e < x > f g h [SEP]"
    assert shown(Excerpt("a", "x", "f g h i j")) == "[CLS] a < x > f g h i [SEP]"
    assert shown(Excerpt("a b c d e", "x", "")) == "[CLS] a b c d e < x > [SEP]"
    assert shown(Excerpt.bare("x")) == "[CLS] < x > [SEP]"
    assert shown(Excerpt("a b", "1 2 3 4 5 6", "c d")) == "[CLS] < 1 2 3 4 5 6 > [SEP]"
    assert shown(Excerpt("a b", "1 2 3 4 5 6 7 8 9", "c d")) == "[CLS] < 1 2 3 7 8 9 > [SEP]"
    assert shown(Excerpt("a", "the cold", "b", masked=True)) == "[CLS] a < [MASK] > b [SEP]"
    assert shown(Excerpt("", "", "")) == "[CLS] < > [SEP]"
    assert shown(Excerpt("a [SEP]", "x", "[M_e]")) == "[CLS] ##p ] < x > [ m _ [SEP]"


def test_windows_that_are_too_small_are_refused(windows: Any) -> None:
    with pytest.raises(ConfigError, match="a window of 5 tokens has no room"):
        windows(window=5)
    with pytest.raises(ConfigError, match="'reference_window' must be at least"):
        windows(reference_window=8)


@settings(max_examples=100)
@given(
    name=texts,
    aliases=st.lists(texts, max_size=5),
    types=st.lists(texts, max_size=3),
    trees=st.lists(st.sampled_from(["C10.228.140", "B2.2.1.2.1"]), max_size=9),
    definition=texts,
    window=st.integers(16, 80),
)
def test_references_fit_and_keep_their_order(
    windows: Any, name: str, aliases: list[str], types: list[str], trees: list[str], definition: str, window: int
) -> None:
    entity = Entity("1", name, tuple(aliases), tuple(types), tuple(trees), definition)
    [ids] = windows(reference_window=window).references([entity]).ids
    assert len(ids) <= window
    assert (ids[0], ids[-1]) == (CLS, SEP)
    assert not {START, END, PAD, MASK} & set(ids)
    parts = split(ids)
    assert len(parts) in (3, 4)
    wholes = [" ".join(trees), ", ".join(types), "; ".join([name, *aliases])[: 8 * window], definition[: 8 * window]]
    for part, whole in zip(parts, wholes, strict=False):
        assert part == word_pieces(whole, VOCABULARY)[: len(part)]
    pieces = [word_pieces(whole, VOCABULARY) for whole in wholes[2:]]
    if sum(map(len, (*parts[:2], *pieces))) + 5 <= window:
        assert parts[2:] == pieces[: len(parts) - 2]


def split(ids: list[int]) -> list[list[int]]:
    """Return what stands before each [SEP]."""
    parts: list[list[int]] = [[]]
    for number in ids[1:]:
        if number == SEP:
            parts.append([])
        else:
            parts[-1].append(number)
    assert parts.pop() == []
    return parts


@pytest.mark.parametrize("window", [16, 64])
def test_a_preferred_name_stands_before_500_aliases(windows: Any, window: int) -> None:
    aliases = tuple(f"{word} {number}" for number in range(100) for word in ("pain", "fever", "cold", "dose", "gene"))
    entity = Entity("1", "heart attack", aliases, ("Disease",) * 9, ("C10.1",) * 9, "acute pain " * 99)
    [ids] = windows(reference_window=window).references([entity]).ids
    assert len(ids) <= window
    assert split(ids)[2][:2] == [VOCABULARY["heart"], VOCABULARY["attack"]]


def test_fields_that_are_not_asked_for_stay_empty(windows: Any) -> None:
    entity = Entity("1", "cold", ("fever",), ("pain",), ("1",), "dose")
    [ids] = windows(fields=("names",)).references([entity]).ids
    assert split(ids) == [[], [], word_pieces("cold; fever", VOCABULARY)]
