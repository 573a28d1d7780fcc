"""Open an input file, plain or gzip, and read it in bounded pieces.

Every reader opens its file here, so that a missing file, a directory, a truncated gzip or a pipe is reported in one
way. gzip is recognised by its first bytes, not by the name, since downloads often lose their suffix.

Readers open a file several times (to recognise the format, to count lines, to explain an error), which a pipe does not
allow. So the content of a pipe (``/dev/stdin``, ``<(command)``, a FIFO) is copied to a temporary file once, and every
opening of that path reads the copy. Code that hands a path to another library passes it through ``on_disk`` first.

Three ways to read, all with bounded memory: ``opened`` gives a stream of bytes, ``line_blocks`` whole lines in blocks
with their numbers, ``on_disk`` a path for a library that opens files itself. ``shown`` quotes a value in an error.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from wattqueue.errors import InputError

if TYPE_CHECKING:
    from gzip import GzipFile

BLOCK_BYTES = 8 << 20
"""Size of a block of lines: large enough for polars to be fast, small enough for any machine."""
MAX_LINE_BYTES = 4 << 20
"""No trace has a longer line; a file that has one is something else, and is not read into memory."""
CHECK = "check the path and its permissions"
"""Hint of a file that the operating system does not let us read.

Used for every OSError that has no more specific cause.
"""
LEAST_UNPACKED = 64 << 20
"""Bytes that any gzip file may unpack to."""
MOST_RATIO = 200
"""Beyond ``LEAST_UNPACKED``, how many times its own size a gzip file may unpack to; gzip itself reaches 1,030."""
GZIP_MAGIC = b"\x1f\x8b"
"""First two bytes of every gzip file (RFC 1952)."""


def exists(path: Path) -> bool:
    """Return whether a path exists; False for one that the system cannot have, such as a name of 5,000 letters.

    ``Path.exists`` raises OSError for those, which a text that a user typed must not.
    """
    try:
        return path.exists()
    except OSError:
        return False


def in_folder(name: str, folder: Path) -> str:
    """Return a name in a file of ``folder`` with the folder if it names a file, as it stands if not.

    What follows a colon (a class in a Python file, a row) is kept. A name counts as a file if it exists in the folder,
    or has a suffix that only files have: then a missing file is reported with its folder.
    """
    path, colon, rest = name.partition(":")
    named = path.endswith((".toml", ".py", ".csv", ".gz", ".db"))
    found = named or (exists(folder / path) and (folder / path).is_file())
    return f"{folder / path}{colon}{rest}" if found else name


_spooled: dict[tuple[str, int, int], Path] = {}
"""Copies of pipes by path, device and inode; they are removed when the process ends."""


def on_disk(path: Path) -> Path:
    """Return the path of a regular file with the same content: ``path`` itself, or the copy of a pipe.

    Raises: InputError for a terminal or another device, whose end is unknown, and where the copy cannot be written.

    A path is copied at most once per process; later calls return the same copy. The copy is removed when the process
    ends.
    """
    try:
        status = path.stat()
    except (OSError, ValueError):
        return path  # opening it says what is wrong
    if stat.S_ISFIFO(status.st_mode):
        # Device and inode distinguish two pipes that had the same name one after the other (/dev/fd/63 of two
        # commands).
        key = (str(path), status.st_dev, status.st_ino)
        if key not in _spooled:
            _spooled[key] = _copied(path)
        return _spooled[key]
    # /dev/null is a valid empty file: its reader then reports that it holds no job.
    if stat.S_ISCHR(status.st_mode) and str(path) != os.devnull:
        raise InputError(
            "is a terminal or device, not a file", where=path, hint="name a file, or pipe the data in: command | ..."
        )
    return path


def _copied(pipe: Path) -> Path:
    """Copy a pipe to a temporary file until its writers close it.

    The copy is in the folder of temporary files (TMPDIR), is removed at exit, and may be as large as the data. The
    call blocks until all writers have closed the pipe.

    Raises: InputError where the copy cannot be written.
    """
    import shutil
    import tempfile

    handle, name = tempfile.mkstemp(prefix="wattqueue-", suffix=".input")
    copy = Path(name)
    atexit.register(copy.unlink, missing_ok=True)
    try:
        with os.fdopen(handle, "wb") as out, pipe.open("rb") as source:
            shutil.copyfileobj(source, out)
    except OSError as error:
        raise InputError(
            f"the pipe could not be copied to {copy.parent}: {error.strerror or error}",
            where=pipe,
            hint="check free space, or set TMPDIR",
        ) from error
    return copy


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Yield the bytes of a file, decompressed if it is gzip; a pipe is copied first (``on_disk``).

    Errors of the operating system and of gzip become InputError also while the caller reads, since they are raised
    inside the ``with`` block. So the caller must not open other files inside it.

    Raises: InputError for a file that is missing, a directory, unreadable, truncated or corrupt.

    Example: ``with opened(path) as source: head = source.read(100)``. The stream is binary and read from its
    beginning; it is closed at the end of the block. A terminal is refused (``on_disk``).
    """
    try:
        with on_disk(path).open("rb") as raw:
            # peek leaves the position where it is, so the caller gets the file from its first byte.
            if raw.peek(2)[:2] != GZIP_MAGIC:
                yield raw
                return
            with _unpacked(raw, path) as bounded:
                yield bounded
    except IsADirectoryError as error:
        raise InputError("is a directory, not a file", where=path, hint="name the file itself") from error
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, hint="check the path") from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path, hint=CHECK) from error


