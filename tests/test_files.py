"""Reading lines and blocks: nothing lost, and the right line number for what is wrong."""

from __future__ import annotations

import gzip
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.errors import InputError, Place
from kriss.files import SHOWN, BadRows, find_line, open_bytes, read_blocks, read_lines
from kriss.names import clean


def lines_of(path: Path) -> list[tuple[int, str]]:
    return list(read_lines(path, BadRows(skip=False)))


@settings(max_examples=60)
@given(content=st.binary(min_size=1, max_size=60).filter(lambda raw: raw[:2] != b"\x1f\x8b"), size=st.integers(1, 9))
def test_blocks_are_whole_lines_and_lose_nothing(tmp_path: Path, content: bytes, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    blocks = list(read_blocks(path, size))
    assert b"".join(blocks) == content
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert all(blocks)
    path.write_bytes(gzip.compress(content))
    assert b"".join(read_blocks(path, size)) == content


text_lines = st.lists(st.text(st.characters(exclude_characters="\n\r\0\ufeff", exclude_categories=["Cs"]), max_size=8))


@settings(max_examples=60)
@given(lines=text_lines.filter(any), end=st.sampled_from(["\n", "\r\n"]), bom=st.booleans(), last=st.booleans())
def test_lines_keep_text_and_number(tmp_path: Path, lines: list[str], end: str, bom: bool, last: bool) -> None:
    path = tmp_path / "file"
    text = end.join(lines) + (end if last or not lines[-1] else "")
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())
    assert lines_of(path) == list(enumerate(lines, start=1))


def test_gzip_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "plain.gz").write_bytes(b"a\nb\n")
    (tmp_path / "packed.txt").write_bytes(gzip.compress(b"a\nb\n"))
    assert lines_of(tmp_path / "plain.gz") == lines_of(tmp_path / "packed.txt") == [(1, "a"), (2, "b")]


def test_bad_lines_stop_or_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"good\nb\xe9d\nn\0l\nfine")
    with pytest.raises(InputError, match=r"file:2: byte 2 of the line is not UTF-8.*--skip-bad-rows") as caught:
        lines_of(path)
    assert caught.value.place == Place(path, 2)
    bad = BadRows(skip=True)
    assert list(read_lines(path, bad)) == [(1, "good"), (4, "fine")]
    assert bad.count == 2
    assert "file:3: the line holds a NUL byte" in str(bad.shown[1])


def test_only_the_first_bad_rows_are_shown() -> None:
    bad = BadRows(skip=True)
    for number in range(1, 100):
        bad.report("bad", Place(Path("f"), number))
    assert bad.count == 99
    assert bad.shown == [f"f:{number}: bad" for number in range(1, SHOWN + 1)]


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="empty: the file is empty"):
        open_bytes(tmp_path / "empty")
    with pytest.raises(InputError, match="no such file"):
        open_bytes(tmp_path / "missing")
    with pytest.raises(InputError, match="folder"):
        open_bytes(tmp_path)


def test_damaged_gzip(tmp_path: Path) -> None:
    packed = gzip.compress(b"line\n" * 10_000)
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=r"cut\.gz: the gzip file is truncated"):
        lines_of(tmp_path / "cut.gz")
    (tmp_path / "bad.gz").write_bytes(packed[:20] + b"????" + packed[24:])
    with pytest.raises(InputError, match=r"bad\.gz: the gzip file is damaged"):
        lines_of(tmp_path / "bad.gz")
    (tmp_path / "crc.gz").write_bytes(packed[:-8] + b"\0\0\0\0" + packed[-4:])
    with pytest.raises(InputError, match=r"crc\.gz: the gzip file is damaged"):
        lines_of(tmp_path / "crc.gz")
    (tmp_path / "tail.gz").write_bytes(packed + b"rubbish")
    with pytest.raises(InputError, match=r"tail\.gz: the gzip file is truncated"):
        lines_of(tmp_path / "tail.gz")
    (tmp_path / "head.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(InputError, match=r"head\.gz: the gzip file is truncated"):
        lines_of(tmp_path / "head.gz")


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_is_read_whole_whatever_comes_first(tmp_path: Path, *, packed: bool) -> None:
    content = gzip.compress(b"line\n" * 9) if packed else b"line\n" * 9
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as stream:
            stream.write(content[:1])
            time.sleep(0.2)
            stream.write(content[1:])

    with ThreadPoolExecutor(1) as writer:
        writer.submit(write)
        assert lines_of(pipe) == [(number, "line") for number in range(1, 10)]


def test_find_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\nb\na\nc")
    assert find_line(tmp_path / "file", lambda line: line == b"a") == 1
    assert find_line(tmp_path / "file", lambda line: line == b"a", 2) == 3
    assert find_line(tmp_path / "file", lambda line: line == b"c") == 4
    assert find_line(tmp_path / "file", lambda line: line == b"z") is None


def test_clean() -> None:
    assert clean("  a\t b\n\u00a0c ") == "a b c"
    assert clean(" \t") == ""
