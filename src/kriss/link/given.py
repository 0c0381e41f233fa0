"""Mentions as callers give them: what can be linked, and what can be learned."""

from __future__ import annotations

import re

from kriss.documents.problems import flaw_of
from kriss.errors import InputError
from kriss.records import Excerpt, Mention

Given = Mention | Excerpt | tuple[str, int, int]
"""A mention of a document, one with the text on its sides, or a text and the span of the mention in it."""
_HALF = re.compile("[\ud800-\udfff]")


def as_mention(given: Given) -> Mention:
    """Return what was given as a mention; one without any text is an error."""
    if isinstance(given, Excerpt):
        first = len(given.left)
        given = given.left + given.surface + given.right, first, first + len(given.surface)
    mention = given if isinstance(given, Mention) else Mention.at(*given)
    if not mention.surface.strip():
        raise InputError(f"a mention must have a text, and {mention.surface!r} is none")
    return mention


def encodable(mention: Excerpt) -> Excerpt:
    """Return an excerpt with a sign in the place of half surrogate pairs, which no tokenizer takes."""
    left, surface, right = (_HALF.sub("\ufffd", part) for part in (mention.left, mention.surface, mention.right))
    return Excerpt(left, surface, right, mention.masked)


def storable(mention: Mention) -> Mention:
    """Return the mention unless no file could hold its text."""
    shown = mention.excerpt()
    if flaw := flaw_of(f"{shown.left}{shown.surface}{shown.right}"):
        raise InputError(f"the text of an example cannot be stored: {flaw}; remove it")
    return mention
