"""`kriss download pubmed` against a server on this machine that can misbehave in every way we handle."""

from __future__ import annotations

import errno
import gzip
import hashlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from kriss.cli.mine import download as download_app
from kriss.errors import ConfigError, InputError
from kriss.mine.download import DownloadProgress, download_pubmed, parse_files


def content(number: int) -> bytes:
    """Return a gzipped file that does not compress, larger than a socket's buffer."""
    noise = b"".join(hashlib.sha256(f"{number} {index}".encode()).digest() for index in range(20_000))
    return gzip.compress(noise, compresslevel=1, mtime=0)


FILES = {f"pubmed24n{number:04}.xml.gz": content(number) for number in range(1, 4)}
UPDATE = "pubmed24n1220.xml.gz"
ONE = "pubmed24n0001.xml.gz"
HALF = len(FILES[ONE]) // 2


@dataclass
class Site:
    """The NLM server in miniature, what it was asked, and what it is to do wrong."""

    url: str = ""
    pages: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    ranges: str = "honoured"  # or: ignored, shifted
    status: Callable[[str, int], int] = lambda path, nth: 200
    cut: Callable[[str, int], int | None] = lambda path, nth: None
    chunked: bool = False

    def add(self, folder: str, files: dict[str, bytes]) -> None:
        rows = ""
        for name, body in files.items():
            self.pages[f"/pubmed/{folder}/{name}"] = body
            self.pages[f"/pubmed/{folder}/{name}.md5"] = f"MD5({name})= {hashlib.md5(body).hexdigest()}\n".encode()
            stats = name.replace(".xml.gz", "_stats.html")
            for link in (name, f"{name}.md5", stats):
                rows += f'<a href="{link}">{link}</a>  2023-12-14 18:08   19M\n'
        page = (
            f'<html><body><pre><a href="/pubmed/">Parent Directory</a>\n<a href="README.txt">R</a>\n{rows}</pre></html>'
        )
        self.pages[f"/pubmed/{folder}/"] = page.encode()

    def ranges_of(self, name: str) -> list[str | None]:
        """The Range headers of the requests for a file, in their order."""
        return [header for path, header in self.asked if path.endswith(f"/{name}")]


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site, header = self.site, self.headers.get("Range")
        site.asked.append((self.path, header))
        site.tries[self.path] += 1
        nth = site.tries[self.path]
        status = site.status(self.path, nth) if self.path in site.pages else 404
        if status != 200:
            self.send_error(status)
            return
        body, start, whole = site.pages[self.path], 0, len(site.pages[self.path])
        if header and site.ranges != "ignored":
            start = int(header.removeprefix("bytes=").removesuffix("-"))
            if start >= whole:
                self.send_error(416)
                return
            start -= 1 if site.ranges == "shifted" else 0
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
        else:
            self.send_response(200)
        body = body[start:]
        if site.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = site.cut(self.path, nth)
        body = body if cut is None else body[:cut]
        if site.chunked:
            self.wfile.write(b"%x\r\n%s\r\n%s" % (len(body), body, b"" if cut is not None else b"0\r\n\r\n"))
        else:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is what some tests are about."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("kriss.mine.download.PAUSES", (0.001, 0.002, 0.003))
    site = Site()
    site.add("baseline", FILES)
    site.add("updatefiles", {UPDATE: content(1220)})
    handler = type("SiteHandler", (Handler,), {"site": site, "protocol_version": "HTTP/1.1"})
    with Server(("127.0.0.1", 0), handler) as server:
        site.url = f"http://127.0.0.1:{server.server_address[1]}/pubmed"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        yield site
        server.shutdown()
        thread.join()


def fetch(site: Site, out: Path, *numbers: int, **options: Any) -> tuple[list[Path], int]:
    return download_pubmed(numbers or None, out, base_url=site.url, **options)


def only(name: str, action: Callable[[int], Any], otherwise: Any) -> Callable[[str, int], Any]:
    """Let the nth request for one file be answered by `action(n)` and everything else as usual."""
    return lambda path, nth: action(nth) if path.endswith(f"/{name}") else otherwise


