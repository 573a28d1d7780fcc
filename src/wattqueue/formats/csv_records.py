"""Read CSV with polars, and name the exact line of whatever is wrong.

polars reads a large file fast, but accepts ragged rows and does not report lines. Hence two ways through a file:

- the fast way, ``read``: the numbers of commas, quotes and lines are counted once. If they are what a rectangular
  table without quotes has, polars reads it and no row can be ragged;
- the slow way, ``_explain``: the ``csv`` module goes through the file record by record and raises for the first one
  that is wrong. It runs when the counts do not match, when polars fails, or when a number is NaN.

A file may begin with comment lines (``#``) that hold ``key=value`` facts, such as the schema version. The layout that
``write`` produces and ``read`` accepts::

    # wattqueue jobs schema_version=1 origin=measured
    submit_s,nodes,runtime_s,user
    0,4,3600,alice
    60,1,120,

Rules of the dialect: UTF-8 with or without a byte order mark, a comma between fields, a point in decimals, double
quotes around a field that holds a comma, an empty field for an unknown figure. What polars would accept in silence and
is refused here: rows that are longer or shorter than the header, a row of commas alone, the word ``nan``.

Users: the job table (``table``), series of caps and prices (``series``) and the tables of a run folder. Memory: the
fast way holds the table, the slow way one record.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.source import line_blocks, on_disk, opened, shown
from wattqueue.model.plain_numbers import NUMBER

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "NUMBER",
    "as_numbers",
    "first_comments",
    "having",
    "line_of",
    "read",
    "read_facts",
    "records",
    "require_rows",
    "shown",
    "write",
]

FACT = re.compile(r"(\w+)=(\S+)")
"""A ``key=value`` pair in a comment line."""
CheckColumns = Callable[[str, list[str]], None]
"""Called with the place and the column names; raises InputError for names that do not fit."""


class _Lead(NamedTuple):
    """What stands above the rows: comment lines, the commas and ``key=value`` facts in them, and the column names.

    ``comments`` is the number of comment lines, so the column names stand in line ``comments + 1``; ``commas`` are
    those inside the comments, which the count of ``read`` must not take for separators.
    """

    comments: int
    commas: int
    facts: dict[str, str]
    names: list[str]


class _Tally(NamedTuple):
    """How often commas, quotes and line ends occur in a file; a last line without a line end counts as a line."""

    commas: int
    quotes: int
    lines: int


def having(needed: Sequence[str]) -> CheckColumns:
    """Return the check for a table that must have some columns, and may have others."""

    def check(where: str, found: list[str]) -> None:
        """Raise InputError for a column that is not there."""
        lacking = [name for name in needed if name not in found]
        if lacking:
            raise InputError(f"no column {', '.join(lacking)}", where=where, hint=f"header: {','.join(needed)}")

    return check


def read(path: Path, check: CheckColumns, numbers: Sequence[str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the rows of a CSV, plain or gzip, and the facts of its comment lines.

    Columns of ``numbers`` come as Float64 with gaps as NaN, all others as text. ``check`` sees the column names
    before the rows are parsed. Blank lines are left out. One pass counts, a second one reads, in about the time
    of polars alone; only files with quotes or errors are also read record by record.

    Raises: InputError naming file, line and column.
    """
    import polars as pl

    tally = _tally(path)
    lead = _lead(path)
    check(f"{path}:{lead.comments + 1}", lead.names)
    # What a rectangular table without quotes has: one comma fewer than columns in each line below the comments.
    plain = tally == ((tally.lines - lead.comments) * (len(lead.names) - 1) + lead.commas, 0, tally.lines)
    if not plain:
        _explain(path, lead, numbers)
    present = [name for name in numbers if name in lead.names]
    # polars reads a plain file by its name, with several threads; it gets gzip as decompressed bytes. ``glob`` is off
    # because a file name may contain [ or *, ``infer_schema`` because ids such as 007 must stay text.
    try:
        with opened(path) as source:
            packed = isinstance(source, gzip.GzipFile)
            frame = pl.read_csv(
                source.read() if packed else on_disk(path),
                skip_lines=lead.comments,
                has_header=True,
                new_columns=lead.names,
                schema_overrides=dict.fromkeys(present, pl.Float64),
                infer_schema=False,
                glob=False,
            )
    except pl.exceptions.PolarsError as error:
        _explain(path, lead, numbers)
        reason = (str(error).splitlines() or ["unknown"])[0]
        raise InputError(f"cannot be read as CSV: {reason}", where=path, hint="is it UTF-8 text?") from error
    if not plain:  # blank lines come as rows of gaps; a row of commas alone was refused
        frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    for name in present:
        # The word NaN is no figure; a gap is an empty field.
        if frame[name].is_nan().any():
            _explain(path, lead, numbers)
    return frame.with_columns(pl.col(name).fill_null(float("nan")) for name in present), lead.facts


def write(temporary: Path, frame: pl.DataFrame, what: str, facts: dict[str, str], *, packed: bool = False) -> None:
    """Write a comment line with the facts, then the table; float columns of whole numbers are written without ``.0``.

    ``temporary`` is the path that ``atomic_write`` yields, ``what`` the words at the beginning of the comment line.
    With ``packed``, the output is gzip with a fixed time stamp, so that the same table gives identical files.
    """
    lead = f"# {what} {' '.join(f'{k}={v}' for k, v in facts.items())}\n".encode()
    body = frame.with_columns(whole_as_integers(frame))
    if packed:
        buffer = io.BytesIO()
        body.write_csv(buffer)
        temporary.write_bytes(gzip.compress(lead + buffer.getvalue(), compresslevel=6, mtime=0))
        return
    with temporary.open("wb") as out:
        out.write(lead)
        body.write_csv(out)


