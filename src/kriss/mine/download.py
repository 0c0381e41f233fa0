"""PubMed from the National Library of Medicine: the yearly baseline, and the daily updates to it.

    files, skipped = download_pubmed([1, 2, 3], Path("pubmed"))              # pubmed/pubmed24n0001.xml.gz ...
    files, skipped = download_pubmed(None, Path("updates"), updates=True)    # every update file there is

A file arrives as `NAME.part` and gets its name only when its MD5 is the one that NLM gives in
`NAME.md5`. Whatever stops a download, a break, Ctrl-C or a full disk, the same call continues it.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from ssl import SSLError
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from kriss import __version__
from kriss.errors import ConfigError, InputError

BASE_URL = "https://ftp.ncbi.nlm.nih.gov/pubmed"
HIGHEST = 99_999
"""No release has come near this number of files; it bounds what a slip in --files can ask for."""
PAUSES = (1.0, 3.0, 9.0)
"""Seconds before each further try; there are as many as these, counted anew when bytes arrived."""
TIMEOUT = 60.0
"""Seconds that a server may be silent."""
_BLOCK = 1 << 18
_BROKEN = (HTTPException, URLError, ConnectionError, TimeoutError, SSLError)
"""Every way in which a connection fails; a full disk is none of them."""
_PASSING = (404, 408, 429)
"""Refusals that may pass: a server that swaps releases finds a file later."""
_LINK = re.compile(r"""href\s*=\s*["']?(?:[^"'>\s]*/)?(pubmed(\d\d)n(\d+)\.xml\.gz)["'>\s]""", re.IGNORECASE)
_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """How far a download is: the file on its way, its place among all, and its bytes."""

    name: str
    index: int
    files: int
    received: int = 0
    size: int | None = None


def parse_files(text: str) -> list[int] | None:
    """Read the numbers in `--files`, sorted and each once; None stands for all.

    >>> parse_files("9, 1,5-7")
    [1, 5, 6, 7, 9]
    """
    if text.strip() == "all":
        return None
    numbers: set[int] = set()
    for item in text.split(","):
        found = _RANGE.fullmatch(item)
        if not found:
            raise ConfigError(f"--files wants numbers such as 3, 1-10 or 1,5-7, or 'all', not '{text}'")
        first, last = int(found[1]), int(found[2] or found[1])
        if not 1 <= first <= last <= HIGHEST:
            raise ConfigError(f"--files: '{item.strip()}' does not run upwards between 1 and {HIGHEST}")
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def download_pubmed(
    files: Iterable[int] | None,
    out: Path,
    *,
    base_url: str = BASE_URL,
    updates: bool = False,
    progress: Callable[[DownloadProgress], None] = lambda _: None,
    notice: Say = lambda _: None,
) -> tuple[list[Path], int]:
    """Fetch files of the newest baseline, or of the updates, by number (None: all) into a folder.

    Return all that were asked for, and how many of them were there already, with the right MD5. `notice` hears of each
    failed try that is followed by another.
    """
    folder = f"{_checked(base_url)}/{'updatefiles' if updates else 'baseline'}/"
    names = _choose(_read(folder, notice).decode("utf-8", errors="replace"), files, folder)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file where a folder is needed")
    out.mkdir(parents=True, exist_ok=True)
    skipped = 0
    for index, name in enumerate(names, 1):
        progress(DownloadProgress(name, index, len(names)))
        found = re.search(rb"\b[0-9a-f]{32}\b", _read(f"{folder}{name}.md5", notice), re.IGNORECASE)
        if not found:
            raise InputError(f"{folder}{name}.md5: there is no MD5 in it; check --base-url, or try again later")
        md5 = found[0].decode().lower()
        if (out / name).exists() and _md5(out / name) == md5:
            skipped += 1
            continue
        for received, size in _fetch(folder + name, out / name, md5, notice):
            progress(DownloadProgress(name, index, len(names), received, size))
    return [out / name for name in names], skipped


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and url.isascii() and url.isprintable() and not set(url) & set(" ?#@")
    except ValueError:  # a bad port or bracket
        usable = False
    if not usable:
        raise ConfigError(f"--base-url wants an address that begins with http:// or https://, not '{url}'")
    return url.rstrip("/")


def _choose(page: str, files: Iterable[int] | None, folder: str) -> list[str]:
    """Return the names of files in the newest release that the server's list links to."""
    links = [(int(year), int(number), name) for name, year, number in _LINK.findall(page)]
    if not links:
        raise InputError(f"{folder}: the page links to no file such as pubmed24n0001.xml.gz; check --base-url")
    release = max(year for year, _, _ in links)
    names = {number: name for year, number, name in links if year == release}
    wanted = sorted(names if files is None else set(files))
    if missing := [number for number in wanted if number not in names]:
        shown = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise InputError(
            f"{folder}: there is no file number {shown} in the release of {2000 + release},"
            f" whose numbers run from {min(names)} to {max(names)}; mend --files"
        )
    return [names[number] for number in wanted]


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def _read(url: str, notice: Say) -> bytes:
    """Return a small page whole."""
    page = BytesIO()
    for _ in _bring(url, page, notice):
        pass
    return page.getvalue()


