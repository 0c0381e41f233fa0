"""The report of an evaluation as one HTML file: figures, a curve and every kind of error, to be sent to anybody.

Nothing is loaded from elsewhere, and a policy in the page forbids it, as it forbids every script but its own: text of
corpora and systems is shown and never run. Without scripts the page is whole; they only add the filter. The page is
`report.html`, a template; what it shows is prepared here.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from kriss.documents.write import output
from kriss.evaluate.gold import SHOWN
from kriss.evaluate.kinds import KINDS, kind_of
from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.metrics import calibration_error, percent
from kriss.evaluate.predictions import Scored
from kriss.evaluate.score import DEPTHS, Evaluation, Outcome, Row
from kriss.names import folded

MOST = 4000
"""Errors that one page lists."""
_LONGEST = 300
_MARKED = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)
_UNFIT = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What HTML cannot hold."""
_MARKERS = "●■▲◆▼✚"
_TOP, _BOTTOM, _LEFT, _RIGHT = 10, 200, 42, 350

System = tuple[str, Evaluation]


@dataclass(frozen=True, slots=True)
class KindOfErrors:
    """All errors of one kind, grouped by what was confused with what."""

    name: str
    groups: tuple[tuple[Outcome, ...], ...]
    """The most frequent confusion first."""
    shown: int = 0
    """How many of them are listed."""

    @property
    def count(self) -> int:
        """How many errors there are of this kind."""
        return sum(map(len, self.groups))

    def listed(self) -> list[tuple[int, tuple[Outcome, ...]]]:
        """Return the groups as far as they are listed, each with its whole size."""
        found, left = [], self.shown
        for group in self.groups:
            if left <= 0:
                break
            found.append((len(group), group[:left]))
            left -= len(group)
        return found


def errors_by_kind(evaluation: Evaluation, knowledge: Knowledge) -> list[KindOfErrors]:
    """Return the errors, most frequent kinds first, so that the eye falls on what matters most."""
    found: dict[str, dict[tuple[str, tuple[str, ...]], list[Outcome]]] = {kind: {} for kind in KINDS}
    for outcome in evaluation.outcomes:
        kind = kind_of(outcome, knowledge)
        if kind is not None:
            given = outcome.prediction.entities if outcome.prediction else ()
            found[kind].setdefault((folded(outcome.mention.surface), given), []).append(outcome)
    kinds = [(kind, _largest_first(groups)) for kind, groups in found.items() if groups]
    kinds.sort(key=lambda one: -sum(map(len, one[1])))
    sizes = [sum(map(len, groups)) for _, groups in kinds]
    return [KindOfErrors(*one, share) for one, share in zip(kinds, _shares(sizes, MOST), strict=True)]


def _largest_first(groups: Mapping[tuple[str, tuple[str, ...]], list[Outcome]]) -> tuple[tuple[Outcome, ...], ...]:
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return tuple(tuple(outcomes) for _, outcomes in ordered)


def _shares(sizes: Sequence[int], most: int) -> list[int]:
    """Share out what may be shown: small kinds are shown whole, and large ones take the rest in equal parts."""
    shares = [0] * len(sizes)
    waiting = sorted(range(len(sizes)), key=lambda number: sizes[number])
    for place, number in enumerate(waiting):
        shares[number] = min(sizes[number], most // (len(waiting) - place))
        most -= shares[number]
    return shares


def write_html(
    path: Path,
    title: str,
    evaluation: Evaluation,
    knowledge: Knowledge,
    *,
    protocol: Sequence[str] = (),
    others: Sequence[System] = (),
    force: bool = False,
) -> None:
    """Write the report; `others` are systems that the first is plotted against."""
    folder = files("kriss.evaluate")
    template, style, script = ((folder / f"report.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_fit)
    page.filters |= {"percent": percent, "interval": _interval, "cut": _cut, "marked": _marked}
    page.tests["finite"] = lambda score: score is not None and math.isfinite(score)
    systems = [(title, evaluation), *others]
    shown = page.from_string(template).stream(
        title=title,
        evaluation=evaluation,
        knowledge=knowledge,
        protocol=protocol,
        systems=systems,
        ties=any(outcome.tied for _, one in systems for outcome in one.outcomes),
        documents=len({outcome.mention.document for outcome in evaluation.outcomes}),
        wrong=sum(not outcome.strict for outcome in evaluation.outcomes),
        calibration_error=calibration_error,
        kinds=errors_by_kind(evaluation, knowledge),
        KINDS=KINDS,
        DEPTHS=DEPTHS,
        SHOWN=SHOWN,
        markers=_MARKERS,
        curve=_curve(systems),
        spoke=_spoke,
        place=_place,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704
        digests={"style": _digest(style), "script": _digest(script)},
    )
    with output(path, force=force) as stream:
        for part in shown:
            stream.write(part)


def _fit(value: Any) -> Any:  # noqa: ANN401 - whatever stands in the template
    """Replace what HTML cannot hold; jinja2 escapes the rest."""
    return _UNFIT.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _digest(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _interval(row: Row) -> str:
    return "–" if math.isnan(row.low) else f"{percent(row.low)} – {percent(row.high)}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _marked(text: str) -> list[str]:
    """Split evidence at the double brackets around what matched: every second part is what matched."""
    return _MARKED.split(_cut(text))


def _spoke(outcome: Outcome) -> Scored | None:
    """Return what spoke for the answer; where there is none, the candidate that came nearest to be one."""
    if outcome.prediction is None or not outcome.prediction.candidates:
        return None
    answer, candidates = outcome.prediction.entities, outcome.prediction.candidates
    return next((one for one in candidates if one.entity in answer), candidates[0])


def _place(outcome: Outcome) -> tuple[int, Scored | None]:
    """Return how many entities are candidates, and that which is gold, if any is."""
    candidates = outcome.prediction.candidates if outcome.prediction else ()
    distinct = list(dict.fromkeys(one.entity for one in candidates))
    gold = distinct[outcome.rank - 1] if outcome.rank else None
    return len(distinct), next((one for one in candidates if one.entity == gold), None)


def _curve(systems: Sequence[System]) -> dict[str, Any]:
    """Return where the curves of R@k lie in the plot; k grows by doubling, and the share need not begin at 0."""
    low = math.floor(10 * min(one.curve[0][1] for _, one in systems)) / 10
    low = min(low, 0.9)
    most = systems[0][1].curve[-1][0]

    def x(k: float) -> float:
        return round(_LEFT + math.log2(k) / math.log2(most) * (_RIGHT - _LEFT), 2)

    def y(share: float) -> float:
        return round(_BOTTOM - (share - low) / (1 - low) * (_BOTTOM - _TOP), 2)

    return {
        "lines": [[(x(k), y(share)) for k, share in one.curve] for _, one in systems],
        "across": [(x(2**power), 2**power) for power in range(int(math.log2(most)) + 1)],
        "up": [(y(tenth / 10), 10 * tenth) for tenth in range(round(10 * low), 11)],
        "box": (_LEFT, _TOP, _RIGHT, _BOTTOM),
    }
