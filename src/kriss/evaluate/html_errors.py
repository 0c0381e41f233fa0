"""The browsable errors of the HTML report: sorted into kinds, the most frequent confusion of each kind first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kriss.evaluate.gold import SHOWN
from kriss.evaluate.kinds import KINDS, kind_of
from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.predictions import Scored
from kriss.evaluate.score import Evaluation, Outcome
from kriss.evaluate.svg import escaped
from kriss.names import folded

MOST = 5000
"""Errors that one page holds."""
BUDGET = 4_500_000
"""Bytes that they may take; text in some scripts has three bytes a letter."""
_LISTED = 5
_LONGEST = 300
_MARKED = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)

Confusion = tuple[str, tuple[str, ...]]
"""A surface and what was given for it."""


@dataclass(frozen=True, slots=True)
class KindOfErrors:
    """All errors of one kind, grouped by what was confused with what."""

    name: str
    groups: tuple[tuple[Outcome, ...], ...]
    """The largest first."""

    @property
    def count(self) -> int:
        """How many errors there are of this kind."""
        return sum(map(len, self.groups))

    @property
    def anchor(self) -> str:
        """By which name links find it in the page."""
        return "kind-" + self.name.replace(" ", "-")


def errors_by_kind(evaluation: Evaluation, knowledge: Knowledge) -> list[KindOfErrors]:
    """Return the errors, most frequent kinds first, so that the eye falls on what matters most."""
    found: dict[str, dict[Confusion, list[Outcome]]] = {kind: {} for kind in KINDS}
    for outcome in evaluation.outcomes:
        kind = kind_of(outcome, knowledge)
        if kind is not None:
            confusion = folded(outcome.mention.surface), _given(outcome)
            found[kind].setdefault(confusion, []).append(outcome)
    kinds = [KindOfErrors(kind, _largest_first(groups)) for kind, groups in found.items() if groups]
    return sorted(kinds, key=lambda kind: -kind.count)


def error_list(kinds: Sequence[KindOfErrors], knowledge: Knowledge) -> tuple[str, int]:
    """Return the list as HTML and how many errors it holds: as many as the page may take, of each kind some."""
    most = MOST
    while True:
        shares = _shares([kind.count for kind in kinds], most)
        pairs = list(zip(kinds, shares, strict=True))
        html = "".join(_kind(kind, share, knowledge, is_open=kind is kinds[0]) for kind, share in pairs)
        size = len(html.encode())
        if size <= BUDGET or most <= 1:
            return html, sum(shares)
        most = min(most, sum(shares)) * BUDGET // size


def _largest_first(groups: Mapping[Confusion, list[Outcome]]) -> tuple[tuple[Outcome, ...], ...]:
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return tuple(tuple(outcomes) for _, outcomes in ordered)


def _given(outcome: Outcome) -> tuple[str, ...]:
    return outcome.prediction.entities if outcome.prediction else ()


def _shares(sizes: Sequence[int], most: int) -> list[int]:
    """Share out what may be shown: small kinds are shown whole, and large ones take the rest in equal parts."""
    shares = [0] * len(sizes)
    waiting = sorted(range(len(sizes)), key=lambda number: sizes[number])
    for place, number in enumerate(waiting):
        shares[number] = min(sizes[number], most // (len(waiting) - place))
        most -= shares[number]
    return shares


# --- from the whole list down to one error ------------------------------------------------------


def _kind(kind: KindOfErrors, share: int, knowledge: Knowledge, *, is_open: bool) -> str:
    parts = []
    left = share
    for group in kind.groups:
        if left <= 0:
            break
        parts.append(_group(group[:left], len(group), knowledge))
        left -= len(group)
    cut = f" Only the {share:,} most frequent are listed." if share < kind.count else ""
    return (
        f'<details class="kind" id="{kind.anchor}" data-kind="{kind.name}"{" open" * is_open}>'
        f'<summary><h3>{kind.name}</h3> <span class="count">{kind.count:,}</span></summary>'
        f'<p class="muted">{KINDS[kind.name].capitalize()}.{cut}</p>{"".join(parts)}</details>\n'
    )


def _group(shown: Sequence[Outcome], size: int, knowledge: Knowledge) -> str:
    first = shown[0]
    given = _entities(_given(first), knowledge) or "no link" if first.prediction else "no prediction"
    often = f' <span class="count">× {size:,}</span>' if size > 1 else ""
    head = f"<h4>{_foreign(first.mention.surface)} → {given}{often}</h4>"
    items = "".join(_error(outcome, knowledge) for outcome in shown)
    return f'<section class="group">{head}<ul>{items}</ul></section>\n'


def _error(outcome: Outcome, knowledge: Knowledge) -> str:
    mention = outcome.mention
    left = "…" * (len(mention.left) >= SHOWN) + mention.left
    right = mention.right + "…" * (len(mention.right) >= SHOWN)
    context = f"{escaped(left)}<mark>{_foreign(mention.surface)}</mark>{escaped(right)}"
    rows = [("gold", f"{_entities(mention.entities, knowledge)}{_rank(outcome)}"), *_speaking(outcome)]
    rows.append(("document", f"{_foreign(mention.document)}, characters {mention.start} to {mention.end}"))
    facts = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    return f'<li><p dir="auto">{context}</p><dl>{facts}</dl></li>'


def _rank(outcome: Outcome) -> str:
    """Say where gold stands among the candidates, and what spoke for it there."""
    if outcome.prediction is None:
        return ""
    distinct = list(dict.fromkeys(one.entity for one in outcome.prediction.candidates))
    if not outcome.rank:
        return f' <span class="muted">not among {len(distinct):,} candidates</span>'
    entity = distinct[outcome.rank - 1]
    found = next(one for one in outcome.prediction.candidates if one.entity == entity)
    return f' <span class="muted">rank {outcome.rank:,} of {len(distinct):,}{_matched(found)}</span>'


def _speaking(outcome: Outcome) -> Iterable[tuple[str, str]]:
    """Yield what spoke for the answer; where there is none, for the candidate that came nearest to be one."""
    prediction = outcome.prediction
    if prediction is None or not prediction.candidates:
        return
    answer = set(prediction.entities)
    found = next((one for one in prediction.candidates if one.entity in answer), prediction.candidates[0])
    yield "given" if answer else "nearest", f"<b>{_foreign(found.entity)}</b>{_matched(found)}"
    if found.evidence:
        yield "evidence", f'<span dir="auto">{_with_marks(_cut(found.evidence))}</span>'


def _matched(found: Scored) -> str:
    score = f", score {found.score:.3f}" if found.score is not None and math.isfinite(found.score) else ""
    return score + (f", by “{_foreign(found.name)}”" if found.name else "")


def _entities(entities: Sequence[str], knowledge: Knowledge) -> str:
    """Name entities by id and name."""
    shown = []
    for entity in entities[:_LISTED]:
        name = knowledge.name_of(entity)
        shown.append(f"<b>{_foreign(entity)}</b>" + (f" {_foreign(name)}" if name else ""))
    more = f" and {len(entities) - _LISTED:,} more" if len(entities) > _LISTED else ""
    return "; ".join(shown) + more


def _with_marks(text: str) -> str:
    """Turn double brackets, which stand around what matched, into marks."""
    parts = _MARKED.split(text)
    return "".join(
        f"<mark>{_foreign(part)}</mark>" if number % 2 else escaped(part) for number, part in enumerate(parts)
    )


def _foreign(text: str) -> str:
    """Return text that may run from right to left without turning round what is beside it."""
    return f"<bdi>{escaped(_cut(text))}</bdi>"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
