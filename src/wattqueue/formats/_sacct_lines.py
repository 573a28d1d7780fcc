"""The lines of an sacct dump: find the header, cut blocks into columns, set odd lines aside."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._sacct_fields import FIELDS, FIGURES, SACCT_LINE, WANTED, Header, parse_header
from wattqueue.formats._source import line_blocks

if TYPE_CHECKING:
    import polars as pl

LONGEST_PREFACE = 8 << 20

FEW = "fewer fields than the header names"
MANY = "more fields than the header names: a separator inside a name?"
CUT = "cut off: the file ends inside this line"
PREFACE = "text before the header"


class Piece(NamedTuple):
    """Consecutive rows under one header, as text: the columns found, by small letters, and ``line``."""

    header: Header
    frame: pl.DataFrame


@dataclass
class Lines:
    """What became of the lines that are no rows: (line, reason) of each that was left out."""

    rejected: list[tuple[int, str]] = field(default_factory=list)
    rows: int = 0
    open_end: bool = False
    """The last line has all its fields but no line end."""


def pieces(path: Path, lines: Lines, given: Header | None = None) -> Iterator[Piece]:
    """The rows of a dump, block by block; headers may repeat, and may change.

    Raises: InputError for a file without a header, or one that is no sacct dump.
    """
    header = given
    preface = 0
    for first_line, block in line_blocks(path):
        _refuse_wide_characters(path, block)
        begin, line = 0, first_line
        for end, found in _headers(block, header):
            if header is not None:
                yield from _piece(header, block[begin:end], line, lines)
            else:
                _set_preface_aside(block[begin:end], line, lines)
            header = found
            next_begin = block.find(b"\n", end) + 1 or len(block)
            line += block.count(b"\n", begin, next_begin)
            begin = next_begin
        if header is None:
            preface += len(block)
            if preface >= LONGEST_PREFACE:
                break
            _set_preface_aside(block[begin:], line, lines)
        else:
            yield from _piece(header, block[begin:], line, lines)
    if header is None:
        raise _headerless(path)


def _headers(block: bytes, header: Header | None) -> list[tuple[int, Header]]:
    """Where header lines begin in a block."""
    found: list[tuple[int, Header]] = []
    place = 0
    word = _word(header)
    haystack = block if header is not None else block.lower()
    while (at := haystack.find(word, place)) >= 0:
        begin = block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at) + 1 or len(block)
        parsed = parse_header(block[begin:end])
        if parsed:
            found.append((begin, parsed))
            if haystack is not block:
                haystack, word = block, _word(parsed)
        place = end
    return found


def _word(header: Header | None) -> bytes:
    """How this dump writes "JobID"."""
    if header is None:
        return b"jobid"
    at = header.raw.lower().find(b"jobid")
    return header.raw[at : at + 5] if at >= 0 else b"JobID"


def _set_preface_aside(text: bytes, line: int, lines: Lines) -> None:
    lines.rejected += [(line + i, PREFACE) for i, row in enumerate(text.split(b"\n")) if row.strip()]


def _piece(header: Header, body: bytes, line: int, lines: Lines) -> Iterator[Piece]:
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n")
    if not body.strip():
        return
    cut_off = not body.endswith(b"\n")
    buffer = np.frombuffer(body + b"\n" * cut_off, np.uint8)
    ends = np.flatnonzero(buffer == ord("\n"))
    size = np.diff(ends, prepend=-1)
    count = np.diff(np.searchsorted(np.flatnonzero(buffer == ord(header.delimiter)), ends), prepend=0)
    wide = len(header.names)
    # --parsable ends every line with a separator, its header, too; without a header, most lines decide.
    most = bool((count == wide).sum() > (count == wide - 1).sum())
    closed = header.raw.endswith(header.delimiter.encode()) if header.raw else most
    regular = count == wide - 1 + closed
    if header.delimiter != "|" and b'"' in body:
        regular[:] = False
    number = np.arange(line, line + len(ends), dtype=np.int64)
    text = body if regular.all() else buffer[np.repeat(regular, size)].tobytes()
    frame = _table(header, text, number[regular])
    odd = [(int(number[i]), bytes(buffer[ends[i] - size[i] + 1 : ends[i]])) for i in np.flatnonzero(~regular)]
    mended = [
        (n, row) for n, t in odd if t.strip() and (row := _mended(header, n, t, lines, closed=closed)) is not None
    ]
    if mended:
        frame = _merged(header, frame, mended)
    if cut_off:
        lines.open_end = bool(regular[-1])
        lines.rejected = [(n, CUT if n == number[-1] and why == FEW else why) for n, why in lines.rejected]
    lines.rows += len(frame)
    if len(frame):
        yield Piece(header, frame)


def _table(header: Header, text: bytes, number: NDArray[np.int64]) -> pl.DataFrame:
    """Lines of the right shape as columns of text; empty fields are null."""
    import polars as pl

    wanted = [i for i, name in enumerate(header.names) if name in WANTED and name not in header.names[:i]]
    names = [header.names[i] for i in wanted]
    if not len(number):
        return _rows(names, [], [])
    try:
        frame = pl.read_csv(
            text,
            separator=header.delimiter,
            has_header=False,
            infer_schema=False,
            quote_char=None,
            encoding="utf8-lossy",
            columns=wanted,
        )
    except pl.exceptions.PolarsError:
        frame = pl.DataFrame()
    if len(frame) != len(number):
        table = [t.decode("utf-8", "replace").split(header.delimiter) for t in text.splitlines()]
        return _rows(names, number.tolist(), [[row[i] for i in wanted] for row in table])
    frame.columns = names
    return frame.with_columns(line=pl.Series(number))


def _rows(names: Sequence[str], number: Sequence[int], rows: Sequence[Sequence[str]]) -> pl.DataFrame:
    import polars as pl

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    table: dict[str, Any] = {
        name: pl.Series([v or None for v in column], dtype=pl.String)
        for name, column in zip(names, columns, strict=True)
    }
    return pl.DataFrame(table | {"line": np.asarray(number, np.int64)})


def _mended(header: Header, number: int, text: bytes, lines: Lines, *, closed: bool) -> list[str] | None:
    """The fields of a line with another count of separators than most, if they can be told; else rejected."""
    decoded = text.decode("utf-8", "replace").rstrip("\r")
    if header.delimiter != "|" and '"' in decoded:
        row = next(csv.reader([decoded], delimiter=header.delimiter), [])
    else:
        row = decoded.split(header.delimiter)
    wide = len(header.names)
    if closed and len(row) > wide and not row[-1]:
        row.pop()
    surplus = len(row) - wide
    place = header.free_text
    if surplus > 0 and place is not None:
        row[place : place + surplus + 1] = [header.delimiter.join(row[place : place + surplus + 1])]
    if len(row) == wide and (surplus <= 0 or _fits(header, row)):
        return row
    lines.rejected.append((number, FEW if surplus < 0 else MANY))
    return None


def _fits(header: Header, row: list[str]) -> bool:
    """Whether times and durations stand where the header has them, after a name was put together again."""
    figures = [v for name, v in zip(header.names, row, strict=True) if name in FIGURES and v]
    return all(v[0].isdigit() or v.lower() in {"unknown", "none"} for v in figures)


def _merged(header: Header, frame: pl.DataFrame, mended: list[tuple[int, list[str]]]) -> pl.DataFrame:
    """Rows read one by one, back at their places among the others."""
    import polars as pl

    names = [name for name in frame.columns if name != "line"]
    place = [header.names.index(name) for name in names]
    rows = _rows(names, [n for n, _ in mended], [[row[i] for i in place] for _, row in mended])
    return pl.concat([frame, rows]).sort("line")


def _refuse_wide_characters(path: Path, block: bytes) -> None:
    if block[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise InputError(
            "is written in UTF-16", where=path, mend="convert it: iconv -f UTF-16 -t UTF-8 (PowerShell writes UTF-16)"
        )


def _headerless(path: Path) -> InputError:
    """Why a file has no header that this reader knows."""
    first = next((block for _, block in line_blocks(path)), b"")
    rows = [line.decode("utf-8", "replace") for line in first[:1_000_000].splitlines() if line.strip()]
    if any("jobid" in row.lower() and len(set(row.lower().split()) & FIELDS) >= 2 for row in rows):
        return InputError(
            "is an sacct table in aligned columns, which cut values short",
            where=path,
            mend="run sacct with --parsable2",
        )
    if rows and re.match(r"\d+(_\d+|\+\d+)?(\.\w+)?\s*[|,;\t^~]", rows[0]):
        return InputError(
            "the rows have no header",
            where=f"{path}:1",
            mend="run sacct without --noheader, or name the columns: --columns JobID,User,... as given to --format",
        )
    return InputError("no line names the columns of an sacct dump", where=path, mend=f"make one with: {SACCT_LINE}")
