"""The names to look for, by their keys, and whose each stretch of text is.

A key (see `casing`) stands for all names that differ only in case and in opening punctuation.
Keys are what is looked for; what is found in text is then settled here, once for each distinct
surface: which entities own it, is it one, is it too common a word. Expanding every name into all
of its forms beforehand would give the same answers at three times the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kriss.errors import InputError
from kriss.mine.casing import fits, key, turned_round
from kriss.mine.config import MineConfig
from kriss.ontology.arrowfile import ArrowFile, Numbers, Strings, write_arrow

Verdict = Literal["kept", "shared", "common word", "too short", "no letter", "no name"]
"""What becomes of a surface: it is a name of one entity, or of several, which is skipped and yet nothing inside it is
found; it is an ordinary English word, and not an acronym; or it is not a permitted way to write any name."""


@dataclass(slots=True)
class Forms:
    """The surfaces met in text that are names of one entity, numbered as they came."""

    surface: list[bytes] = field(default_factory=list)
    entity: list[int] = field(default_factory=list)
    preferred: list[bool] = field(default_factory=list)


NOT_HERE, TAKEN = -2, -1
"""What `Names.form` says of a surface that is no name, and of one that is but must not be used."""


@cache
def common_words() -> frozenset[str]:
    """Return the English words that alone are hardly ever a mention."""
    text = (files("kriss.mine") / "common_words.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.split() if line.isalpha())


NAMES = pa.schema([("text", pa.large_string()), ("entity", pa.int32()), ("preferred", pa.bool_())])
KEYS = pa.schema([("key", pa.large_binary()), ("end", pa.int64())])


class Names:
    """Names grouped by key, on disk and memory-mapped, so that workers share them."""

    def __init__(self, folder: Path, config: MineConfig) -> None:
        self._config = config
        self._keys = ArrowFile(folder / "keys.arrow")
        names = ArrowFile(folder / "names.arrow")
        self._ends: Numbers = self._keys.numbers("end")
        self._text: Strings = names.strings("text")
        self._entity: Numbers = names.numbers("entity")
        self._preferred = np.asarray(names.table.column("preferred"))
        self.forms = Forms()
        self._seen: dict[bytes, int] = {}

    def keys(self) -> pa.ChunkedArray:
        """Return the keys in order; their position is the number by which `form` knows them."""
        return self._keys.table.column("key")

    def form(self, surface: bytes, number: int) -> int:
        """Return the number in `forms` of a surface that has the key of this number, or why it has none.

        Each distinct surface is judged once, however often it is met.
        """
        found = self._seen.get(surface)
        if found is None:
            verdict, entity, preferred = self.judge(surface, number)
            found = TAKEN if verdict == "shared" else NOT_HERE
            if verdict == "kept":
                found = len(self.forms.surface)
                self.forms.surface.append(surface)
                self.forms.entity.append(entity)
                self.forms.preferred.append(preferred)
            self._seen[surface] = found
        return found

    def judge(self, surface: bytes, number: int) -> tuple[Verdict, int, bool]:
        """Judge a surface by the names under its key; of one that is kept, tell whose it is, and if it is preferred."""
        owners: dict[int, bool] = {}
        for row in self._rows(number):
            if self._is_written(surface, self._text[row].encode()):
                entity = self._entity[row]
                owners[entity] = owners.get(entity, False) or bool(self._preferred[row])
        text = surface.decode()
        verdict: Verdict = "shared" if len(owners) > 1 else "kept"
        if not owners:
            verdict = "no name"
        elif early := _at_sight(text, self._config):
            verdict = early
        elif text.lower() in common_words() and not text.isupper():
            verdict = "common word"
        entity, preferred = next(iter(owners.items()), (-1, False))
        return verdict, entity, preferred

    def judged(self) -> Iterator[tuple[str, Verdict]]:
        """Judge every name as the ontology writes it, also those turned round, as if it were met in text."""
        for number in range(len(self._keys)):
            for name in dict.fromkeys(self._text[row] for row in self._rows(number)):
                yield name, self.judge(name.encode(), number)[0]

    def _rows(self, number: int) -> range:
        return range(self._ends[number - 1] if number else 0, self._ends[number])

    def _is_written(self, surface: bytes, name: bytes) -> bool:
        return surface == name if self._config.casing == "preserve" else fits(surface, name)


def write_names(names: pa.Table, config: MineConfig, folder: Path) -> list[tuple[str, Verdict]]:
    """Write names, grouped by key, into a new folder for `Names` to open; return those that are dropped at once.

    `names` has the columns `text` and `entity`, an entity's preferred name first, as
    `Ontology.names_table` gives them.
    """
    texts: list[str] = names.column("text").to_pylist()
    entities = np.asarray(names.column("entity"))
    preferred = np.concatenate(([True], entities[1:] != entities[:-1])) if len(entities) else np.zeros(0, bool)
    if not config.aliases:
        chosen = np.flatnonzero(preferred)
        texts, entities, preferred = [texts[i] for i in chosen], entities[chosen], preferred[chosen]
    if config.casing == "variants":
        turned = [(i, form) for i, text in enumerate(texts) if (form := turned_round(text))]
        rows = np.array([i for i, _ in turned], dtype=np.int64)
        texts = texts + [form for _, form in turned]
        entities, preferred = np.concatenate([entities, entities[rows]]), np.concatenate([preferred, preferred[rows]])
    verdicts = [_at_sight(text, config) for text in texts]
    usable = [i for i, verdict in enumerate(verdicts) if verdict is None]
    if not usable:
        raise InputError("the ontology has no name that can be looked for in text; see 'kriss mine names'")
    keys = pa.array([key(texts[i].encode()) for i in usable], pa.large_binary()).dictionary_encode()
    # In order, so that the files depend on the names alone.
    in_order = pc.array_sort_indices(keys.dictionary)
    numbers = np.argsort(np.asarray(in_order))[np.asarray(keys.indices)]
    order = np.lexsort((entities[usable], numbers))
    rows = np.array(usable, dtype=np.int64)[order]
    folder.mkdir(exist_ok=True)
    batch = pa.record_batch([[texts[i] for i in rows], entities[rows], preferred[rows]], schema=NAMES)
    write_arrow(folder / "names.arrow", NAMES, [batch])
    ends: NDArray[np.int64] = np.cumsum(np.bincount(numbers, minlength=len(keys.dictionary)))
    batch = pa.record_batch([keys.dictionary.take(in_order), ends], schema=KEYS)
    write_arrow(folder / "keys.arrow", KEYS, [batch])
    return [(text, verdict) for text, verdict in zip(texts, verdicts, strict=True) if verdict is not None]


def _at_sight(text: str, config: MineConfig) -> Verdict | None:
    """Return why a text is not looked for, whosever name it may be; None if it is."""
    if len(text) < config.min_length:
        return "too short"
    return None if any(char.isalpha() for char in text) else "no letter"
