"""Link a corpus several times with other options, in one go: what is encoded is encoded once.

    python benchmarks/link_variants.py LINKER GOLD --out DIR bare:weight.context=0 plain:mode=lazy,shared_names=false

Each variant is a name and fields of `LinkConfig`, a weight as `weight.NAME=W`; its links go to DIR/NAME.jsonl.gz, as
`kriss link --to predictions` would write them. The switches of docs/results.md take a third of the time so.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kriss.config import parse_settings
from kriss.documents.read import gold
from kriss.documents.table import PREDICTIONS
from kriss.documents.write import output, write_links
from kriss.encoder.session import OnnxEncoder
from kriss.errors import ConfigError, KrissError
from kriss.link.documents import link_documents
from kriss.link.linker import Linker
from kriss.records import Excerpt

_WEIGHT = "weight."
_DOCUMENTS = 16
"""Documents that all variants link before the next."""
_KEPT = 1 << 14
"""Mentions whose vectors are kept: more than so many documents have."""


def variant(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of a variant.

    >>> variant("plain:weight.context=1,shared_names=false")
    ('plain', {'shared_names': False, 'weights': {'context': 1}})
    """
    name, _, given = text.partition(":")
    if not re.fullmatch(r"[\w-]+", name):
        raise ConfigError(f"'{text}' is not NAME:KEY=VALUE,KEY=VALUE with a name of letters, digits and hyphens")
    settings = parse_settings(filter(None, given.split(",")))
    weights = {key.removeprefix(_WEIGHT): settings.pop(key) for key in list(settings) if key.startswith(_WEIGHT)}
    return name, settings | ({"weights": weights} if weights else {})


def keep_vectors(encoder: OnnxEncoder) -> None:
    """Let an encoder keep the vectors of the mentions that it met last, for the next variant."""
    encode, kept = encoder.mentions, dict[Excerpt, NDArray[np.float32]]()

    def encoded(mentions: Sequence[Excerpt]) -> NDArray[np.float32]:
        new = [one for one in dict.fromkeys(mentions) if one not in kept]
        vectors = encode(new)
        kept.update(zip(new, vectors, strict=True))
        found = np.stack([kept[one] for one in mentions]) if mentions else vectors
        while len(kept) > _KEPT:
            del kept[next(iter(kept))]
        return found

    encoder.mentions = encoded  # type: ignore[method-assign]


def link(folder: Path, source: str, out: Path, variants: dict[str, dict[str, Any]], top: int) -> None:
    """Link all documents in all ways."""
    linker = Linker.load(folder)
    keep_vectors(linker.encoder)
    asked = {name: linker.with_options(**options) for name, options in variants.items()}
    documents = gold(source, None)
    with ExitStack() as files:
        streams = {name: files.enter_context(output(out / f"{name}.jsonl.gz", force=True)) for name in asked}
        for first in range(0, len(documents), _DOCUMENTS):
            some = documents[first : first + _DOCUMENTS]
            for name, one in asked.items():
                write_links(link_documents(one, some, top), streams[name], PREDICTIONS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the links of each variant."""
    parser = argparse.ArgumentParser(description="Link a corpus in several ways at once.")
    parser.add_argument("linker", type=Path)
    parser.add_argument("gold", help="a data set and its split, or files")
    parser.add_argument("variants", nargs="+", metavar="NAME:KEY=VALUE,...", help="fields of LinkConfig")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--top", type=int, default=64, help="candidates of a mention")
    given = parser.parse_args(arguments)
    try:
        variants = dict(map(variant, given.variants))
        if len(variants) < len(given.variants):
            raise ConfigError("two variants have the same name; give each its own")
        given.out.mkdir(parents=True, exist_ok=True)
        link(given.linker, given.gold, given.out, variants, given.top)
    except KrissError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
