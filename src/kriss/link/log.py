"""A write-ahead log: what `append` returned from is on disk, whatever happens next.

What one call appends is one entry, which a reader sees whole or not at all: its length, checksums of
content and length, then for each record a JSON header and a vector. An entry that a crash cut off is at
the end of the file; readers pass over it and the next writer removes it. Anything else that does not
add up is damage, and is said.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kriss.errors import DamagedError

_SUMMED = struct.Struct("<QI")
"""The length of what follows and its checksum."""
_FRAME = struct.Struct("<QII")
"""These two and their own checksum: a length that rotted must not pass for an entry that was cut off."""
_RECORD = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that is logged."""

    header: dict[str, Any]
    vector: NDArray[np.float32]


def append(file: Path, records: Iterable[Record], end: int) -> int:
    """Write records after the first `end` bytes, which are sound, and return where the log ends now.

    When it returns, they are on disk; when it raises, the log is as it was.
    """
    payload = b"".join(map(_pack, records))
    if not payload:
        return end
    summed = _SUMMED.pack(len(payload), crc32(payload))
    data = summed + crc32(summed).to_bytes(4, "little") + payload
    new = not file.exists()
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.ftruncate(descriptor, end)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], end + written)
            os.fsync(descriptor)
            if new:
                sync_folder(file.parent)
        except OSError:
            with suppress(OSError):  # else it stands there cut off, which readers pass over
                os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)
    return end + len(data)


def read(file: Path, start: int) -> tuple[list[Record], int]:
    """Return the records from a place on, and the place where the last sound entry ends."""
    try:
        with file.open("rb") as stream:
            stream.seek(start)
            data = stream.read()
    except FileNotFoundError:
        return [], start
    records: list[Record] = []
    at = 0
    while (payload := _payload(data, at, file, start)) is not None:
        records += _unpack(payload, file, start + at)
        at += _FRAME.size + len(payload)
    return records, start + at


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk: a file that was made or renamed is lost with its name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pack(record: Record) -> bytes:
    header = json.dumps(record.header, ensure_ascii=False).encode("utf-8", "surrogatepass")
    vector = record.vector.astype("<f4").tobytes()
    return _RECORD.pack(len(header), len(vector)) + header + vector


def _payload(data: bytes, at: int, file: Path, start: int) -> bytes | None:
    """Return what an entry holds; None if there is none, or it was not written to its end."""
    if len(data) - at < _FRAME.size:
        return None
    length, checksum, own = _FRAME.unpack_from(data, at)
    if crc32(data[at : at + _SUMMED.size]) == own:
        payload = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(payload) == length and crc32(payload) == checksum:
            return payload
        if at + _FRAME.size + length >= len(data):
            return None
    elif not any(data[at:]):  # the file grew, and the power went before its content came
        return None
    raise DamagedError(
        f"{file} is damaged at byte {start + at:,}; the {start + at:,} bytes before it are sound: "
        f"cut it there (truncate -s {start + at}) to keep what they hold"
    )


def _unpack(payload: bytes, file: Path, at: int) -> Iterator[Record]:
    place = 0
    try:
        while place < len(payload):
            size, width = _RECORD.unpack_from(payload, place)
            first = place + _RECORD.size
            place = first + size + width
            header = json.loads(payload[first : first + size].decode("utf-8", "surrogatepass"))
            yield Record(header, np.frombuffer(payload[first + size : place], dtype="<f4").astype(np.float32))
    except (ValueError, struct.error) as error:
        raise DamagedError(f"{file} holds a record at byte {at:,} that kriss did not write ({error})") from None
