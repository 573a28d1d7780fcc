"""The lines of an sacct dump: find the header, split blocks into columns, handle irregular lines one by one.

Most lines of a block have as many separators as the header, and polars reads them at once. The others are read one
by one: a job name with a separator in it can be put together again if it is the only free text of the dump, and
quoted lines of a converted dump are parsed as CSV. A line that fits in no way is unusable, with its reason, and
counted.

Input is the bytes of a file (``source.line_blocks``), output are ``DumpSection`` frames of text with line numbers;
what the text means is decided later (``columns``, ``rows``). Invariants: each line of the file is in
exactly one section, or in ``Lines.unusable``, or is blank or a header; line numbers are those of the file; rows keep
its order.

Speed matters here, since dumps may be larger than memory. Per regular line only vectorised byte searches and polars'
CSV reader run; Python handles irregular lines, which are rare.
"""

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
from wattqueue.formats.slurm.fields import FIELDS, FIGURES, SACCT_LINE, WANTED, Header, parse_header
from wattqueue.formats.source import line_blocks
from wattqueue.model.plain_numbers import is_whole

if TYPE_CHECKING:
    import polars as pl

LONGEST_PREFACE = 8 << 20
"""Bytes without a header after which a file is no dump."""

FEW = "fewer fields than the header names"
"""Reason of a short line, often one that a full disk or an interrupted copy cut."""
MANY = "more fields than the header names: a separator inside a name?"
"""Reason of a long line that could not be repaired (``_repaired``)."""
CUT = "cut off: the file ends within this line"
PREFACE = "text before the header"
"""Reason of lines above the first header: a prompt, a banner, a warning of sacct."""


class DumpSection(NamedTuple):
    """Consecutive rows under one header, as text: the columns found, by small letters, and ``line``.

    The frame has the columns of ``WANTED`` that the header names, all of type String with null for empty, and
    ``line`` (int64).
    """

    header: Header
    frame: pl.DataFrame


@dataclass
class Lines:
    """What became of the lines that are no rows: (line, reason) of each one left out, and the number of rows."""

    unusable: list[tuple[int, str]] = field(default_factory=list)
    rows: int = 0
    open_end: bool = False
    """Whether the last line has all its fields but no line end."""


def pieces(path: Path, lines: Lines, given: Header | None = None) -> Iterator[DumpSection]:
    """Yield the rows of a dump, block by block; headers may repeat, and may change.

    ``lines`` collects what is left out. ``given`` is the header of a dump without one. Sites concatenate dumps, so
    each header found applies to the lines below it. Text above the first header (a banner, a prompt) is listed as
    left out.

    Raises: InputError for a file without a header, or one that is no sacct dump.
    """
    header = given
    preface = 0
    for first_line, block in line_blocks(path):
        # Cheap: it looks at two bytes of each block, of which only the first can have the mark.
        _refuse_wide_characters(path, block)
        begin, line = 0, first_line
        for end, found in _headers(block, header):
            if header is not None:
                yield from _piece(header, block[begin:end], line, lines)
            else:
                _list_preface(block[begin:end], line, lines)
            header = found
            # The header line itself is skipped, and counted as a line.
            next_begin = block.find(b"\n", end) + 1 or len(block)
            line += block.count(b"\n", begin, next_begin)
            begin = next_begin
        if header is None:
            # Without a limit, a huge file of another kind would be listed line by line as unusable before it is
            # refused.
            preface += len(block)
            if preface >= LONGEST_PREFACE:
                break
            _list_preface(block[begin:], line, lines)
        else:
            yield from _piece(header, block[begin:], line, lines)
    if header is None:
        raise _headerless(path)


def _headers(block: bytes, header: Header | None) -> list[tuple[int, Header]]:
    """Return where header lines begin in a block.

    After the first header, only its own spelling of ``JobID`` is searched, which avoids lower-casing every block.

    A job called ``jobid`` is no header: ``parse_header`` decides for each line in which the word occurs. ``header``
    is the one in force, None before the first. Returns (offset in ``block``, header) in order.
    """
    # Searching the bytes for one word is far cheaper than looking at every line.
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
    """Return how this dump writes "JobID".

    Conversions change its case. Repeated headers of one dump are spelt alike, since they come from one command.
    """
    if header is None:
        return b"jobid"
    at = header.raw.lower().find(b"jobid")
    return header.raw[at : at + 5] if at >= 0 else b"JobID"


