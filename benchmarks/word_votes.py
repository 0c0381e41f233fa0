"""Who should vote on a word of several meanings, mentions or documents? Counted in a train split, without a linker.

    python benchmarks/word_votes.py medmentions-st21pv:train

A fifth of the documents ask; the meaning of a word is what most of the other documents say of it, or most of their
mentions. Also with at most 32 mentions of an entity, and with one of each entity and spelling in a document.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path

from kriss.evaluate.datasets import gold
from kriss.evaluate.gold import GoldMention, gold_mentions
from kriss.names import folded


def at_most(mentions: Sequence[GoldMention], most: int, key: Callable[[GoldMention], Hashable]) -> list[GoldMention]:
    """Draw so many of each kind."""
    kinds: dict[Hashable, list[GoldMention]] = defaultdict(list)
    for one in random.Random(0).sample(mentions, len(mentions)):
        kinds[key(one)].append(one)
    return [one for some in kinds.values() for one in some[:most]]


def right(examples: Iterable[GoldMention], asked: Iterable[GoldMention], *, by_document: bool) -> tuple[int, float]:
    """Return how many mentions have a word of several meanings, and the share for which the majority is right."""
    said: dict[str, Counter[str]] = defaultdict(Counter)
    votes = [(folded(one.surface), one.entities[0], one.document) for one in examples]
    for word, entity, _ in dict.fromkeys(votes) if by_document else votes:
        said[word][entity] += 1
    found = [(one, said[folded(one.surface)]) for one in asked if len(said[folded(one.surface)]) > 1]
    good = sum(max(count, key=lambda entity: (count[entity], entity)) in one.entities for one, count in found)
    return len(found), good / len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description="Votes on words of several meanings.")
    parser.add_argument("gold", help="a data set and its split")
    parser.add_argument("--data", type=Path, help="the data folder; default KRISS_DATA")
    given = parser.parse_args()
    mentions = gold_mentions(gold(given.gold, given.data))
    documents = sorted({one.document for one in mentions})
    random.Random(0).shuffle(documents)
    asking = set(documents[: len(documents) // 5])
    examples = [one for one in mentions if one.document not in asking]
    asked = [one for one in mentions if one.document in asking]
    for name, some in (
        ("all examples", examples),
        ("at most 32 of an entity", at_most(examples, 32, lambda one: one.entities)),
        ("one of an entity and spelling in a document",
         at_most(examples, 1, lambda one: (one.entities, folded(one.surface), one.document))),
    ):  # fmt: skip
        for by_document in (False, True):
            count, share = right(some, asked, by_document=by_document)
            voters = "documents" if by_document else "mentions"
            print(f"{name} ({len(some):,}), {voters} vote: {100 * share:.1f} of {count:,} are right")


if __name__ == "__main__":
    main()
