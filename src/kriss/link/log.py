"""A write-ahead log: what `append` returned from is on disk, whatever happens next.

A record is its length, a checksum, a JSON header and a vector. A record that a crash cut off is at the
end of the file; readers pass over it and the next writer removes it. Anything else that does not add
up is damage, and is said.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kriss.errors import DamagedError

_FRAME = Struct("<II")
_HEADER = Struct("<I")


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the log."""

    header: dict[str, Any]
    vector: NDArray[np.float32]


def append(file: Path, records: Iterable[Record], end: int) -> int:
    """Write records after the first `end` bytes, which are sound, and return where the log ends now.

    When it returns, they are on disk; when it raises, the log is as it was.
    """
    data = b"".join(map(_pack, records))
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.ftruncate(descriptor, end)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], end + written)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)
    return end + len(data)


def read(file: Path, start: int) -> tuple[list[Record], int]:
    """Return the records from a place on, and the place where the last sound one ends."""
    try:
        with file.open("rb") as stream:
            stream.seek(start)
            data = stream.read()
    except FileNotFoundError:
        return [], start
    records: list[Record] = []
    at = 0
    while at < len(data):
        payload = _payload(data, at, file, start)
        if payload is None:
            break
        records.append(_unpack(payload, file, start + at))
        at += _FRAME.size + len(payload)
    return records, start + at


def _pack(record: Record) -> bytes:
    header = json.dumps(record.header, ensure_ascii=False).encode("utf-8", "surrogatepass")
    payload = _HEADER.pack(len(header)) + header + record.vector.astype("<f4").tobytes()
    return _FRAME.pack(len(payload), crc32(payload)) + payload


def _payload(data: bytes, at: int, file: Path, start: int) -> bytes | None:
    """Return what a record holds; None if it was not written to its end."""
    if len(data) - at < _FRAME.size:
        return None
    length, checksum = _FRAME.unpack_from(data, at)
    payload = data[at + _FRAME.size : at + _FRAME.size + length]
    if len(payload) < length or (crc32(payload) != checksum and at + _FRAME.size + length == len(data)):
        return None
    if crc32(payload) != checksum:
        raise DamagedError(
            f"{file} is damaged at byte {start + at:,}; the {start + at:,} bytes before it are sound: "
            f"cut it there (truncate -s {start + at}) to keep what they hold"
        )
    return payload


def _unpack(payload: bytes, file: Path, at: int) -> Record:
    try:
        (length,) = _HEADER.unpack_from(payload)
        header = json.loads(payload[_HEADER.size : _HEADER.size + length].decode("utf-8", "surrogatepass"))
        return Record(header, np.frombuffer(payload[_HEADER.size + length :], dtype="<f4").astype(np.float32))
    except (ValueError, UnicodeDecodeError) as error:
        raise DamagedError(f"{file} holds a record at byte {at:,} that kriss did not write ({error})") from None
