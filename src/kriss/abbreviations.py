"""Abbreviations that a document defines, and mentions read as what they stand for.

"MS" is multiple sclerosis in one abstract and mass spectrometry in the next; the document itself says which, where
it first writes "multiple sclerosis (MS)". The algorithm is that of Schwartz and Hearst (2003): the letters of the
short form are looked for from right to left in the few words before the parenthesis, and the first letter must
start a word. It is changed in six places, each because the published form went wrong on real abstracts:

- words whose initials spell the short form are preferred (right to left alone, "coronary artery calcification
  (CAC)" gives "calcification"), and a long form in which many words have no letter of the short one is none;
- where nothing else fits, initials count in any order: "myotonic dystrophy (DM)" is Latin's dystrophia myotonica;
- Greek letters match their names, accented letters the plain ones: "tumor necrosis factor alpha (TNF-α)";
- a parenthesis may say several things: "(MS; also called disseminated sclerosis)", "(DMD/BMD)";
- a definition stays in its sentence, and in the bracket that encloses it;
- doses, mutations, groups and authors' names in parentheses are no short forms: "(2 mg/kg)", "(T274M)", "(group 2)".

All windows are bounded, so the time is linear in the text, whatever its brackets look like.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from kriss.records import Mention

_LONGEST_SHORT = 10
_LONGEST_WINDOW = 200
_MOST_SHUFFLED = 4
"""Letters of a short form whose order may differ from that of the words."""
_LONGEST_INSIDE = 200
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BRACKET = re.compile(r"[()\[\]{}]")
_SEPARATOR = re.compile(r"[;,:=]\s+|\s+(?:or|and|i\.?e\.?|aka)\s+|[;=]")
_LEAD = re.compile(
    r"(?:(?:also|or|and|hereafter|henceforth|here|abbreviated|termed|called|named|designated|denoted|known|referred"
    r"|to|as|the|a|an|i\.?e\.?|e\.?g\.?|formerly|previously|abbreviation|abbr\.?|in short|short)(?:[\s,:]+|$))+",
)
_END = re.compile(r"(?:(?<=[\w%]{2})|(?<=[)\]]))[.?!]\s+(?=[A-Z0-9(\[])|[)\]],\s|\n\s*\n|[;?!]\s")
"""Where a window must not reach back across: a sentence, and an item of a list that has its own parenthesis."""
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\S+")
_PART = re.compile(r"[^\W_]+")
_SMALL = frozenset("a an and at by de for from in of on or the to with".split())
_NO_SHORT = re.compile(
    r"\d[^A-Z]*[A-Z]?[^A-Z]*"  # 5mg, 14C, 95% CI is two words
    r"|[A-Z]\d{2,}[A-Z]"  # T274M
    r"|[A-Z][a-z]{5,}"  # Princeton
    r"|.*\.\s.*"  # D. A
    r"|[A-Za-z]?[a-z]{2,}\s.*|\d\S*\s.*|.*\s[^A-Z0-9]*"  # group 2, 10 IU, BR line
)
_PARENTHETICAL = re.compile(r"[(\[{][^()\[\]{}]*[)\]}](?![-\w])")
_NEVER_FIRST = frozenset("a an and at by for from of on or the to with".split())
_NEVER_LAST = _NEVER_FIRST - {"a"} | {"in"}
_NEVER_INSIDE = frozenset("are been can causes contains encodes had has have is may that was we were which".split())
"""A long form with a verb in it is a sentence: "has recently been mapped to region 1q21 (HRPT2)"."""
_QUOTES = " \t\r\n\"'“”‘’«»*,;:.`"
_GREEK = dict(zip("αβγδεζηθικλμνξοπρσςτυφχψω", "abgdezetiklmnxoprsstupcpo", strict=True))


def abbreviations(text: str) -> dict[str, str]:
    """Return the short forms that a text defines, each with its long form; the first definition wins.

    >>> abbreviations("Patients with multiple sclerosis (MS) or VHL (von Hippel-Lindau) disease.")
    {'MS': 'multiple sclerosis', 'VHL': 'von Hippel-Lindau'}
    """
    found: dict[str, str] = {}
    for start, end, floor in _parentheses(text):
        inside = text[start + 1 : min(end, start + _LONGEST_INSIDE)]
        if not _LETTER.search(inside):
            continue
        before = _before(text, floor, start)
        parts = [tidy for part in _SEPARATOR.split(inside) if (tidy := _tidy(part))]
        pairs = _forward(before, parts) or _reverse(before, parts[:1])
        for short, long in pairs:
            found.setdefault(short, long)
    return found


def expand(surface: str, found: Mapping[str, str]) -> str:
    """Return a mention with its short forms written out; "" if it has none.

    >>> expand("familial BC", {"BC": "breast cancer"})
    'familial breast cancer'
    """
    text = _written_out(surface, found)
    # A long form may hold another short form: "familial BC (FBC)".
    return _written_out(text, found) or text if text else ""


def long_forms(mentions: Sequence[Mention]) -> list[str]:
    """Return the long form of each mention that is an abbreviation defined in its own document, else nothing."""
    return [expand(mention.surface, _defined_in(mention.document.text)) for mention in mentions]


@lru_cache(maxsize=256)
def _defined_in(text: str) -> Mapping[str, str]:
    return abbreviations(text)


def _written_out(surface: str, found: Mapping[str, str]) -> str:
    """Replace every whole word that is a short form, the longest first, and never inside what was put in."""
    pieces = [(surface, False)]
    for short in sorted(found, key=len, reverse=True):
        if any(spelling in surface for spelling in _spellings(short)):
            # "breast cancer (BC) relapse" needs its long form once.
            defined = re.compile(rf"({re.escape(found[short])})\s*[(\[]{re.escape(short)}[)\]]", re.IGNORECASE)
            pieces = [(piece if put_in else defined.sub(r"\1", piece), put_in) for piece, put_in in pieces]
            pieces = [new for piece in pieces for new in _cut(*piece, short, found[short])]
    text = ""
    for piece, _ in pieces:
        text = _joined(text, piece)
    return "" if text == surface else text.strip()


def _spellings(short: str) -> tuple[str, ...]:
    """Return a short form as it is, and as its plural or singular."""
    if _is_plural(short):
        return (short, short[:-1])
    return (short + "s", short) if short[-1].isupper() or short[-1].isdigit() else (short,)


def _is_plural(short: str) -> bool:
    return len(short) > 2 and short[-1] == "s" and (short[-2].isupper() or short[-2].isdigit())


def _cut(text: str, put_in: bool, short: str, long: str) -> Iterator[tuple[str, bool]]:
    """Cut a piece of a mention at the places where the short form is a word of it."""
    if put_in:
        yield text, True
        return
    done = 0
    for match in re.finditer("|".join(map(re.escape, _spellings(short))), text):
        if text[match.start() - 1 : match.start()].isalnum() or text[match.end() : match.end() + 1].isalnum():
            continue
        yield text[done : match.start()], False
        yield long, True
        done = match.end()
    yield text[done:], False


def _joined(left: str, right: str) -> str:
    """Join two pieces; words that both have at the seam stand once: "VHL disease" has one disease, not two."""
    before, after = left.split(), right.split()
    for size in range(min(len(before), len(after)), 0, -1):
        if [word.casefold() for word in before[-size:]] == [word.casefold() for word in after[:size]]:
            return " ".join((*before, *after[size:])) + right[len(right.rstrip()) :]
    return left + right


def _parentheses(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield opening and closing place of each pair of brackets, and where what encloses it begins."""
    stack: list[int] = []
    for match in _BRACKET.finditer(text):
        place, bracket = match.start(), match[0]
        if bracket in _CLOSING:
            stack.append(place)
            continue
        # "[see (a]" leaves one open inside; more than a few such are not text.
        for depth in range(1, min(len(stack), 3) + 1):
            if _CLOSING[text[stack[-depth]]] == bracket:
                del stack[len(stack) - depth + 1 :]
                start = stack.pop()
                yield start, place, stack[-1] + 1 if stack else 0
                break


