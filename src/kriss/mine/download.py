"""PubMed from the National Library of Medicine: the yearly baseline, and the daily updates to it.

    report = download_pubmed([1, 2, 3], Path("pubmed"))             # pubmed/pubmed24n0001.xml.gz ...
    report = download_pubmed(None, Path("updates"), updates=True)   # every update file there is

A file arrives as `NAME.part` and gets its name only when its MD5 is the one that NLM gives in
`NAME.md5`. Whatever stops a download, a break, Ctrl-C or a full disk, the same call continues it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kriss.errors import ConfigError, InputError
from kriss.mine.transfer import PAUSES, TIMEOUT, Http, check_url

BASE_URL = "https://ftp.ncbi.nlm.nih.gov/pubmed"
HIGHEST = 99_999
"""No release has come near this number of files; it bounds what a slip in --files can ask for."""

_LINK = re.compile(r"""href\s*=\s*["']?(?:[^"'>\s]*/)?(pubmed(\d\d)n(\d+)\.xml\.gz)["'>\s]""", re.IGNORECASE)
_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """How far a download is: the file on its way, its place among all, and its bytes."""

    name: str
    index: int
    files: int
    received: int
    size: int | None


@dataclass(frozen=True, slots=True)
class DownloadReport:
    """What a download did; `files` are all that were asked for, whether fetched or there already."""

    files: tuple[Path, ...]
    downloaded: int
    replaced: int
    """How many of the downloaded took the place of a file with another MD5."""
    skipped: int
    received: int
    """Bytes that came over the network, those of failed tries included."""


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
    year: int | None = None,
    updates: bool = False,
    progress: Callable[[DownloadProgress], None] = lambda _: None,
    notice: Callable[[str], None] = lambda _: None,
    timeout: float = TIMEOUT,
    pauses: Sequence[float] = PAUSES,
) -> DownloadReport:
    """Fetch files of the baseline, or of the updates, by number (None: all) into a folder.

    A file that is there with the right MD5 is left alone. `year` is the release (2024, or 24 as
    in the files' names); without it the newest that the server lists. `notice` hears of each
    failed try that is followed by another.
    """
    folder = f"{check_url(base_url)}/{'updatefiles' if updates else 'baseline'}/"
    http = Http(timeout=timeout, pauses=pauses, notice=notice)
    names = _choose(_list_files(http, folder), files, year, folder)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file where a folder is needed")
    out.mkdir(parents=True, exist_ok=True)
    replaced = skipped = 0
    for index, name in enumerate(names, 1):

        def received(count: int, size: int | None, name: str = name, index: int = index) -> None:
            progress(DownloadProgress(name, index, len(names), count, size))

        received(0, None)
        target = out / name
        md5 = _published_md5(http, folder + name)
        if target.exists():
            if _md5(target) == md5:
                skipped += 1
                continue
            replaced += 1
        _deliver(http, folder + name, md5, target, received)
    paths = tuple(out / name for name in names)
    return DownloadReport(paths, len(names) - skipped, replaced, skipped, http.received)


def _list_files(http: Http, folder: str) -> dict[int, dict[int, str]]:
    """Return the names of the files that the index page links to, by year and number."""
    listed: dict[int, dict[int, str]] = {}
    for name, year, number in _LINK.findall(http.read(folder).decode("utf-8", errors="replace")):
        listed.setdefault(int(year), {})[int(number)] = name
    if not listed:
        raise InputError(f"{folder}: the page links to no file such as pubmed24n0001.xml.gz; check --base-url")
    return listed


def _choose(
    listed: dict[int, dict[int, str]], files: Iterable[int] | None, year: int | None, folder: str
) -> tuple[str, ...]:
    release = max(listed) if year is None else year % 100
    if release not in listed:
        there = ", ".join(str(2000 + other) for other in sorted(listed))
        raise InputError(f"{folder}: there is no release of {2000 + release}, only {there}; ask for that one")
    names = listed[release]
    wanted = sorted(names if files is None else set(files))
    missing = [number for number in wanted if number not in names]
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise InputError(
            f"{folder}: there is no file number {shown} in the release of {2000 + release},"
            f" whose numbers run from {min(names)} to {max(names)}; mend --files"
        )
    return tuple(names[number] for number in wanted)


def _published_md5(http: Http, url: str) -> str:
    """Return the checksum from a file such as `MD5(pubmed24n0001.xml.gz)= 9a28...`."""
    found = re.search(rb"\b[0-9a-f]{32}\b", http.read(f"{url}.md5"), re.IGNORECASE)
    if not found:
        raise InputError(f"{url}.md5: there is no MD5 in it; check --base-url, or try again later")
    return found[0].decode().lower()


def _deliver(http: Http, url: str, md5: str, target: Path, received: Callable[[int, int | None], None]) -> None:
    part = target.with_name(f"{target.name}.part")
    for _ in range(2):  # what was resumed may be a piece of something else, so once more from the start
        http.append(url, part, received)
        if _md5(part) == md5:
            with part.open("rb+") as stream:
                os.fsync(stream.fileno())
            part.replace(target)
            return
        part.unlink()
    raise InputError(
        f"{url}: what arrives has not the MD5 that {target.name}.md5 gives, twice over;"
        " run the same command again later, or give another --base-url"
    )


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
