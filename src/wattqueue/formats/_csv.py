"""CSV through polars, with the exact line of whatever is wrong: fast when all is well, slow to explain."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wattqueue.errors import InputError
from wattqueue.formats._source import line_blocks, opened, shown

if TYPE_CHECKING:
    import polars as pl

__all__ = ["NUMBER", "as_numbers", "first_comments", "line_of", "nearest", "read", "records", "shown", "write"]

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FACT = re.compile(r"(\w+)=(\S+)")
CheckColumns = Callable[[str, list[str]], None]


class _Lead(NamedTuple):
    """What stands above the rows: comment lines, commas and ``key=value`` facts in them, column names."""

    comments: int
    commas: int
    facts: dict[str, str]
    names: list[str]


class _Tally(NamedTuple):
    """How often each occurs in a file."""

    commas: int
    quotes: int
    lines: int


def read(path: Path, check: CheckColumns, numbers: Sequence[str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """Columns of ``numbers`` as Float64 with gaps as NaN, all others as text; and the comments' facts.

    Raises: InputError naming file, line and column.
    """
    import polars as pl

    tally = _tally(path)
    lead = _lead(path)
    check(f"{path}:{lead.comments + 1}", lead.names)
    plain = tally == ((tally.lines - lead.comments) * (len(lead.names) - 1) + lead.commas, 0, tally.lines)
    if not plain:
        _explain(path, lead, numbers)
    present = [name for name in numbers if name in lead.names]
    try:
        with opened(path) as source:
            packed = isinstance(source, gzip.GzipFile)
            frame = pl.read_csv(
                source.read() if packed else path,
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
        raise InputError(f"cannot be read as CSV: {reason}", where=path, mend="is it UTF-8 text?") from error
    if not plain:  # blank lines come as rows of gaps; a row of commas alone was refused
        frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    for name in present:
        if frame[name].is_nan().any():
            _explain(path, lead, numbers)
    return frame.with_columns(pl.col(name).fill_null(float("nan")) for name in present), lead.facts


def write(temporary: Path, frame: pl.DataFrame, what: str, facts: dict[str, str], *, packed: bool = False) -> None:
    """A comment line with the facts, then the table; whole float columns are written without ``.0``."""
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
    """The float columns that hold whole numbers alone, as integers."""
    import polars as pl

    found = []
    for name, kind in frame.schema.items():
        if kind == pl.Float64:
            column = frame[name]
            limit = column.abs().max()
            if isinstance(limit, float) and limit < 2**53 and (column == column.floor()).all():
                found.append(column.cast(pl.Int64))
    return found


def as_numbers(text: pl.Series) -> pl.Series:
    """A text column as integers or floats where it says nothing else and would be written the same."""
    import polars as pl

    given = text.len() - text.null_count()
    whole = text.cast(pl.Int64, strict=False)
    if given and whole.len() - whole.null_count() == given:
        return whole if (whole.cast(pl.String) == text).all() else text
    real = text.cast(pl.Float64, strict=False)
    plain = text.str.contains(r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$").all()
    return real if given and plain and real.len() - real.null_count() == given else text


def line_of(path: Path, row: int) -> int:
    """The line on which a row (from 0) begins."""
    end = 0
    for i, (number, _) in enumerate(records(path, _lead(path).comments)):
        if i == row + 1:
            return number
        end = number
    return end


def nearest(name: str, names: Iterable[str]) -> str:
    """``did you mean X? `` for a name that is close to one of ``names``, else nothing."""
    close = difflib.get_close_matches(name, list(names), 1, 0.6)
    return f"did you mean {close[0]}? " if close else ""


def _tally(path: Path) -> _Tally:
    """Count what tells a ragged or quoted file from a plain one; reads it once, in bounded memory."""
    commas = quotes = lines = 0
    for _, block in line_blocks(path):
        commas += block.count(b",")
        quotes += block.count(b'"')
        lines += block.count(b"\n") + (not block.endswith(b"\n"))
    return _Tally(commas, quotes, lines)


def _lead(path: Path) -> _Lead:
    comments, commas, facts = 0, 0, dict[str, str]()
    with opened(path) as source:
        for raw in source:
            text = raw.decode("utf-8-sig", "replace")
            if not text.startswith("#"):
                return _Lead(comments, commas, facts, _names(path, comments + 1, text))
            facts.update(FACT.findall(text))
            comments, commas = comments + 1, commas + text.count(",")
    raise InputError("the file is empty", where=path, mend="write the column names, then one row a line")


def _names(path: Path, line: int, text: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([text.rstrip("\r\n")]), [])]
    except csv.Error as error:
        raise InputError("holds no column names", where=f"{path}:{line}", mend="is it CSV?") from error


def first_comments(path: Path) -> int:
    """How many lines of comment stand above the column names."""
    return _lead(path).comments


def records(path: Path, comments: int) -> Iterator[tuple[int, list[str]]]:
    """(line where it begins, fields) of each record from the column names on, blank lines left out."""
    with opened(path) as source:
        text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="")
        for _ in range(comments):
            text.readline()
        reader = csv.reader(text, strict=True)
        begin = comments + 1
        try:
            for fields in reader:
                if fields:
                    yield begin, fields
                begin = comments + reader.line_num + 1
        except csv.Error as error:
            raise InputError(str(error), where=f"{path}:{begin}", mend="see to quotes and commas") from error


def _explain(path: Path, lead: _Lead, numbers: Sequence[str]) -> None:
    """Raise for the first record that has a field too many or too few, or no number where one must stand."""
    checked = [(i, name) for i, name in enumerate(lead.names) if name in numbers]
    rows = records(path, lead.comments)
    next(rows, None)
    for line, fields in rows:
        if len(fields) != len(lead.names):
            raise InputError(
                f"{len(fields)} fields, {len(lead.names)} columns",
                where=f"{path}:{line}",
                mend="mend the line; is the file complete?",
            )
        if not any(fields):
            raise InputError("an empty row", where=f"{path}:{line}", mend="remove it")
        for i, name in checked:
            if fields[i] and not NUMBER.fullmatch(fields[i]):
                raise InputError(
                    f"column {name} is {shown(fields[i])}, not a number",
                    where=f"{path}:{line}",
                    mend="leave the field empty where a figure is unknown",
                )
