"""Writing links, one document at a time, to a file that appears when it is whole."""

from __future__ import annotations

import gzip
import io
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from kriss.documents.format import Format, Linked
from kriss.errors import ConfigError, ExistsError


def write_links(links: Iterable[Linked], out: TextIO, format: Format) -> None:
    """Write documents with their links; the nth link of a document is that of its nth span."""
    if not format.write:
        raise ConfigError(f"kriss reads {format.name} and does not write it")
    format.write(map(_checked, links), out)


def _checked(linked: Linked) -> Linked:
    document, links = linked
    if len(links) != len(document.spans):
        raise ValueError(f"document '{document.id}' has {len(document.spans)} mentions and {len(links)} links")
    return linked


@contextmanager
def output(path: Path | None, *, force: bool = False) -> Iterator[TextIO]:
    """Open a file that appears under its name only when it is whole; standard output without a path.

    Pipes and devices are written to as they are. A link to a file stays one. A name that ends in `.gz` is
    compressed, without a time in it: the same links give the same bytes.
    """
    if path is None:
        with _standard_output() as stream:
            yield stream
    elif path.exists() and not path.is_file() and not path.is_dir():
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
    else:
        _check_target(path, force=force)
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.building-{os.getpid()}-{secrets.token_hex(4)}")
        try:
            with draft.open("xb") as raw:
                packed = gzip.GzipFile("", "wb", 6, raw, mtime=0) if target.suffix == ".gz" else None
                stream = io.TextIOWrapper(packed or raw, encoding="utf-8", newline="\n")
                try:
                    yield stream
                    stream.flush()
                finally:
                    stream.detach()
                    if packed:
                        packed.close()
                raw.flush()
                os.fsync(raw.fileno())
            _check_target(path, force=force)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Write UTF-8 whatever the terminal's encoding is: the files that this is piped into are to be read again."""
    sys.stdout.flush()
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:  # a notebook's, or a test's
        yield sys.stdout
        return
    stream = io.TextIOWrapper(raw, encoding="utf-8", newline="\n", write_through=True)
    try:
        yield stream
        stream.flush()
    finally:
        stream.detach()


def _check_target(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise ExistsError(f"{path} is a folder; name a file to write to")
    if path.exists() and not force:
        raise ExistsError(f"{path} exists; give --force to replace it, or another --out")
