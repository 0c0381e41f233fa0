"""An evaluation on disk: a table for people, the same for programs, and a page to look at the errors."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kriss.artifacts import create, describe_inputs
from kriss.evaluate.html import write_html
from kriss.evaluate.kinds import KINDS, kind_of
from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.metrics import BINS, Difference, calibration_error, percent
from kriss.evaluate.score import DEPTHS, Evaluation, Row

MARKDOWN, CSV, JSON, HTML = "table.md", "table.csv", "scores.json", "report.html"
_SHOWN = 1000
"""Mentions without a prediction that are named."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The system that this one is compared with, on the same mentions."""

    name: str
    evaluation: Evaluation
    difference: Difference


@dataclass(frozen=True, slots=True)
class Result:
    """An evaluation with what it is of."""

    system: str
    corpus: str
    evaluation: Evaluation
    knowledge: Knowledge
    against: tuple[Comparison, ...] = ()

    @property
    def has_ties(self) -> bool:
        """Some answers are several entities."""
        return any(outcome.tied for outcome in self.evaluation.outcomes)

    def protocol(self) -> list[str]:
        """Return what was counted and how, in sentences: no figure should travel without them."""
        evaluation, knowledge = self.evaluation, self.knowledge
        found = [
            f"{len(evaluation.outcomes):,} mentions of {self.corpus}: all that have a gold id, also where the ontology "
            "lacks it; of a mention with several gold ids, each is right",
            "strict: the answer is one entity and that is gold; no answer, or a tie left unbroken, is wrong",
            "intervals: 95%, percentile bootstrap over documents",
        ]
        if self.has_ties:
            found.append("ties at random: what breaking each tie at random gives on average")
        if knowledge.ontology is not None:
            name = knowledge.ontology.artifact.path.resolve()
            shown = name.parent.name if name.name == "ontology" else name.name
            found.append(
                f"ids are those of {shown} ({len(knowledge.ontology):,} entities); {evaluation.mapped:,} gold ids were "
                f"written otherwise or retired, and mapped by it"
            )
            found.append("lenient (inflated): any entity that owns the predicted name is gold; SapBERT's count")
        if bins := evaluation.reliability:
            found.append(
                f"expected calibration error: {calibration_error(bins):.3f}, of the probabilities of "
                f"{sum(one.mentions for one in bins):,} first candidates, in {BINS} bins of equal width"
            )
        if evaluation.unlinked:
            found.append(f"{evaluation.unlinked:,} mentions have no gold id and are not scored")
        found += _gaps("", evaluation)
        for one in self.against:
            found += _gaps(f"{one.name}: ", one.evaluation)
        return found


def _gaps(whose: str, evaluation: Evaluation) -> list[str]:
    """Return what predictions and gold do not have in common."""
    found = []
    if evaluation.missing:
        found.append(f"{whose}{len(evaluation.missing):,} mentions have no prediction and count as wrong")
    if evaluation.surplus:
        found.append(f"{whose}{evaluation.surplus:,} predictions of mentions that gold lacks were passed over")
    return found


def header(*, ties: bool) -> list[str]:
    """Return the names of the columns."""
    named = ["", "mentions", "strict", "95%", *(["ties at random"] if ties else []), "lenient (inflated)"]
    return named + [f"R@{depth}" for depth in DEPTHS]


def cells(row: Row, *, ties: bool) -> list[str]:
    """Return a row of figures as a table shows them: per cent with one decimal."""
    return [
        row.name,
        f"{row.mentions:,}",
        percent(row.strict),
        interval(row, " to "),
        *([percent(row.expected)] if ties else []),
        percent(row.lenient),
        *map(percent, row.recall),
    ]


def interval(row: Row, between: str) -> str:
    """Return the interval of a row; what lies in one document has none."""
    return "–" if math.isnan(row.low) else f"{percent(row.low)}{between}{percent(row.high)}"


def sentence(system: str, one: Comparison) -> str:
    """Return how a system compares with another, in a sentence."""
    change, p = one.difference, one.difference.p
    bounds = "" if math.isnan(change.low) else f"95% {100 * change.low:+.1f} to {100 * change.high:+.1f}; "
    return (
        f"{system} against {one.name}: {100 * change.mean:+.1f} points "
        f"({bounds}p {'<' if p < 0.001 else '='} {max(p, 0.001):.3f}; "
        "ties at random)"
    )


