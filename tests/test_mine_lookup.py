"""Finding keys by hashes, against a search at every place; stretches hashed at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.mine.boundaries import is_word
from kriss.mine.casing import key, keyed
from kriss.mine.lookup import Filter, Lookup
from kriss.mine.pages import NOTHING, Stretches

PIECES = [*("il", "2", "breast", "cancer", "dihydroxyvitamin", "a", "β", "文", "𝛽", "é", "，", "™")]
PIECES += [*(" ", " ", "-", "–", "(", ")", "),", "]", "’", "—", "_", "\0")]
texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
names = st.lists(st.sampled_from(PIECES[:-1]), min_size=1, max_size=6).map("".join)
keys = st.lists(names.filter(lambda name: any(map(str.isalpha, name))).map(str.encode).map(key), min_size=1, max_size=8)


@settings(max_examples=400, deadline=None)
@given(keys, texts)
def test_keys_are_found_as_whole_words_after_a_blank(some: list[bytes], text: str) -> None:
    some = sorted(set(some))
    data = f"\0{text}\0".encode()
    text_key = keyed(data)
    found = Lookup(pa.chunked_array([pa.array(some[:3], pa.large_binary()), pa.array(some[3:], pa.large_binary())]))
    expected = {
        (number, start, start + len(name))
        for number, name in enumerate(some)
        for start in range(1, len(data) - len(name))
        if text_key.startswith(name, start) and text_key[start - 1] == 32
        if not is_word(text_key[start + len(name) :].decode()[0])
    }
    assert set(zip(*(column.tolist() for column in found.find(text_key)), strict=True)) == expected


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_hashes_tell_stretches_apart_wherever_they_stand(pieces: list[bytes]) -> None:
    pieces = [piece.replace(b"\0", b"\1") for piece in pieces]
    ends = np.cumsum([3, *map(len, pieces)])
    hashes = Stretches(b"abc" + b"".join(pieces) + bytes(8)).hashed(NOTHING, ends[:-1], ends[1:]).tolist()
    assert len(set(hashes)) == len(set(pieces))
    held = Filter(np.array(hashes[::2], dtype=np.uint64)).holds(np.array(hashes, dtype=np.uint64))
    assert held[::2].all()
