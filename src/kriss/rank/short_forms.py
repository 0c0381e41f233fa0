"""Short forms that the mined text explains: what "OAB" stands for where a document does not say.

An abstract that writes OAB without explaining it cannot be understood by itself, but others say "overactive bladder
(OAB)", and a mined mention has what stands beside it. So the mentions are looked through for a short form that
follows the name in brackets, or that the name follows in brackets: "MK-801 (dizocilpine)". One is believed if

- it looks like one: capitals or digits, no word, no unit, no Roman number;
- no entity is called so: then that name is found as it is;
- its letters are those of the name (Schwartz and Hearst), or two documents say so;
- two thirds of all that was seen of it are of one entity. A mention counts for as many as were found of its entity
  in the text, for of frequent entities as few are kept as of rare ones.

Mentions of the dev split have no say: they calibrate the linker.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from kriss.abbreviations import abbreviations
from kriss.errors import DamagedError
from kriss.mine.config import SPLITS
from kriss.mine.store import mentions_of
from kriss.names import folded
from kriss.ontology import Ontology
from kriss.records import Excerpt

FILE = "short_forms.json"
_BEHIND = re.compile(r"\s*[(\[]\s*([^\s()\[\]]{2,12}?)[.,;:]?(?:[)\]]|\s)")
"""What opens a bracket right behind a name, up to its end or to the first space."""
_BEFORE = re.compile(r"(?:^|\s)([^\s()\[\]]{2,12})\s*[(\[]$")
"""What stands before a bracket that a name opens."""
_NO_SHORT_FORM = re.compile(r"[IVX]+|[A-Z]\d?|.*[%=<>±°/].*|\W.*")
_READ = 80
"""Characters on each side of a name in which its letters are looked for."""
_SHARE = 2 / 3
_DOCUMENTS = 2
_BLOCK = 1 << 14
_COLUMNS = ["entity", "document", "left", "surface", "right"]


@dataclass(frozen=True, slots=True)
class ShortForm:
    """What a short form stands for, and where that was read."""

    long: str
    entity: str
    document: str
    """One of the documents that explain it."""
    documents: int


@dataclass(slots=True)
class _Seen:
    """All that speaks for one meaning of a short form."""

    weight: float = 0.0
    spelled: bool = False
    """Whether its letters are those of a name."""
    longs: Counter[str] = field(default_factory=Counter)
    documents: dict[str, None] = field(default_factory=dict)

    def believed(self) -> bool:
        return self.spelled or len(self.documents) >= _DOCUMENTS


def short_forms(folder: Path, ontology: Ontology) -> dict[str, ShortForm]:
    """Return the short forms that mined mentions explain, in the order of the alphabet."""
    file = pq.ParquetFile(folder / "mentions.parquet")
    weight = _weights(folder)
    seen: dict[str, dict[str, _Seen]] = {}
    for table in mentions_of(file, [split for split in SPLITS if split != "dev"], _COLUMNS):
        for entity, document, *text in zip(*(column.to_pylist() for column in table.columns), strict=True):
            mention = Excerpt(*text)
            for short, spelled in explained(mention):
                one = seen.setdefault(short, {}).setdefault(entity, _Seen())
                one.weight += weight.get(entity, 1.0)
                one.spelled |= spelled
                one.longs[mention.surface] += 1
                one.documents[document] = None
    return dict(sorted(_believed(seen, _names_among(seen, ontology))))


def _names_among(shorts: Iterable[str], ontology: Ontology) -> frozenset[str]:
    """Return which of these are names of entities in any case, as they are compared."""
    wanted = frozenset(map(folded, shorts))
    column = ontology.names_table().column("text")
    return frozenset(
        name
        for first in range(0, len(column), _BLOCK)
        for name in map(folded, column[first : first + _BLOCK].to_pylist())
        if name in wanted
    )


def _believed(seen: Mapping[str, Mapping[str, _Seen]], names: frozenset[str]) -> Iterator[tuple[str, ShortForm]]:
    for short, meanings in seen.items():
        entity, best = max(meanings.items(), key=lambda pair: (pair[1].weight, pair[0]))
        enough = best.weight >= _SHARE * sum(one.weight for one in meanings.values())
        if enough and best.believed() and folded(short) not in names:
            long = max(best.longs, key=lambda name: (best.longs[name], name))
            yield short, ShortForm(long, entity, next(iter(best.documents)), len(best.documents))


def explained(mention: Excerpt) -> list[tuple[str, bool]]:
    """Return the short forms that stand beside a name, each with whether its letters are those of the name.

    >>> explained(Excerpt("Women with ", "overactive bladder", " (OAB) and"))
    [('OAB', True)]
    >>> explained(Excerpt("given MK-801 (", "dizocilpine", ") daily"))
    [('MK-801', False)]
    """
    if looks_like_one(mention.surface):  # "HGF (PeproTech)" explains nothing
        return []
    behind = _BEHIND.match(mention.right)
    before = _BEFORE.search(mention.left[-_READ:]) if mention.right[:1] in (")", "]") else None
    if not behind and not before:
        return []
    text = f"{mention.left[-_READ:]}{mention.surface}{mention.right[:_READ]}"
    defined = {short: folded(long) for short, long in abbreviations(text).items()}
    beside = [match[1] for match in (behind, before) if match]
    found: dict[str, bool] = {}
    for short in filter(looks_like_one, dict.fromkeys([*beside, *defined])):
        if short not in defined:
            found[short] = False
        elif defined[short] == folded(mention.surface):  # not a longer name that ends so: "generalized anxiety (GAD)"
            found[short] = True
    return list(found.items())


def looks_like_one(text: str) -> bool:
    """Whether a stretch of text may be a short form.

    >>> [text for text in ("OAB", "CaCl2", "Sigma", "n=5", "IV", "T4", "10mg", "T 4") if looks_like_one(text)]
    ['OAB', 'CaCl2']
    """
    capitals, digits = sum(map(str.isupper, text)), sum(map(str.isdigit, text))
    return (capitals > 1 or (capitals > 0 and digits > 0)) and " " not in text and not _NO_SHORT_FORM.fullmatch(text)


def _weights(folder: Path) -> dict[str, float]:
    """Return for how many of its entity's hits a kept mention stands."""
    counted = (
        pq.read_table(folder / "forms.parquet", columns=["entity", "hits"])
        .group_by("entity")
        .aggregate([("hits", "sum")])
    )
    kept = (
        pq.read_table(folder / "mentions.parquet", columns=["entity"]).group_by("entity").aggregate([([], "count_all")])
    )
    both = kept.join(counted, "entity", join_type="inner")
    columns = (both.column(name).to_pylist() for name in ("entity", "hits_sum", "count_all"))
    return {entity: hits / count for entity, hits, count in zip(*columns, strict=True)}


def write_short_forms(found: Mapping[str, ShortForm], folder: Path) -> None:
    """Write what `read_short_forms` reads."""
    listed = {short: asdict(one) for short, one in found.items()}
    (folder / FILE).write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_short_forms(folder: Path) -> dict[str, str]:
    """Return the long form of each short form that a linker knows."""
    try:
        listed = json.loads((folder / FILE).read_text(encoding="utf-8"))
        found = {short: ShortForm(**one).long for short, one in listed.items()}
        if not all(isinstance(long, str) and long.strip() for long in found.values()):
            raise ValueError("a long form is no text")
        return found
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{folder / FILE} cannot be read ({error}); build the linker again") from None