def _list_preface(text: bytes, line: int, lines: Lines) -> None:
    """List the lines above the header as unusable."""
    lines.unusable += [(line + i, PREFACE) for i, row in enumerate(text.split(b"\n")) if row.strip()]


def _piece(header: Header, body: bytes, line: int, lines: Lines) -> Iterator[DumpSection]:
    """Split the lines of one header into a frame of regular rows, with the repaired ones at their places.

    The separators of each line are counted on the bytes of the block: lines with another number than the header has
    are irregular. polars gets the regular lines only; it would fill up or cut the others in silence. A last line
    without a line end may have been cut off within its last value, which ``lines.open_end`` reports.
    """
    # Files that passed through Windows: the carriage return would become part of the last column.
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n")
    if not body.strip():
        return
    cut_off = not body.endswith(b"\n")
    # Positions of line ends, then the number of separators before each: all by searches in arrays of bytes.
    buffer = np.frombuffer(body + b"\n" * cut_off, np.uint8)
    ends = np.flatnonzero(buffer == ord("\n"))
    size = np.diff(ends, prepend=-1)
    count = np.diff(np.searchsorted(np.flatnonzero(buffer == ord(header.delimiter)), ends), prepend=0)
    wide = len(header.names)
    # --parsable ends every line with a separator, its header, too; without a header, most lines decide.
    most = bool((count == wide).sum() > (count == wide - 1).sum())
    closed = header.raw.endswith(header.delimiter.encode()) if header.raw else most
    regular = count == wide - 1 + closed
    # A dump that was converted to CSV may quote separators, so that counts say nothing: read every line by itself.
    if header.delimiter != "|" and b'"' in body:
        regular[:] = False
    number = np.arange(line, line + len(ends), dtype=np.int64)
    # The usual case copies nothing: a mask over the bytes is made only where a line is irregular.
    text = body if regular.all() else buffer[np.repeat(regular, size)].tobytes()
    frame = _table(header, text, number[regular])
    odd = [(int(number[i]), bytes(buffer[ends[i] - size[i] + 1 : ends[i]])) for i in np.flatnonzero(~regular)]
    repaired = [
        (n, row) for n, t in odd if t.strip() and (row := _repaired(header, n, t, lines, closed=closed)) is not None
    ]
    if repaired:
        frame = _merged(header, frame, repaired)
    if cut_off:
        lines.open_end = bool(regular[-1])
        lines.unusable = [(n, CUT if n == number[-1] and why == FEW else why) for n, why in lines.unusable]
    lines.rows += len(frame)
    if len(frame):
        yield DumpSection(header, frame)


def _table(header: Header, text: bytes, number: NDArray[np.int64]) -> pl.DataFrame:
    """Return lines of the right shape as columns of text; empty fields are null.

    ``text`` are whole lines with exactly the separators of the header, ``number`` their line numbers, shape (n,).
    Quotes have no meaning (``quote_char=None``): sacct does not quote, and a job may be called ``"a``. A column that
    the header names twice is taken from its first place.
    """
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
    # An empty frame has the wrong number of rows, which sends the block to the slow way below.
    except pl.exceptions.PolarsError:
        frame = pl.DataFrame()
    # polars skips lines that it takes for blank; the numbers of lines must stay exact, so such blocks are split here.
    if len(frame) != len(number):
        table = [t.decode("utf-8", "replace").split(header.delimiter) for t in text.splitlines()]
        return _rows(names, number.tolist(), [[row[i] for i in wanted] for row in table])
    frame.columns = names
    return frame.with_columns(line=pl.Series(number))


def _rows(names: Sequence[str], number: Sequence[int], rows: Sequence[Sequence[str]]) -> pl.DataFrame:
    """Return rows of text as a frame with the line numbers.

    ``rows`` has one sequence of fields per row, in the order of ``names``; empty texts become null as polars reads
    them.
    """
    import polars as pl

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    table: dict[str, Any] = {
        name: pl.Series([v or None for v in column], dtype=pl.String)
        for name, column in zip(names, columns, strict=True)
    }
    return pl.DataFrame(table | {"line": np.asarray(number, np.int64)})


