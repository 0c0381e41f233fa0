"""A mention and a candidate as one sequence, which the model reads as a whole.

    [CLS] left [M_s] mention [M_e] right [SEP]          the mention
    tree [SEP] type [SEP] names [SEP] definition [SEP]  the candidate's reference
    left [M_s] prototype [M_e] right [SEP]              its prototype

Each part is what the encoder makes of it (`windows`), without its own first [CLS] from the second on.
What belongs to the candidate has token type 1, where a model has such types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from kriss.encoder.config import EncoderConfig, PairConfig, SpecialTokens
from kriss.encoder.windows import Ids, Sequences, Windows
from kriss.records import Entity, Excerpt

SETTINGS = "reranker.json"


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate as the model sees it."""

    entity: Entity
    prototype: Excerpt
    """Its best prototype; a name is a mention without context."""


class Pairs:
    """Makes the sequences of mentions and candidates, always in the same way."""

    def __init__(self, tokenizer: Tokenizer, tokens: SpecialTokens, config: PairConfig) -> None:
        self.config = config
        self.tokens = tokens
        sides = (config.window, config.prototype_window)
        self._mention, self._prototype = (
            Windows(tokenizer, tokens, EncoderConfig(window, config.reference_window, fields=config.fields))
            for window in sides
        )

    def __call__(self, mentions: Sequence[Excerpt], options: Sequence[Sequence[Option]]) -> Sequences:
        """Return a sequence for each option of each mention, those of the first mention first.

        A mention is tokenized once for all its options. The span of a sequence is the candidate's part.
        """
        listed = [option for some in options for option in some]
        firsts = self._mention.mentions(mentions)
        parts: list[list[Ids]] = []
        if self.config.shown != "prototype":
            parts.append(self._mention.references([option.entity for option in listed]).ids)
        if self.config.shown != "reference":
            parts.append(self._prototype.mentions([option.prototype for option in listed]).ids)
        owners = [first for first, some in zip(firsts.ids, options, strict=True) for _ in some]
        ids: list[Ids] = []
        spans: list[tuple[int, int]] = []
        for number, first in enumerate(owners):
            sequence = list(first)
            for part in parts:
                sequence += part[number][1:]  # without its [CLS]
            ids.append(sequence)
            spans.append((len(first), len(sequence)))
        return Sequences(ids, spans, firsts.pad)