def _before(text: str, floor: int, end: int) -> str:
    """Return what stands before a parenthesis in its sentence, as far as a definition can reach."""
    start = max(floor, end - _LONGEST_WINDOW)
    window = text[start:end]
    if start > floor and text[start - 1].isalnum():
        window = _PART.sub("", window, count=1)
    ends = [match.end() for match in _END.finditer(window)]
    return window[ends[-1] :] if ends else window


def _tidy(part: str) -> str:
    """Return a part of a parenthesis without quotes, full stop and words such as "also called"."""
    part = part.strip(_QUOTES)
    lead = _LEAD.match(part)
    return part[lead.end() :].strip(_QUOTES) if lead else part


def _forward(before: str, parts: list[str]) -> list[tuple[str, str]]:
    """Read the parts of a parenthesis as short forms of what stands before it."""
    pairs = []
    for index, part in enumerate(parts):
        # What follows a comma is mostly not a short form: an author, a place, a number.
        if _may_be_short(part) and (not index or _capitals(part) > 1):
            pairs += _divided(part, before) or [(part, _long_form(part, before))]
    return [(short, long) for short, long in pairs if long]


def _divided(part: str, before: str) -> list[tuple[str, str]]:
    """Read "VEGF/VPF" as two short forms, each of its own side of a slash if the text has one; or as none."""
    shorts = part.split("/")
    if len(shorts) < 2 or not all(map(_may_be_short, shorts)):
        return []
    sides = before.rsplit("/", len(shorts) - 1)
    for texts in ([sides] if len(sides) == len(shorts) else []) + [[before] * len(shorts)]:
        pairs = [(short, _long_form(short, text)) for short, text in zip(shorts, texts, strict=True)]
        if all(long for _, long in pairs):
            return pairs
    return []