def whole_as_integers(frame: pl.DataFrame) -> list[pl.Series]:
    """Return the float columns that hold whole numbers only, as integers; above 2**53 float64 is no longer exact.

    Gaps stay gaps. The caller replaces each column of the result in its table; other columns are not returned.
    """
    import polars as pl

    found = []
    for name, kind in frame.schema.items():
        if kind == pl.Float64:
            column = frame[name]
            limit = column.abs().max()  # None for a column of gaps alone, which stays float
            if isinstance(limit, float) and limit < 2**53 and (column == column.floor()).all():
                found.append(column.cast(pl.Int64))
    return found


def as_numbers(text: pl.Series) -> pl.Series:
    """Return a text column as integers or floats if each value would be written the same again, else as it is.

    ``007`` stays text, since it would come back as ``7``: ids are not changed by reading and writing them. A column is
    converted as a whole or not at all; gaps are ignored, and a column of gaps alone stays text.
    """
    import polars as pl

    given = text.len() - text.null_count()
    whole = text.cast(pl.Int64, strict=False)
    if given and whole.len() - whole.null_count() == given:
        return whole if (whole.cast(pl.String) == text).all() else text
    real = text.cast(pl.Float64, strict=False)
    plain = text.str.contains(r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$").all()
    return real if given and plain and real.len() - real.null_count() == given else text


def line_of(path: Path, row: int) -> int:
    """Return the line on which a row (counted from 0) begins.

    Reads the file again up to that row, which is done only for an error. A quoted field may contain line ends and blank
    lines are skipped, so the line does not follow from the row number. A row beyond the end gives the last row's line.
    """
    end = 0
    for i, (number, _) in enumerate(records(path, _lead(path).comments)):
        if i == row + 1:  # record 0 holds the column names
            return number
        end = number
    return end


def require_rows(path: Path, good: NDArray[np.bool_], what: str, hint: str = "leave the row out") -> None:
    """Raise InputError with the line of the first row that is not good. Shape (n,)."""
    if not good.all():
        raise InputError(what, where=f"{path}:{line_of(path, int(np.argmin(good)))}", hint=hint)


def _tally(path: Path) -> _Tally:
    """Count what distinguishes a ragged or quoted file from a rectangular one; one pass in bounded memory."""
    commas = quotes = lines = 0
    for _, block in line_blocks(path):
        commas += block.count(b",")
        quotes += block.count(b'"')
        # Only the last block may end without a line end; its last line counts as well.
        lines += block.count(b"\n") + (not block.endswith(b"\n"))
    return _Tally(commas, quotes, lines)


def _lead(path: Path) -> _Lead:
    """Read the comment lines and the column names. Raises: InputError for a file with neither."""
    comments, commas, facts = 0, 0, dict[str, str]()
    with opened(path) as source:
        for raw in source:
            text = raw.decode("utf-8-sig", "replace")
            if not text.startswith("#"):  # the first line that is no comment holds the names
                return _Lead(comments, commas, facts, _names(path, comments + 1, text))
            facts.update(FACT.findall(text))
            comments, commas = comments + 1, commas + text.count(",")
    raise InputError("the file is empty", where=path, hint="write the column names, then one row a line")


def _names(path: Path, line: int, text: str) -> list[str]:
    """Return the column names of a header line, without blanks around them. Raises: InputError where it is not CSV."""
    try:
        return [name.strip() for name in next(csv.reader([text.rstrip("\r\n")]), [])]
    except csv.Error as error:
        raise InputError("holds no column names", where=f"{path}:{line}", hint="is it CSV?") from error


def first_comments(path: Path) -> int:
    """Return the number of comment lines above the column names, for callers that use ``records`` alone."""
    return _lead(path).comments


def read_facts(path: Path) -> dict[str, str]:
    """Return the ``key=value`` facts of the comment lines, for callers that use ``records`` alone."""
    return _lead(path).facts


def records(path: Path, comments: int) -> Iterator[tuple[int, list[str]]]:
    """Yield (line where it begins, fields) of each record from the column names on; blank lines are left out.

    ``comments`` is the number of lines to skip. Bytes that are no UTF-8 are replaced, so that the place of an error can
    still be found in such a file.

    Raises: InputError for an unclosed quote and the like.
    """
    with opened(path) as source:
        text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="")
        for _ in range(comments):
            text.readline()
        # Without ``strict``, an unclosed quote would take the rest of the file as one field.
        reader = csv.reader(text, strict=True)
        begin = comments + 1
        try:
            for fields in reader:
                if fields:
                    yield begin, fields
                # ``line_num`` counts physical lines below the comments: a quoted field may span several.
                begin = comments + reader.line_num + 1
        except csv.Error as error:
            raise InputError(str(error), where=f"{path}:{begin}", hint="check quotes and commas") from error


def _explain(path: Path, lead: _Lead, numbers: Sequence[str]) -> None:
    """Raise for the first record with a field too many or too few, or without a number where one must stand.

    Returns without an error if every record is fine: the caller's suspicion had another cause, such as quotes.
    """
    checked = [(i, name) for i, name in enumerate(lead.names) if name in numbers]
    rows = records(path, lead.comments)
    next(rows, None)  # the column names
    for line, fields in rows:
        if len(fields) != len(lead.names):
            raise InputError(
                f"{len(fields)} fields, {len(lead.names)} columns",
                where=f"{path}:{line}",
                hint="correct the line; is the file complete?",
            )
        if not any(fields):
            raise InputError("an empty row", where=f"{path}:{line}", hint="remove it")
        for i, name in checked:
            if fields[i] and not NUMBER.fullmatch(fields[i]):
                raise InputError(
                    f"column {name} is {shown(fields[i])}, not a number",
                    where=f"{path}:{line}",
                    hint="leave the field empty where a figure is unknown",
                )