def one_sentence(error: pytest.ExceptionInfo[Exception], *parts: str) -> None:
    message = str(error.value)
    assert "\n" not in message
    assert "Traceback" not in message
    for part in parts:
        assert part in message


# --- the way it should go ----------------------------------------------------------------------


def test_all_files_arrive_and_match(site: Site, tmp_path: Path) -> None:
    seen: list[DownloadProgress] = []
    files, skipped = fetch(site, tmp_path / "new" / "out", progress=seen.append)
    assert {path.name: path.read_bytes() for path in files} == FILES
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == sorted(FILES)
    assert skipped == 0
    for name, body in FILES.items():
        last = [now for now in seen if now.name == name][-1]
        assert (last.received, last.size, last.files) == (len(body), len(body), 3)


def test_only_what_was_asked_for(site: Site, tmp_path: Path) -> None:
    files, _ = fetch(site, tmp_path, 3, 1, 3)
    assert [path.name for path in files] == [ONE, "pubmed24n0003.xml.gz"]
    assert not site.ranges_of("pubmed24n0002.xml.gz")


def test_updates_come_from_their_own_folder(site: Site, tmp_path: Path) -> None:
    [path], _ = fetch(site, tmp_path, updates=True)
    assert path.name == UPDATE
    assert path.read_bytes() == content(1220)


def test_without_lengths(site: Site, tmp_path: Path) -> None:
    site.chunked = True
    site.cut = only(ONE, lambda nth: 1000 if nth == 1 else None, None)
    fetch(site, tmp_path, 1)
    assert (tmp_path / ONE).read_bytes() == FILES[ONE]


def test_the_newest_release(site: Site, tmp_path: Path) -> None:
    site.add("baseline", {ONE: content(1), "pubmed25n0001.xml.gz": content(7)})
    assert [path.name for path in fetch(site, tmp_path, 1)[0]] == ["pubmed25n0001.xml.gz"]


# --- skipping and resuming ---------------------------------------------------------------------


def test_a_second_run_fetches_what_is_missing_or_damaged(site: Site, tmp_path: Path) -> None:
    fetch(site, tmp_path, 1, 2)
    (tmp_path / "pubmed24n0002.xml.gz").write_bytes(b"damaged")
    site.asked.clear()
    assert fetch(site, tmp_path)[1] == 1
    assert not site.ranges_of(ONE)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == FILES


WHOLE = FILES[ONE]


@pytest.mark.parametrize(
    ("part", "ranges", "asked"),
    [
        (WHOLE[:HALF], "honoured", [f"bytes={HALF}-"]),
        (WHOLE[:HALF], "ignored", [f"bytes={HALF}-"]),
        (WHOLE[:HALF], "shifted", [f"bytes={HALF}-", None]),
        (WHOLE, "honoured", [f"bytes={len(WHOLE)}-"]),
        (b"", "honoured", [None]),
        (b"x" * HALF, "honoured", [f"bytes={HALF}-", None]),
        (b"x" * len(WHOLE), "honoured", [f"bytes={len(WHOLE)}-", None]),
        (WHOLE + b"more", "honoured", [f"bytes={len(WHOLE) + 4}-", None]),
    ],
    ids=["half", "no ranges", "wrong ranges", "whole", "empty", "other bytes", "other bytes, its length", "too long"],
)
def test_a_part_is_continued_or_replaced(
    site: Site, tmp_path: Path, part: bytes, ranges: str, asked: list[str | None]
) -> None:
    site.ranges = ranges
    (tmp_path / f"{ONE}.part").write_bytes(part)
    fetch(site, tmp_path, 1)
    assert site.ranges_of(ONE) == asked
    assert [path.name for path in tmp_path.iterdir()] == [ONE]
    assert (tmp_path / ONE).read_bytes() == WHOLE


