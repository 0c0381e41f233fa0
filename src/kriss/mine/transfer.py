"""Fetching over HTTP with nothing but urllib: retries with a growing pause, and downloads that resume.

    http = Http(timeout=60.0, pauses=(1.0, 3.0, 9.0))
    page = http.read("https://ftp.ncbi.nlm.nih.gov/pubmed/baseline/")
    http.append(url, Path("pubmed24n0001.xml.gz.part"), print)      # continues a file that is there

What goes wrong on the way ends in one `InputError`; what goes wrong on our disk stays an
`OSError` with the name of the file, and leaves what has arrived.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import TypeVar, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from kriss import __version__
from kriss.errors import ConfigError, InputError

PAUSES = (1.0, 3.0, 9.0)
"""Seconds before each further try; there are as many as these, counted anew when bytes arrived."""
TIMEOUT = 60.0
"""Seconds that a server may be silent."""
BLOCK = 1 << 18

Received = Callable[[int, int | None], None]
"""Told how many bytes of a file are here, and how many it has if the server says."""
T = TypeVar("T")


class _Broken(Exception):  # noqa: N818 - it never leaves this module
    """One try that failed; `status` is the server's answer if there was one."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status

    @property
    def hopeless(self) -> bool:
        """Whether the server refused for good; it may find a file later, while it swaps releases."""
        passing = (HTTPStatus.NOT_FOUND, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
        return self.status is not None and 400 <= self.status < 500 and self.status not in passing


class Http:
    """Requests to one server, each tried a few times; `received` counts the bytes of all downloads."""

    def __init__(
        self,
        *,
        timeout: float = TIMEOUT,
        pauses: Sequence[float] = PAUSES,
        notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.timeout = timeout
        self.pauses = pauses
        self.notice = notice
        self.received = 0

    def read(self, url: str) -> bytes:
        """Return a small page whole."""
        return self._persist(url, lambda: self._read_once(url), lambda: 0)

    def append(self, url: str, part: Path, received: Received) -> None:
        """Bring a file to its end: from where it stops if the server can do that, else from the start."""
        self._persist(url, lambda: self._append_once(url, part, received), lambda: _size(part))

    def _persist(self, url: str, attempt: Callable[[], T], reached: Callable[[], int]) -> T:
        furthest, failures = reached(), 0
        while True:
            try:
                return attempt()
            except _Broken as error:
                # A line that keeps breaking but brings something each time is no reason to give up.
                failures = 1 if reached() > furthest else failures + 1
                furthest = max(furthest, reached())
                if error.hopeless or failures > len(self.pauses):
                    raise InputError(f"{url}: {error}; {_advice(error)}") from None
                pause = self.pauses[failures - 1]
                self.notice(f"{url}: {error}; trying again in {pause:g} s")
                time.sleep(pause)

    def _read_once(self, url: str) -> bytes:
        with self._open(url) as response, self._network():
            return response.read()

    def _append_once(self, url: str, part: Path, received: Received) -> None:
        have = _size(part)
        try:
            response = self._open(url, have)
        except _Broken as error:
            if have and error.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # nothing comes after what is here: the checksum tells whether that is right
            raise
        with response:
            resumes = response.status == HTTPStatus.PARTIAL_CONTENT
            if not resumes:
                have = 0
            elif _range_start(response) != have:
                part.unlink()
                raise _Broken("the server answers with another range than was asked for")
            size = None if response.length is None else have + response.length
            received(have, size)
            with _naming(part), part.open("ab" if resumes else "wb") as sink:
                while block := self._next(response):
                    sink.write(block)
                    have += len(block)
                    self.received += len(block)
                    received(have, size)
        if size is not None and have < size:
            raise _Broken(f"the connection broke after {have:,} of {size:,} bytes")

    def _open(self, url: str, start: int = 0) -> HTTPResponse:
        headers = {"User-Agent": f"kriss/{__version__}", **({"Range": f"bytes={start}-"} if start else {})}
        with self._network():
            # check_url() has seen that this is http or https
            request = Request(url, headers=headers)  # noqa: S310
            return cast(HTTPResponse, urlopen(request, timeout=self.timeout))  # noqa: S310

    def _next(self, response: HTTPResponse) -> bytes:
        with self._network():
            return response.read1(BLOCK)  # what is there now, so that a break loses none of it

    @contextmanager
    def _network(self) -> Iterator[None]:
        """Turn every way in which a connection fails into `_Broken`; only network calls belong inside."""
        try:
            yield
        except HTTPError as error:
            with error:
                raise _Broken(f"the server answers {error.code} {error.reason}".rstrip(), error.code) from None
        except (HTTPException, OSError) as error:
            cause = error.reason if isinstance(error, URLError) else error
            if isinstance(cause, TimeoutError):
                raise _Broken(f"no answer within {self.timeout:g} s") from None
            text = (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
            raise _Broken(f"the connection failed ({text})") from None


def check_url(url: str) -> str:
    """Return an http or https address without slashes at its end; anything else is a `ConfigError`."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and url.isascii() and url.isprintable() and not set(url) & set(" ?#@")
        (parts.hostname or "").encode("idna")
    except ValueError:  # a bad port, bracket or host label
        usable = False
    if not usable:
        raise ConfigError(f"--base-url wants an address that begins with http:// or https://, not '{url}'")
    return url.rstrip("/")


def _advice(error: _Broken) -> str:
    if error.status is not None and 400 <= error.status < 500:
        return "check --base-url, or run the same command again later, it resumes"
    return "run the same command again, it resumes"


def _range_start(response: HTTPResponse) -> int | None:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Give the name of the file to an error in writing it, such as a full disk, which lacks it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
