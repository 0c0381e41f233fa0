"""Plots as SVG text, drawn by pure functions of the figures.

Colours are classes that the page's style sheet fills in, so that a plot follows its light or dark ground. A system is
told by its marker and not by colour alone. All text that comes from outside goes through `escaped`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from unicodedata import east_asian_width

WIDTH = 360
"""Narrow enough that the letters of a plot are still legible on a phone, where it is scaled down."""
COLOURS = 6
"""How many `s0`, `s1`, ... the style sheet knows; more systems than these share colours, not markers."""
_MARKERS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",  # a disc, a square, a triangle, a diamond, the triangle turned
    "M-3.2 -3.2h6.4v6.4h-6.4z",
    "M0 -4.2L4 3.2H-4z",
    "M0 -4.6L4.6 0L0 4.6L-4.6 0z",
    "M0 4.2L4 -3.2H-4z",
)
_UNFIT = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_TOP, _LINE_BOTTOM, _LINE_LEFT, _LINE_RIGHT = 10, 200, 42, 350
_BAR_TOP, _BAR_STEP, _BAR_HEIGHT, _BAR_LEFT, _BAR_RIGHT = 22, 22, 13, 144, 270
_VALUE_AT, _NOTE_AT, _LABEL_ROOM = 308, 358, 21


@dataclass(frozen=True, slots=True)
class Series:
    """A system's curve, and the figure at which a level line is drawn."""

    name: str
    points: tuple[tuple[int, float], ...]
    """Pairs of a k from 1 on and a share."""
    level: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A share with its interval, whose bounds may be nan: then none is drawn."""

    name: str
    value: float
    low: float
    high: float
    note: str = ""


def escaped(text: str) -> str:
    """Return text for an element or an attribute, of HTML as of XML; what neither may hold is replaced.

    >>> escaped('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return escape(_UNFIT.sub("\ufffd", text))


def percent(share: float) -> str:
    """Return a share as tables show it.

    >>> percent(0.12345), percent(float("nan"))
    ('12.3', '–')
    """
    return "–" if math.isnan(share) else f"{100 * share:.1f}"


def line_chart(series: Sequence[Series], *, title: str, across: str, up: str) -> str:
    """Draw shares by k, which grows by doubling; the upward axis need not begin at 0, as lines are not areas."""
    shares = [share for one in series for _, share in one.points]
    shares += [one.level for one in series if one.level is not None]
    low, high, step = _range(shares)
    most = max((k for one in series for k, _ in one.points), default=1)

    def x(k: float) -> float:
        return _LINE_LEFT + (math.log2(k) / math.log2(most) if most > 1 else 0) * (_LINE_RIGHT - _LINE_LEFT)

    def y(share: float) -> float:
        return _LINE_BOTTOM - (share - low) / (high - low) * (_LINE_BOTTOM - _LINE_TOP)

    parts = []
    for number in range(round((high - low) / step) + 1):
        share = low + number * step
        parts.append(_line(_LINE_LEFT, y(share), _LINE_RIGHT, y(share), "grid"))
        parts.append(_text(_LINE_LEFT - 8, y(share) + 4, f"{100 * share:.0f}", "end"))
    for power in range(int(math.log2(most)) + 1):
        parts.append(_line(x(2**power), _LINE_BOTTOM, x(2**power), _LINE_BOTTOM + 4, "axis"))
        parts.append(_text(x(2**power), _LINE_BOTTOM + 17, str(2**power), "middle"))
    parts.append(_line(_LINE_LEFT, _LINE_BOTTOM, _LINE_RIGHT, _LINE_BOTTOM, "axis"))
    middle = (_LINE_TOP + _LINE_BOTTOM) / 2
    parts.append(_text((_LINE_LEFT + _LINE_RIGHT) / 2, _LINE_BOTTOM + 34, across, "middle"))
    parts.append(_text(0, 0, up, "middle", f'transform="translate(12 {middle:g}) rotate(-90)" '))
    for number, one in reversed(list(enumerate(series))):  # the first lies on top
        parts.append(f'<g class="s{number % COLOURS}"><title>{escaped(one.name)}</title>')
        if one.level is not None:
            parts.append(_line(_LINE_LEFT, y(one.level), _LINE_RIGHT, y(one.level), "level"))
        places = [(x(k), y(share)) for k, share in one.points]
        parts.append(f'<polyline points="{" ".join(f"{a:.2f},{b:.2f}" for a, b in places)}"/>')
        parts += [_marker(number, a, b) for a, b in places]
        parts.append("</g>")
    return _svg(parts, WIDTH, _LINE_BOTTOM + 40, title)


def bar_chart(bars: Sequence[Bar], *, title: str, note: str) -> str:
    """Draw shares as lying bars from 0 to 1, each with its interval, its figure and a note under a common head."""

    def x(share: float) -> float:
        return _BAR_LEFT + share * (_BAR_RIGHT - _BAR_LEFT)

    bottom = _BAR_TOP + len(bars) * _BAR_STEP
    parts = [_text(_NOTE_AT, 12, note, "end")]
    for quarter in range(5):
        parts.append(_line(x(quarter / 4), _BAR_TOP - 4, x(quarter / 4), bottom, "grid"))
        parts.append(_text(x(quarter / 4), bottom + 15, str(25 * quarter), "middle"))
    for number, bar in enumerate(bars):
        middle = _BAR_TOP + (number + 0.5) * _BAR_STEP - 2
        top, under = middle - _BAR_HEIGHT / 2, middle + 4
        parts.append(f"<g><title>{escaped(bar.name)}</title>")
        parts.append(_text(_BAR_LEFT - 8, under, _short(bar.name, _LABEL_ROOM), "end", 'class="name" '))
        wide = x(bar.value) - _BAR_LEFT
        parts.append(f'<rect class="bar" x="{_BAR_LEFT}" y="{top:g}" width="{wide:.2f}" height="{_BAR_HEIGHT}"/>')
        if not (math.isnan(bar.low) or math.isnan(bar.high)):
            parts.append(_line(x(bar.low), middle, x(bar.high), middle, "interval"))
            parts += [_line(x(end), middle - 4, x(end), middle + 4, "end") for end in (bar.low, bar.high)]
        parts.append(_text(_VALUE_AT, under, percent(bar.value), "end", 'class="name" '))
        parts.append(_text(_NOTE_AT, under, bar.note, "end") + "</g>")
    parts.append(_line(_BAR_LEFT, _BAR_TOP - 4, _BAR_LEFT, bottom, "axis"))
    return _svg(parts, WIDTH, bottom + 22, title)


def swatch(number: int) -> str:
    """Draw what a legend shows of the series with this number."""
    body = f'<g class="s{number % COLOURS}">{_line(0, 8, 28, 8, "curve")}{_marker(number, 14, 8)}</g>'
    return f'<svg class="swatch" width="28" height="16" viewBox="0 0 28 16" aria-hidden="true">{body}</svg>'


def _range(shares: Sequence[float]) -> tuple[float, float, float]:
    """Return round bounds around some shares, and the distance of lines between them."""
    least, most = min(shares, default=0.0), max(shares, default=1.0)
    step = 0.05 if most - least <= 0.25 else 0.1 if most - least <= 0.6 else 0.2
    low = max(0, math.floor((least - step / 4) / step))
    high = min(round(1 / step), math.ceil((most + step / 4) / step))
    return low * step, high * step, step


def _svg(parts: Iterable[str], width: float, height: float, title: str) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}"'
    return f'<svg {size} role="img" aria-label="{escaped(title)}">{"".join(parts)}</svg>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text {more}x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escaped(text)}</text>'


def _marker(number: int, x: float, y: float) -> str:
    return f'<path d="{_MARKERS[number % len(_MARKERS)]}" transform="translate({x:.2f} {y:.2f})"/>'


def _short(text: str, room: int) -> str:
    """Cut text to what fits; a letter of East Asia takes the room of two."""
    taken = 0
    for place, letter in enumerate(text):
        taken += 2 if east_asian_width(letter) in "WF" else 1
        if taken > room:
            return text[: place - 1] + "…"
    return text