def test_a_line_that_keeps_breaking(site: Site, tmp_path: Path) -> None:
    step = len(FILES[ONE]) // 10  # more breaks than tries, but each brings some bytes
    site.cut = only(ONE, lambda nth: step, None)
    notes: list[str] = []
    fetch(site, tmp_path, 1, notice=notes.append)
    assert site.ranges_of(ONE)[:3] == [None, f"bytes={step}-", f"bytes={2 * step}-"]
    assert "the connection broke after" in notes[0]
    assert (tmp_path / ONE).read_bytes() == FILES[ONE]


def test_breaks_without_ranges_end(site: Site, tmp_path: Path) -> None:
    site.ranges = "ignored"
    site.cut = only(ONE, lambda nth: HALF, None)
    with pytest.raises(InputError) as error:
        fetch(site, tmp_path, 1)
    one_sentence(error, f"{site.url}/baseline/{ONE}", "the connection broke", "run the same command again, it resumes")
    assert [path.name for path in tmp_path.iterdir()] == [f"{ONE}.part"]


def test_an_index_cut_short_is_read_again(site: Site, tmp_path: Path) -> None:
    site.cut = lambda path, nth: 150 if path.endswith("/baseline/") and nth == 1 else None
    assert len(fetch(site, tmp_path)[0]) == 3


# --- servers that fail -------------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 429, 500, 503])
def test_a_failure_that_passes(site: Site, tmp_path: Path, status: int) -> None:
    site.status = lambda path, nth: status if nth <= 2 else 200
    notes: list[str] = []
    fetch(site, tmp_path, 1, notice=notes.append)
    assert (tmp_path / ONE).read_bytes() == FILES[ONE]
    assert len(notes) == 6  # the index, the MD5 and the file, twice each
    assert all(f"the server answers {status}" in note for note in notes)


@pytest.mark.parametrize(("status", "tries", "advice"), [(404, 4, "--base-url"), (403, 1, "--base-url"), (503, 4, "")])
def test_a_failure_that_stays(site: Site, tmp_path: Path, status: int, tries: int, advice: str) -> None:
    site.status = only(ONE, lambda nth: status, 200)
    with pytest.raises(InputError) as error:
        fetch(site, tmp_path, 1)
    one_sentence(error, f"{site.url}/baseline/{ONE}", f"the server answers {status}", "run the same command", advice)
    assert len(site.ranges_of(ONE)) == tries
    assert not list(tmp_path.iterdir())


def test_a_wrong_md5_is_tried_twice(site: Site, tmp_path: Path) -> None:
    site.pages[f"/pubmed/baseline/{ONE}.md5"] = f"MD5({ONE})= {'0' * 32}".encode()
    with pytest.raises(InputError) as error:
        fetch(site, tmp_path, 1)
    one_sentence(error, f"{site.url}/baseline/{ONE}", "MD5", "run the same command again")
    assert site.ranges_of(ONE) == [None, None]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("body", [b"", b"<html>Sign in to the hotel</html>", b"MD5(x)= 123"])
def test_no_md5(site: Site, tmp_path: Path, body: bytes) -> None:
    site.pages[f"/pubmed/baseline/{ONE}.md5"] = body
    with pytest.raises(InputError) as error:
        fetch(site, tmp_path, 1)
    one_sentence(error, f"{ONE}.md5", "there is no MD5 in it")
    assert not list(tmp_path.iterdir())


def test_an_index_without_files(site: Site, tmp_path: Path) -> None:
    site.pages["/pubmed/baseline/"] = b"<html>It works!</html>"
    with pytest.raises(InputError) as error:
        fetch(site, tmp_path / "out", 1)
    one_sentence(error, f"{site.url}/baseline/", "check --base-url")
    assert not (tmp_path / "out").exists()


