"""Open an input file, plain or gzip, and hand it on in bounded pieces."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from wattqueue.errors import InputError

BLOCK_BYTES = 8 << 20
MAX_LINE_BYTES = 4 << 20
"""No trace has a longer line; a file that has one is something else, and is not read into memory."""
GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if it is gzip (by its first bytes, not by its name).

    Raises: InputError for a file that is missing, a directory, unreadable, truncated or corrupt.
    """
    try:
        with path.open("rb") as raw:
            if raw.peek(2)[:2] != GZIP_MAGIC:
                yield raw
                return
            with gzip.open(raw) as plain:
                yield cast("IO[bytes]", plain)
    except IsADirectoryError as error:
        raise InputError("is a directory, not a file", where=path, mend="name the file itself") from error
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, mend="check the path") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"the gzip file is truncated or corrupt ({error})", where=path, mend="fetch or compress it again"
        ) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from error


def line_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines in blocks of about 8 MB, each with the number of its first line (from 1).

    Raises: InputError as ``opened`` does, and for a line of more than 4 MiB.
    """
    line, rest = 1, b""
    with opened(path) as source:
        while piece := source.read(BLOCK_BYTES):
            cut = piece.rfind(b"\n") + 1
            if not cut:
                rest += piece
                _refuse_long(path, line, rest)
                continue
            _refuse_long(path, line, rest)
            block = rest + piece[:cut]
            rest = piece[cut:]
            yield line, block
            line += block.count(b"\n")
        _refuse_long(path, line, rest)
        if rest:
            yield line, rest


def _refuse_long(path: Path, line: int, text: bytes) -> None:
    if len(text) > MAX_LINE_BYTES:
        raise InputError(
            f"a line of more than {MAX_LINE_BYTES >> 20} MiB",
            where=f"{path}:{line}",
            mend="is this a text file with a job a line?",
        )


def refuse_long_lines(path: Path) -> None:
    """Read a text file once in bounded memory, for the sake of readers that would swallow any line."""
    for _ in line_blocks(path):
        pass


def sha256_of(path: Path) -> str:
    """SHA-256 of the file as it lies on disk, in hexadecimal."""
    try:
        with path.open("rb") as raw:
            return hashlib.file_digest(raw, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from error


def shown(text: str | bytes, width: int = 40) -> str:
    """A value as an error may quote it: short, on one line, no control characters."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return repr(text if len(text) <= width else text[:width] + "…")