def _repaired(header: Header, number: int, text: bytes, lines: Lines, *, closed: bool) -> list[str] | None:
    """Return the fields of an irregular line where they can be recognised, else None and list it as unusable.

    A line with too many fields is repaired if exactly one column is free text: its surplus fields are joined to
    that one, and accepted if times and durations then stand where the header has them.

    Example: with the columns JobID|JobName|Elapsed the line ``7|a|b|00:10:00`` has one field too many and becomes
    ``7``, ``a|b``, ``00:10:00``. ``closed`` says whether lines end with a separator (--parsable). ``number`` is the
    line number for the list of unusable lines.
    """
    decoded = text.decode("utf-8", "replace").rstrip("\r")
    if header.delimiter != "|" and '"' in decoded:
        row = next(csv.reader([decoded], delimiter=header.delimiter), [])
    else:
        row = decoded.split(header.delimiter)
    wide = len(header.names)
    # --parsable ends each line with a separator, which gives one empty field too many.
    if closed and len(row) > wide and not row[-1]:
        row.pop()
    surplus = len(row) - wide
    place = header.free_text
    if surplus > 0 and place is not None:
        row[place : place + surplus + 1] = [header.delimiter.join(row[place : place + surplus + 1])]
    if len(row) == wide and (surplus <= 0 or _fits(header, row)):
        return row
    lines.unusable.append((number, FEW if surplus < 0 else MANY))
    return None


def _fits(header: Header, row: list[str]) -> bool:
    """Return whether times and durations stand where the header has them, after a name was put together again.

    A join at the wrong place would move a word such as a state into a column of times.
    """
    figures = [v for name, v in zip(header.names, row, strict=True) if name in FIGURES and v]
    return all(is_whole(v[0]) or v.lower() in {"unknown", "none"} for v in figures)


def _merged(header: Header, frame: pl.DataFrame, repaired: list[tuple[int, list[str]]]) -> pl.DataFrame:
    """Return the rows that were read one by one, back at their places among the others.

    Order matters: steps are assigned to the job above them (``steps``).
    """
    import polars as pl

    names = [name for name in frame.columns if name != "line"]
    place = [header.names.index(name) for name in names]
    rows = _rows(names, [n for n, _ in repaired], [[row[i] for i in place] for _, row in repaired])
    return pl.concat([frame, rows]).sort("line")


def _refuse_wide_characters(path: Path, block: bytes) -> None:
    """Raise InputError for UTF-16, which PowerShell writes and which has no line that looks like a header."""
    if block[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise InputError(
            "is written in UTF-16", where=path, hint="convert it: iconv -f UTF-16 -t UTF-8 (PowerShell writes UTF-16)"
        )


def _headerless(path: Path) -> InputError:
    """Return the error for a file without a header: aligned columns, --noheader, or no dump at all.

    ``sacct`` prints aligned columns by default, with values cut to the column width; these cannot be read without
    loss. Rows of the right form without names are recognised by a job id and a separator at the start of the first
    line.
    """
    first = next((block for _, block in line_blocks(path)), b"")
    rows = [line.decode("utf-8", "replace") for line in first[:1_000_000].splitlines() if line.strip()]
    if any("jobid" in row.lower() and len(set(row.lower().split()) & FIELDS) >= 2 for row in rows):
        return InputError(
            "is an sacct table in aligned columns, which cut values short",
            where=path,
            hint="run sacct with --parsable2",
        )
    if rows and re.match(r"[0-9]+(_[0-9]+|\+[0-9]+)?(\.\w+)?\s*[|,;\t^~]", rows[0]):
        return InputError(
            "the rows have no header",
            where=f"{path}:1",
            hint="run sacct without --noheader, or name the columns: --columns JobID,User,... as given to --format",
        )
    return InputError("no line names the columns of an sacct dump", where=path, hint=f"make one with: {SACCT_LINE}")