def test_numbers_that_are_not_there(site: Site, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        fetch(site, tmp_path / "out", *range(2, 11))
    one_sentence(error, "4, 5, 6, 7, 8 and 2 more", "2024", "from 1 to 3", "--files")
    assert not (tmp_path / "out").exists()


def test_nobody_listens(site: Site, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        site.url = f"http://127.0.0.1:{free.getsockname()[1]}/pubmed"
        with pytest.raises(InputError) as error:
            fetch(site, tmp_path, 1)
    one_sentence(error, site.url, "Connection refused", "run the same command again, it resumes")


def test_a_silent_server(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kriss.mine.download.TIMEOUT", 0.005)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site.url = f"http://127.0.0.1:{silent.getsockname()[1]}/pubmed"
        with pytest.raises(InputError) as error:
            fetch(site, tmp_path, 1)
    one_sentence(error, site.url, "no answer within 0.005 s")


# --- this side fails ---------------------------------------------------------------------------


def test_a_full_disk_leaves_the_part(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        real = Path.open

        def small_disk(path: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
            stream = real(path, mode, *rest, **options)
            return SmallDisk(stream) if path.suffix == ".part" and mode in ("ab", "wb") else stream

        patch.setattr(Path, "open", small_disk)
        with pytest.raises(OSError, match="No space left") as error:
            fetch(site, tmp_path, 1)
    part = tmp_path / f"{ONE}.part"
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(part))
    assert len(site.ranges_of(ONE)) == 1  # our disk is no reason to ask the server again
    have = part.stat().st_size
    assert 0 < have < len(FILES[ONE])
    assert not (tmp_path / ONE).exists()
    fetch(site, tmp_path, 1)
    assert site.ranges_of(ONE)[-1] == f"bytes={have}-"
    assert (tmp_path / ONE).read_bytes() == FILES[ONE]


class SmallDisk:
    """A stream that takes some bytes and then says that the disk is full."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.room = stream, 100_000

    def __enter__(self) -> SmallDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, block: bytes) -> None:
        self.stream.write(block[: self.room])
        self.room -= len(block)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_an_interrupt_leaves_the_part(site: Site, tmp_path: Path) -> None:
    def press(now: DownloadProgress) -> None:
        assert not (tmp_path / ONE).exists()  # nothing half-written under the final name, at any moment
        if now.received > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(site, tmp_path, 1, progress=press)
    have = (tmp_path / f"{ONE}.part").stat().st_size
    assert have > 100_000
    fetch(site, tmp_path, 1)
    assert site.ranges_of(ONE) == [None, f"bytes={have}-"]
    assert (tmp_path / ONE).read_bytes() == FILES[ONE]


# --- which files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", " ", ",", "1,", "1-", "-3", "a", "1-2-3", "0", "0-3", "7-5", "1.5", "1;2", "1-999999999", "١", "9" * 99],
)
def test_malformed_ranges(text: str) -> None:
    with pytest.raises(ConfigError, match="--files"):
        parse_files(text)


@given(st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 30)), min_size=1, max_size=8))
def test_ranges_are_their_union(pairs: list[tuple[int, int]]) -> None:
    text = ",".join(f"{first}-{first + more}" if more else str(first) for first, more in pairs)
    expected = {first + step for first, more in pairs for step in range(more + 1)}
    assert parse_files(text) == sorted(expected)


# --- the command -------------------------------------------------------------------------------


def command(*arguments: object) -> Any:
    root = typer.Typer(rich_markup_mode=None)
    root.add_typer(download_app, name="download")
    return CliRunner().invoke(root, ["download", "pubmed", *map(str, arguments)])


def test_the_command(site: Site, tmp_path: Path) -> None:
    first = command("--files", "1-2", "--out", tmp_path, "--base-url", site.url + "/")
    assert first.exit_code == 0, first.output
    assert first.stdout == f"{tmp_path}: 2 files, 2 downloaded, 0 that were there already\n"
    second = command("--files", "1220", "--out", tmp_path, "--base-url", site.url, "--updates")
    assert second.stdout.startswith(f"{tmp_path}: 1 files, 1 downloaded")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--files", "7-5"),
        *(("--base-url", url) for url in ("", "ftp://x", "http://", "http://h:port", "http://h/a b", "http://ä")),
    ],
)
def test_the_command_refuses(tmp_path: Path, option: str, value: str) -> None:
    options = {"--files": "1", "--base-url": "http://127.0.0.1:9", option: value}
    done = command("--out", tmp_path / "out", *(word for pair in options.items() for word in pair))
    assert isinstance(done.exception, ConfigError)
    assert option in str(done.exception)
    assert not (tmp_path / "out").exists()
