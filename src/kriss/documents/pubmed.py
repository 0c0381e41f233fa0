"""PubMed and MEDLINE XML, as NLM ships it: `pubmed24n0001.xml.gz`, efetch, updates with deletions.

The text of a record is its title, a line end, and the sections of its abstract, a line end between two.
The labels of sections ("METHODS") stay out: NLM keeps them apart from the authors' words, as context
they would say the same before every first mention, and in capitals they look like names. White space
is layout in XML, so a run of it is one blank, and a line end in the text is always a boundary.

Nearly all records are read by search alone; one with anything unusual in it goes to an XML parser,
which gives the same text for every well-formed record (a test holds them against each other).
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kriss.documents.format import Format
from kriss.documents.problems import Deleted
from kriss.documents.text import join_text
from kriss.documents.xmlcut import Layout, XmlRecord
from kriss.records import Document

_LAYOUT = Layout(
    roots=(b"PubmedArticleSet", b"PubmedBookArticleSet"),
    records=(b"PubmedArticle", b"PubmedBookArticle"),
    others=(b"DeleteCitation", b"DeleteDocument"),
)

_ATTRIBUTES = rb'(?:\s+[\w:.-]+="[^"<]*")*\s*'
_HEAD = re.compile(
    rb"<PubmedArticle>\s*<MedlineCitation" + _ATTRIBUTES + rb">\s*<PMID" + _ATTRIBUTES + rb">\s*(\d+)\s*</PMID>"
)
_TITLE = re.compile(rb"<ArticleTitle" + _ATTRIBUTES + rb"(?:/>|>([^<]*)</ArticleTitle>)")
_SECTION = re.compile(rb"\s*<AbstractText" + _ATTRIBUTES + rb"(?:/>|>([^<]*)</AbstractText>)")
_ABSTRACT_END = re.compile(rb"\s*(?:<CopyrightInformation>[^<]*</CopyrightInformation>\s*)?</Abstract>")
_INLINE = re.compile(rb"</?(?:i|b|u|sub|sup)>")
_ANY_PMID = re.compile(rb"<PMID\b[^>]*>\s*([^<]*?)\s*</PMID>")
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos);")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_RUN = re.compile(r"[ \t\r\n]+")


def _records(path: Path, stripe: int, stripes: int) -> Iterator[XmlRecord]:
    """Cut the file; what deletes several records becomes one of each."""
    for record in _LAYOUT.cut(path, stripe, stripes):
        if record.tag in _LAYOUT.others:
            yield from (replace(record, content=pmid) for pmid in _ANY_PMID.findall(record.content))
        else:
            yield record


def _parse(record: XmlRecord, _marked: bool) -> Document | Deleted:
    if record.tag in _LAYOUT.others:
        return Deleted(record.content.decode("ascii", "replace"))
    pmid, text = _search(record.content) or _by_parser(record)
    return Document(pmid, text, (), 0, record.ordinal)


def _search(xml: bytes) -> tuple[str, str] | None:
    """Return PMID and text of a record in NLM's usual layout; None if anything in it is unusual."""
    head = _HEAD.match(xml)
    if not head:
        return None
    at = xml.find(b"<ArticleTitle", head.end())
    title = _TITLE.match(xml, at) if at > 0 else None
    if title:
        at = title.end()
    else:
        end = xml.find(b"</ArticleTitle>", at) + len(b"</ArticleTitle>")
        title = _TITLE.fullmatch(_INLINE.sub(b"", xml[at:end]))
        if not title:
            return None
        at = end
    sections = _sections(xml, at)
    if sections is None:
        return None
    try:
        body = "\n".join(filter(None, map(_decode, sections)))
        return head[1].decode(), join_text(_decode(title[1] or b""), body)
    except ValueError:
        return None


def _sections(xml: bytes, after: int) -> list[bytes] | None:
    """Return the sections of the abstract that follows the title; None if it is unusual."""
    start = xml.find(b"<Abstract>", after)
    if start < 0:
        return [] if xml.find(b"<Abstract", after) < 0 else None  # it may be that of an OtherAbstract
    sections = _bare_sections(xml, start)
    if sections is None:
        end = xml.find(b"</Abstract>", start) + len(b"</Abstract>")
        sections = _bare_sections(_INLINE.sub(b"", xml[start:end]), 0)
    return sections


def _bare_sections(xml: bytes, start: int) -> list[bytes] | None:
    sections = []
    at = start + len(b"<Abstract>")
    while section := _SECTION.match(xml, at):
        sections.append(section[1] or b"")
        at = section.end()
    return sections if _ABSTRACT_END.match(xml, at) else None


def _decode(raw: bytes) -> str:
    """Return the characters that bytes between two tags stand for; a ValueError if that takes more than a look."""
    text = raw.decode("utf-8")
    if "&" in text:
        ampersands = text.count("&")
        text, known = _ENTITY.subn(lambda entity: _CHARACTERS[entity[1]], text)
        if known != ampersands:
            raise ValueError("an entity that is not one of the five")
    return _one_blank(text)


def _one_blank(text: str) -> str:
    if "  " in text or "\n" in text or "\t" in text or "\r" in text:
        text = _RUN.sub(" ", text)
    return text.strip()


def _by_parser(record: XmlRecord) -> tuple[str, str]:
    """Return PMID and text of any well-formed record."""
    pmids = _ANY_PMID.search(record.content)
    record.id = pmids[1].decode("ascii", "replace") if pmids else ""
    root = record.element()
    citation = root.find("MedlineCitation" if record.tag == b"PubmedArticle" else "BookDocument")
    pmid = _flat(citation.find("PMID")) if citation is not None else ""
    if citation is None or not pmid:
        raise ValueError("the record has no PMID")
    return pmid, _text(citation)


def _text(citation: ET.Element) -> str:
    article = citation.find("Article") if citation.tag == "MedlineCitation" else citation
    if article is None:
        return ""
    title = _flat(article.find("ArticleTitle")) or _flat(article.find("Book/BookTitle"))
    sections = map(_flat, article.findall("Abstract/AbstractText"))
    return join_text(title, "\n".join(filter(None, sections)))


def _flat(element: ET.Element | None) -> str:
    """Return the text of an element and of all the markup in it."""
    return "" if element is None else _one_blank("".join(element.itertext()))


PUBMED = Format("pubmed", lambda head: head.root in _LAYOUT.roots, _records, _parse, marks=False, replaces=True)
