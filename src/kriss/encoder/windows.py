"""From text to token ids: 64 tokens around a mention, and the reference of an entity.

    [CLS] left [M_s] mention [M_e] right [SEP]          a mention
    [CLS] tree [SEP] type [SEP] names [SEP] definition [SEP]    an entity

Needs the package `tokenizers` alone. Words that look like special tokens are plain text here:
a document that says "[SEP]" cannot end its own sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from kriss.encoder.config import EncoderConfig, SpecialTokens
from kriss.errors import ConfigError, DamagedError
from kriss.records import Entity, Excerpt

_CHARACTERS = 8
"""Characters of context read for each token of the window: more than English words ever need."""
_TREE, _TYPE = 4, 8
"""Tree numbers take at most a fourth of a reference, types an eighth."""
_LEAST = 16
_OVERHEAD = 4
"""Tokens of a mention's sequence that are not text: the first, the last and two markers."""

Ids = list[int]
Run = Callable[["Batch"], NDArray[np.float32]]
"""Whatever turns a batch into vectors."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences of about one length, padded: what a model takes."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    pool: NDArray[np.float32]
    """The weight of each token in the vector; each row sums to 1."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """Tokenized sequences of any length, each with the span of tokens that its vector is taken from."""

    ids: list[Ids]
    spans: list[tuple[int, int]]
    pad: int

    def __len__(self) -> int:
        return len(self.ids)

    def batches(self, size: int, *, padded: bool = True) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """Yield batches of like lengths, the longest first, each with the places of its sequences.

        Without padding a batch holds one length alone: then a vector has the same bits in any company.
        """
        lengths = np.array([len(ids) for ids in self.ids], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        runs = [order] if padded else np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)
        for run in runs:
            for first in range(0, len(run), size):
                places = run[first : first + size]
                yield places, self._batch(places)

    def encode(
        self, run: Run, size: int, *, padded: bool = True, workers: Executor | None = None
    ) -> NDArray[np.float32]:
        """Return the vectors of all sequences in their order; `workers` share the batches."""
        places, batches = zip(*self.batches(size, padded=padded), strict=True) if len(self) else ((), ())
        parts = list((workers.map if workers else map)(run, batches))
        vectors = np.empty((len(self), parts[0].shape[1] if parts else 0), dtype=np.float32)
        for rows, found in zip(places, parts, strict=True):
            vectors[rows] = found
        return vectors

    def _batch(self, places: NDArray[np.int64]) -> Batch:
        length = max(len(self.ids[place]) for place in places)
        ids = np.full((len(places), length), self.pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        pool = np.zeros(ids.shape, dtype=np.float32)
        for row, place in enumerate(places):
            sequence, (first, last) = self.ids[place], self.spans[place]
            ids[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
            pool[row, first:last] = 1.0 / (last - first)
        return Batch(ids, mask, pool)


class Windows:
    """Makes the sequences of mentions and of entities, always in the same way."""

    def __init__(self, tokenizer: Tokenizer, tokens: SpecialTokens, config: EncoderConfig) -> None:
        if config.window < _OVERHEAD + 2:
            raise ConfigError(
                f"a window of {config.window} tokens has no room for a mention; take {_OVERHEAD + 2} or more"
            )
        if config.reference_window < _LEAST:
            raise ConfigError(f"'reference_window' must be at least {_LEAST}, not {config.reference_window}")
        self.config = config
        self.tokens = tokens
        self._tokenizer = tokenizer
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._cls, self._sep, self._pad, self._mask, self._start, self._end = (
            self._id_of(token) for token in (tokens.cls, tokens.sep, tokens.pad, tokens.mask, tokens.start, tokens.end)
        )

    def _id_of(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ConfigError(f"the tokenizer has no token '{token}'")
        return found

    def _tokenize(self, texts: Sequence[str]) -> list[Ids]:
        return [found.ids for found in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def mentions(self, mentions: Sequence[Excerpt]) -> Sequences:
        """Return a window of tokens around each mention.

        The mention is kept whole while it fits, else its head and tail are; what remains is shared
        by the two sides, and a side that needs less leaves the rest to the other.
        """
        reach = _CHARACTERS * self.config.window
        texts: list[str] = []
        for mention in mentions:
            left, right = mention.left, mention.right
            if len(left) > reach:  # from the next whole word on
                left = left[-reach:].partition(" ")[2] or left[-reach:]
            if len(right) > reach:
                right = right[:reach].rpartition(" ")[0] or right[:reach]
            texts += (left, "" if mention.masked else mention.surface, right)
        tokens = self._tokenize(texts)
        room = self.config.window - _OVERHEAD
        ids: list[Ids] = []
        spans: list[tuple[int, int]] = []
        for number, mention in enumerate(mentions):
            left_ids, surface, right_ids = tokens[3 * number : 3 * number + 3]
            if mention.masked:
                surface = [self._mask]
            if len(surface) > room:
                surface = surface[: room - room // 2] + surface[-(room // 2) :]
            before, after = _share(room - len(surface), len(left_ids), len(right_ids))
            start = 1 + before
            stop = start + len(surface) + 2
            ids.append(
                [
                    self._cls,
                    *left_ids[len(left_ids) - before :],
                    self._start,
                    *surface,
                    self._end,
                    *right_ids[:after],
                    self._sep,
                ]
            )
            spans.append(self._span(start, stop, len(ids[-1])))
        return Sequences(ids, spans, self._pad)

    def references(self, entities: Sequence[Entity]) -> Sequences:
        """Return the reference of each entity.

        The preferred name comes first and is never left out. Names and definition share what tree
        numbers and types leave, three fifths to the names while both would fill their part.
        """
        fields = self.config.fields
        texts: list[str] = []
        for entity in entities:
            names = "; ".join(entity.names)[: _CHARACTERS * self.config.reference_window]
            texts += (
                " ".join(entity.tree_numbers) if "tree" in fields else "",
                ", ".join(entity.types) if "type" in fields else "",
                names if "names" in fields else "",
                entity.definition[: _CHARACTERS * self.config.reference_window] if "definition" in fields else "",
            )
        tokens = self._tokenize(texts)
        ids = [self._reference(tokens[4 * number : 4 * number + 4]) for number in range(len(entities))]
        spans = [self._span(0, len(sequence), len(sequence)) for sequence in ids]
        return Sequences(ids, spans, self._pad)

    def _reference(self, parts: list[Ids]) -> Ids:
        tree, kind, names, definition = parts
        window = self.config.reference_window
        tree, kind = tree[: window // _TREE], kind[: window // _TYPE]
        room = window - 5 - len(tree) - len(kind)
        for_names = min(len(names), max(room * 3 // 5, room - len(definition)))
        rest = [*definition[: room - for_names], self._sep] if definition else []
        return [self._cls, *tree, self._sep, *kind, self._sep, *names[:for_names], self._sep, *rest]

    def _span(self, start: int, stop: int, length: int) -> tuple[int, int]:
        match self.config.pooling:
            case "cls":
                return 0, 1
            case "mean":
                return 0, length
            case "mention":
                return start, stop


def read_fast_tokenizer(file: Path, advice: str = "write the encoder again") -> Tokenizer:
    """Read the tokenizer that a saved model carries."""
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 - tokenizers raises bare Exception
        raise DamagedError(f"{file} is no tokenizer ({error}); {advice}") from None


def _share(room: int, left: int, right: int) -> tuple[int, int]:
    """Divide tokens between two sides: half each, and what one does not need goes to the other.

    >>> _share(10, 20, 20), _share(10, 2, 20), _share(11, 20, 3), _share(10, 1, 2)
    ((5, 5), (2, 8), (8, 3), (1, 2))
    """
    before = min(left, max(room // 2, room - right))
    return before, min(right, room - before)