def _may_be_short(text: str) -> bool:
    return (
        2 <= len(text) <= _LONGEST_SHORT
        and text[0].isalnum()
        and len(text.split()) <= 2
        and any(char.isalpha() for char in text)
        and any(char.isupper() or char.isdigit() or char.casefold() in _GREEK for char in text)
        and all(any(map(str.isalnum, word)) for word in text.split())
        and _balanced(text)
        and not _NO_SHORT.fullmatch(text)
    )


def _capitals(text: str) -> int:
    return sum(char.isupper() or char.isdigit() for char in text)


def _balanced(text: str) -> bool:
    return all(text.count(opening) == text.count(closing) for opening, closing in _CLOSING.items())


def _long_form(short: str, before: str) -> str:
    """Return the words at the end of a text that the short form stands for; "" if there are none."""
    letters = _letters(short)
    words = list(_WORD.finditer(before))[-_most_words(letters) :]
    if not words:
        return ""
    window = before[words[0].start() :]
    start = _start(letters, window)
    return _checked(short, window[_word_start(window, start) :]) if start >= 0 else ""


def _word_start(text: str, place: int) -> int:
    """Return where the word begins, which may be before its matched part: "5-fluorouracil (FU)"."""
    while place and not text[place - 1].isspace() and text[place - 1] != "/":
        place -= 1
    return place


def _reverse(before: str, parts: list[str]) -> list[tuple[str, str]]:
    """Read what a parenthesis says first as the long form of the word before it, which must look like a short one."""
    inside = "".join(parts)
    words = _WORD.findall(before)
    short = words[-1].strip(_QUOTES) if words else ""
    if not _may_be_short(short) or _capitals(short) < 2:
        return []
    letters = _letters(short)
    is_name = " " in inside or not any(map(str.isupper, inside[1:]))
    if not is_name or len(inside.split()) > _most_words(letters) or _start(letters, inside) != 0:
        return []
    long = _checked(short, inside)
    return [(short, long)] if long else []


def _letters(short: str) -> str:
    return "".join(char for char in _folded(short[:-1] if _is_plural(short) else short) if char.isalnum())


def _most_words(letters: str) -> int:
    return min(len(letters) + 5, 2 * len(letters))


def _start(letters: str, window: str) -> int:
    """Return where the long form begins; -1 if there is none."""
    folded = _folded(window)
    start = _start_by_initials(letters, folded)
    if start < 0:
        start = _start_right_to_left(letters, folded)
    return start if start >= 0 else _start_in_any_order(letters, folded)


def _start_by_initials(letters: str, window: str) -> int:
    left = len(letters)
    for part in reversed(list(_PART.finditer(window))):
        if part[0][0] == letters[left - 1]:
            left -= 1
            if not left:
                return part.start()
        elif part[0] not in _SMALL:
            break
    return -1


def _start_in_any_order(letters: str, window: str) -> int:
    """Return where as many words as there are letters begin, if their initials are those letters."""
    words = [part for part in _PART.finditer(window) if part[0] not in _SMALL][-len(letters) :]
    if (
        len(letters) > _MOST_SHUFFLED
        or not letters.isalpha()
        or sorted(word[0][0] for word in words) != sorted(letters)
    ):
        return -1
    return words[0].start() if all(len(word[0]) > len(letters) for word in words) else -1


def _start_right_to_left(letters: str, window: str) -> int:
    place = len(window)
    places = []
    for index in range(len(letters) - 1, -1, -1):
        place = window.rfind(letters[index], 0, place)
        while not index and place > 0 and window[place - 1].isalnum():
            place = window.rfind(letters[index], 0, place)
        if place < 0:
            return -1
        places.append(place)
    without = [
        part
        for part in _PART.finditer(window, place)
        if len(part[0]) > 1 and part[0].isalpha() and part[0] not in _SMALL
        and not any(part.start() <= matched < part.end() for matched in places)
    ]  # fmt: skip
    return place if len(without) < len(letters) else -1


def _checked(short: str, long: str) -> str:
    """Return the long form, tidied; "" if it cannot be one."""
    long = " ".join(long.strip(_QUOTES).split())
    if len(long) <= len(short) or not _balanced(long) or _PARENTHETICAL.match(long):
        return ""
    words = long.split()
    if words[0].lower() in _NEVER_FIRST or words[-1] in _NEVER_LAST or not _NEVER_INSIDE.isdisjoint(words):
        return ""
    return "" if re.search(rf"(?<!\w){re.escape(short)}(?!\w)", long) else long


def _folded(text: str) -> str:
    """Return a text in lower case without accents and with Latin letters for Greek, as long as it was."""
    return text.lower() if text.isascii() else "".join(map(_folded_char, text))


@lru_cache(maxsize=4096)
def _folded_char(char: str) -> str:
    plain = unicodedata.normalize("NFKD", char).casefold()[:1] or char
    return _GREEK.get(plain, plain)