@contextmanager
def _unpacked(raw: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    """Yield the content of a gzip file. Raises: InputError for one that is truncated or corrupt."""
    import gzip
    import zlib

    try:
        with gzip.open(raw) as plain, io.BufferedReader(_Bounded(plain, raw, path)) as bounded:
            yield cast("IO[bytes]", bounded)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"the gzip file is truncated or corrupt ({error})", where=path, hint="fetch or compress it again"
        ) from error


class _Bounded(io.RawIOBase):
    """The content of a gzip file, up to a limit that follows from what was read of the file itself.

    A file of 2 MB may hold 2 GB of zeros; traces and tables of text become some 5 to 60 times as long.
    """

    def __init__(self, plain: GzipFile, raw: IO[bytes], path: Path) -> None:
        self._plain, self._raw, self._path, self._count = plain, raw, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        piece = self._plain.read(len(buffer))
        self._count += len(piece)
        if self._count > max(LEAST_UNPACKED, MOST_RATIO * self._raw.tell()):
            raise InputError(
                f"unpacks to more than {MOST_RATIO} times its size",
                where=self._path,
                hint="no trace or table of text does; unpack it yourself if it is one",
            )
        buffer[: len(piece)] = piece
        return len(piece)


def line_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines in blocks of about 8 MB, each with the number of its first line (from 1).

    A block ends at a line end; the last one may not. Readers need the numbers for their errors, and whole lines for
    polars and numpy. Memory is bounded by the block and the longest line.

    Raises: InputError as ``opened`` does, and for a line of more than 4 MiB.
    """
    line, rest = 1, b""
    with opened(path) as source:
        while piece := source.read(BLOCK_BYTES):
            cut = piece.rfind(b"\n") + 1
            # No line end in 8 MB: the line is longer than any trace has, or binary; _refuse_long ends it.
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
    """Raise InputError if a part of a line is already longer than a line may be; ``line`` is its number."""
    if len(text) > MAX_LINE_BYTES:
        raise InputError(
            f"a line of more than {MAX_LINE_BYTES >> 20} MiB",
            where=f"{path}:{line}",
            hint="is this a text file with one job per line?",
        )


def refuse_long_lines(path: Path) -> None:
    """Read a text file once in bounded memory, to protect readers that would take a line of any length.

    Raises: InputError for a line of more than 4 MiB.

    Readers such as ``csv`` collect a whole line before they look at it; on a binary file of gigabytes that would fill
    the memory.
    """
    for _ in line_blocks(path):
        pass


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as it is on disk, in hexadecimal. Raises: InputError where it cannot be read.

    Of the compressed bytes for gzip: it is the identity of the file that a user downloaded. run.toml and campaigns
    record it.
    """
    try:
        with on_disk(path).open("rb") as raw:
            return hashlib.file_digest(raw, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path, hint=CHECK) from error


def shown(text: str | bytes, width: int = 40) -> str:
    """Return a value as an error may quote it: short, on one line, without control characters.

    ``width`` is in characters. ``repr`` makes control characters visible, which could otherwise change a terminal.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return repr(text if len(text) <= width else text[:width] + "…")