def _fetch(url: str, target: Path, md5: str, notice: Say) -> Iterator[tuple[int, int | None]]:
    """Bring a file here, and yield how many bytes there are, and how many there will be if the server says."""
    part = target.with_name(f"{target.name}.part")
    for _ in range(2):  # what is continued may be a piece of something else, so once more from the start
        try:
            with part.open("ab") as sink:
                yield from _bring(url, sink, notice)
                os.fsync(sink.fileno())
        except OSError as error:  # a full disk does not say where
            raise OSError(error.errno, error.strerror, str(part)) from error
        finally:
            if not part.stat().st_size:
                part.unlink()
        if part.exists() and _md5(part) == md5:
            part.replace(target)
            return
        part.unlink(missing_ok=True)
    raise InputError(
        f"{url}: what arrives has not the MD5 that {target.name}.md5 gives, twice over;"
        " run the same command again later, or give another --base-url"
    )


def _bring(url: str, sink: BinaryIO, notice: Say) -> Iterator[tuple[int, int | None]]:
    """Bring what stands at an address to its end, with further tries."""
    furthest, failures = sink.seek(0, os.SEEK_END), 0
    while True:
        try:
            yield from _append(url, sink)
            return
        except _BROKEN as error:
            # A line that keeps breaking but brings something each time is no reason to give up.
            failures = 1 if sink.tell() > furthest else failures + 1
            furthest = max(furthest, sink.tell())
            status = error.code if isinstance(error, HTTPError) else 0
            refused, reason = 400 <= status < 500, _reason(error)
            if failures > len(PAUSES) or (refused and status not in _PASSING):
                advice = "check --base-url, or run" if refused else "run"
                raise InputError(f"{url}: {reason}; {advice} the same command again, it resumes") from None
            pause = PAUSES[failures - 1]
            notice(f"{url}: {reason}; trying again in {pause:g} s")
            time.sleep(pause)


def _append(url: str, sink: BinaryIO) -> Iterator[tuple[int, int | None]]:
    """Go on from where the sink ends if the server can do that, else from the start."""
    have = sink.tell()
    headers = {"User-Agent": f"kriss/{__version__}", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        response = urlopen(Request(url, headers=headers), timeout=TIMEOUT)  # noqa: S310 - checked to be http or https
    except HTTPError as error:
        error.close()
        if have and error.code == 416:
            return  # nothing comes after what is here: the checksum tells whether that is right
        raise
    with response:
        if response.status != 206:
            sink.seek(0)
            have = sink.truncate()
        size = None if response.length is None else have + response.length
        yield have, size
        while block := response.read1(_BLOCK):  # what is there now, so that a break loses none of it
            sink.write(block)
            have += len(block)
            yield have, size
    if size is not None and have < size:
        raise ConnectionError(f"the connection broke after {have:,} of {size:,} bytes")


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"the server answers {error.code} {error.reason}".rstrip()
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {TIMEOUT:g} s"
    return f"the connection failed ({getattr(cause, 'strerror', None) or cause or type(cause).__name__})"
