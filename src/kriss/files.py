"""Reading the user's files line by line, with the place of everything that is wrong in them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import BinaryIO, cast

from isal import igzip, igzip_lib

from kriss.errors import InputError, Place

Where = str | PathLike[str]
"""A path, as callers of the library may give it."""
_DAMAGED = cast(type[Exception], igzip_lib.IsalError)  # its stub calls the class an instance
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 18  # larger is no faster: a block should stay in the processor's cache
SHOWN = 10
"""How many bad rows or documents are kept word for word; the others are only counted."""


class Problems:
    """Rows or documents that are left out: all counted, the first ones kept word for word."""

    def __init__(self) -> None:
        self.count = 0
        self.shown: list[str] = []

    @property
    def full(self) -> bool:
        """Whether a further problem is only counted, so that its line need not be looked for."""
        return len(self.shown) >= SHOWN

    def add(self, error: InputError | None) -> None:
        """Count a problem; reading goes on."""
        self.count += 1
        if error and not self.full:
            self.shown.append(str(error))


class BadRows(Problems):
    """What to do about a bad row: stop at the first, or skip, count and remember it.

    >>> bad = BadRows(skip=True)
    >>> bad.report("the row has 3 columns where 18 are expected", Place(Path("MRCONSO.RRF"), 7))
    >>> bad.count, bad.shown
    (1, ['MRCONSO.RRF:7: the row has 3 columns where 18 are expected'])
    """

    def __init__(self, *, skip: bool) -> None:
        super().__init__()
        self.skip = skip

    def report(self, message: str, place: Place) -> None:
        """Raise the problem, or count it when bad rows are to be skipped."""
        if not self.skip:
            raise InputError(f"{message}; mend it, or give --skip-bad-rows to leave it out", place)
        self.add(InputError(message, place))


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, through gzip when it is gzipped (told by its content, not its name)."""
    try:
        stream = path.open("rb")  # once: what is read of a pipe is gone
    except FileNotFoundError:
        raise InputError("no such file", Place(path)) from None
    except IsADirectoryError:
        raise InputError("this is a folder where a file is needed", Place(path)) from None
    head = stream.peek(len(_GZIP))
    if not head:
        stream.close()
        raise InputError("the file is empty", Place(path))
    if len(head) == 1:  # all there is, or the first that came through a pipe
        with stream, reading(path):
            content = stream.read()
            if content.startswith(_GZIP):
                content = igzip.decompress(content)  # type: ignore[no-untyped-call]
            return io.BytesIO(content)
    if not head.startswith(_GZIP):
        return stream
    unzipped = igzip.open(stream, "rb")  # type: ignore[no-untyped-call]
    unzipped.myfileobj = stream  # closed with it, as a file that it has opened itself
    return cast(BinaryIO, unzipped)


def read_blocks(path: Path, size: int) -> Iterator[bytes]:
    """Yield a file in blocks of whole lines, each about `size` bytes; the last may lack a newline."""
    rest: list[bytes] = []
    with open_bytes(path) as stream:
        while block := _next_block(stream, size, path):
            end = block.rfind(b"\n") + 1
            if end:
                yield b"".join((*rest, block[:end]))
                rest.clear()
            rest.append(block[end:])
    if last := b"".join(rest):
        yield last


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, bytes) without line ends and byte order mark."""
    number = 0
    for block in read_blocks(path, _BLOCK):
        for raw in block.split(b"\n")[: -1 if block.endswith(b"\n") else None]:
            number += 1
            yield number, (raw.removeprefix(_BOM) if number == 1 else raw).removesuffix(b"\r")


def read_lines(path: Path, bad: BadRows) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) without line ends; an undecodable line or one with a NUL is a bad row."""
    for number, raw in numbered_lines(path):
        text = decode_line(raw, Place(path, number), bad)
        if text is not None:
            yield number, text


def decode_line(raw: bytes, place: Place, bad: BadRows) -> str | None:
    """Decode one line as UTF-8; None, and a bad row, if it is not or holds a NUL byte."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        bad.report(f"byte {error.start + 1} of the line is not UTF-8", place)
        return None
    if "\0" in text:
        bad.report("the line holds a NUL byte", place)
        return None
    return text


def find_line(path: Path, matches: Callable[[bytes], bool], nth: int = 1) -> int | None:
    """Return the number of the nth line that matches; the slow road to a place, taken only for errors."""
    found = (number for number, raw in numbered_lines(path) if matches(raw))
    return next(islice(found, nth - 1, None), None)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what gzip says about a truncated or damaged file into a sentence with its name."""
    try:
        yield
    except EOFError:
        raise InputError("the gzip file is truncated; fetch it again", Place(path)) from None
    except (igzip.BadGzipFile, _DAMAGED) as error:
        raise InputError(f"the gzip file is damaged ({error}); fetch it again", Place(path)) from None


def _next_block(stream: BinaryIO, size: int, path: Path) -> bytes:
    with reading(path):
        return stream.read(size)