def markdown(scored: Result) -> str:
    """Return the whole as a page."""
    evaluation, ties = scored.evaluation, scored.has_ties
    lines = [f"# {scored.system} on {scored.corpus}", "", *(f"- {line}" for line in scored.protocol()), ""]
    lines += markdown_table(header(ties=ties), [cells(row, ties=ties) for row in evaluation.rows])
    for one in scored.against:
        lines += ["", f"{sentence(scored.system, one)}."]
    counts = error_counts(scored)
    lines += ["", "## Errors", ""]
    lines += markdown_table(["kind", "mentions", ""], [[kind, f"{n:,}", KINDS[kind]] for kind, n in counts.items()])
    return "\n".join(lines) + "\n"


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; bars in a name would end its cell."""
    table = [names, ["---"] * len(names), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]


def error_counts(scored: Result) -> dict[str, int]:
    """Return how many errors there are of each kind, the most frequent first."""
    kinds = (kind_of(outcome, scored.knowledge) for outcome in scored.evaluation.outcomes)
    return dict(Counter(kind for kind in kinds if kind).most_common())


def as_csv(scored: Result) -> str:
    """Return the table with shares in full, for spreadsheets."""
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(
        ["slice", "mentions", "strict", "low", "high", "ties_at_random", "lenient", *(f"r_at_{k}" for k in DEPTHS)]
    )
    for row in scored.evaluation.rows:
        figures = (row.strict, row.low, row.high, row.expected, row.lenient, *row.recall)
        table.writerow([row.name, row.mentions, *("" if math.isnan(one) else f"{one:.6f}" for one in figures)])
    return stream.getvalue()


def as_json(scored: Result) -> dict[str, Any]:
    """Return everything that is not text for people."""
    evaluation = scored.evaluation
    return {
        "system": scored.system,
        "corpus": scored.corpus,
        "protocol": scored.protocol(),
        "slices": [
            _without_nan(asdict(row)) | {"recall": dict(zip(DEPTHS, row.recall, strict=True))}
            for row in evaluation.rows
        ],
        "curve": [{"k": k, "recall": share} for k, share in evaluation.curve],
        "calibration_error": calibration_error(bins) if (bins := evaluation.reliability) else None,
        "reliability": [asdict(one) for one in bins],
        "errors": error_counts(scored),
        "against": [
            {
                "system": one.name,
                **_without_nan(asdict(one.difference)),
                "missing_count": len(one.evaluation.missing),
                "surplus_count": one.evaluation.surplus,
            }
            for one in scored.against
        ],
        "missing": [list(key) for key in evaluation.missing[:_SHOWN]],
        "missing_count": len(evaluation.missing),
        "surplus_count": evaluation.surplus,
    }  # fmt: skip


def _without_nan(figures: dict[str, Any]) -> dict[str, Any]:
    """Return null for what is no number: JSON has no other word for it."""
    return {name: None if isinstance(one, float) and math.isnan(one) else one for name, one in figures.items()}


def write_report(out: Path, scored: Result, inputs: Sequence[Path], *, force: bool = False) -> None:
    """Write all forms into a folder that appears whole."""
    config = {"system": scored.system, "corpus": scored.corpus}
    files = describe_inputs(path for path in inputs if path.is_file())  # a pipe cannot be read again
    with create(out, "evaluation", config=config, inputs=files, force=force) as draft:
        (draft.path / MARKDOWN).write_text(markdown(scored), encoding="utf-8")
        (draft.path / CSV).write_text(as_csv(scored), encoding="utf-8")
        text = json.dumps(as_json(scored), ensure_ascii=False, indent=2)
        (draft.path / JSON).write_text(text + "\n", encoding="utf-8")
        write_html(
            draft.path / HTML,
            f"{scored.system} on {scored.corpus}",
            scored.evaluation,
            scored.knowledge,
            protocol=[*scored.protocol(), *(sentence(scored.system, one) for one in scored.against)],
            others=[(one.name, one.evaluation) for one in scored.against],
        )
        overall = scored.evaluation.overall
        draft.facts |= {"mentions": overall.mentions, "strict": overall.strict}
