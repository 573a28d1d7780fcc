"""Standard Workload Format 2.2, plain or gzip: 18 fields per job, -1 for missing, ``;`` comments.

Lines with further fields (the 21-column extension of some MetaCentrum traces) are read too. numpy reads a block of
lines at once; only where it fails or the counts do not match, the block is searched line by line for the first
error.

Reference: Chapin et al., Benchmarks and Standards for the Evaluation of Parallel Job Schedulers, JSSPP 1999;
https://www.cs.huji.ac.il/labs/parallel/workload/swf.html

Reading: ``line_blocks`` gives blocks of whole lines; ``_header`` takes the comments off the first ones; ``_rows``
parses a block into float64; ``_trace`` decides which rows are jobs and builds the table. Times are not shifted: a
trace whose first job is submitted at 1000 s keeps that number, so that dates can be computed from ``UnixStartTime``.

Writing: ``write_swf`` is the inverse for everything that SWF has a field for. A trace that was read and written again
keeps the fields which the engine does not use, since they travel in ``jobs.extra``.

A malformed line is an error with its number; a well-formed row that no schedule can use (no run time, no size) is
left out with its reason, because most published traces have such rows.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.source import line_blocks, shown
from wattqueue.formats.unusable import Unusable, known, size_and_time_rules
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import LIKELY, NOT, ReadOptions, WorkloadFile, WorkloadFormat
from wattqueue.model.bounds import DURATION_S, TIME_S, UNITS
from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.plain_numbers import is_whole

FIELDS = (
    "job_id",
    "submit_s",
    "wait_s",
    "runtime_s",
    "used_procs",
    "average_cpu_s",
    "used_memory_kb",
    "requested_procs",
    "requested_time_s",
    "requested_memory_kb",
    "status",
    "user",
    "group",
    "app",
    "queue",
    "partition",
    "preceding_job",
    "think_time_s",
)
"""The 18 fields in order, by the names that their columns have here."""
EXTENSION = ("machines", "queue_name", "request")
"""Fields 19 to 21 where a trace has them: text."""
KEPT = tuple(FIELDS.index(name) for name in FIELDS if name not in {"job_id", "submit_s", "wait_s", "runtime_s"})
"""Fields that become columns of ``jobs.extra``."""
BOM = codecs.BOM_UTF8
"""Byte order mark that Windows editors write before the first comment."""
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""A figure as SWF allows it: no hexadecimal, no underscores, no ``nan`` or ``inf``, which Python's float takes."""
PLAIN = bytes(c if c < 0x1C or 0x20 <= c < 0x80 else 0x3F for c in range(256))
"""What numpy would take for blanks beyond ASCII's own becomes a question mark."""
KEY = re.compile(r"([A-Za-z][\w /-]{0,39}):(?:\s+(.*))?$")
"""A header comment ``Key: value``."""


class SwfTrace(NamedTuple):
    """What an SWF file holds: usable jobs, rows left out, header comments by key (lines of one key joined)."""

    jobs: Jobs
    unusable: Unusable
    header: dict[str, str]


class _Rows(NamedTuple):
    """Rows as written. Shapes: line (r,), value (r, 18) and text (r, extension fields).

    ``line`` is counted from 1 over the whole file. ``text`` is empty where the block has no more than 18 fields.
    """

    line: NDArray[np.int64]
    value: Floats
    text: list[list[str]]


def read_swf(path: Path, *, default_walltime_s: float | None = None, procs_per_node: int = 1) -> SwfTrace:
    """Return an SWF trace; times stay as written, a missing requested time becomes the default or the run time.

    A job's size is its requested processors, else those it used; a unit of the machine has ``procs_per_node`` of
    them. Rows without positive run time or size are left out and listed. Further fields that hold anything are in
    ``jobs.extra`` under the names in FIELDS and EXTENSION.

    Raises: InputError naming file and line.
    """
    if procs_per_node < 1:
        raise InputError(f"procs_per_node is {procs_per_node}", hint="it must be at least 1")
    header: dict[str, str] = {}
    blocks: list[_Rows] = []
    for first_line, block in line_blocks(path):
        # The header may be longer than one block, so every block is searched until one has held a job.
        body, line = (block, first_line) if blocks else _header(block, first_line, header)
        if body.strip():
            rows = _rows(path, body, line)
            if len(rows.line):
                blocks.append(rows)
    if not blocks:
        raise InputError("0 jobs: no line holds a job", where=path, hint="is it a complete SWF trace?")
    rows = blocks[0] if len(blocks) == 1 else _joined(blocks)
    return _trace(path, rows, header, default_walltime_s, procs_per_node)


def recognise(file: WorkloadFile) -> int:
    """Return LIKELY for a text that begins with a comment of SWF, or has a long row of numbers.

    11 numbers, fewer than 18, so that a short line is still sent to this reader, whose error counts its fields.
    """
    body = next((line for line in file.lines if not line.lstrip().startswith(";")), "")
    words = [word.encode("utf-8", "replace") for word in body.split()[:11]]
    numbers = len(words) == 11 and all(NUMBER.fullmatch(word) for word in words)
    return LIKELY if numbers or (file.lines[:1] and file.lines[0].lstrip().startswith(";")) else NOT


def read(file: WorkloadFile, options: ReadOptions) -> Workload:
    """Return the workload of a trace. Raises: InputError naming file and line."""
    trace = read_swf(file.path, default_walltime_s=options.default_walltime_s, procs_per_node=options.procs_per_node)
    rows = len(trace.jobs) + len(trace.unusable)
    units = machine_units(trace.header, options.procs_per_node)
    return Workload(trace.jobs, trace.unusable, FORMAT.kind, rows, machine_units=units)


def machine_units(header: dict[str, str], procs_per_node: int = 1) -> int | None:
    """Return the units of the machine that a header states: its processors by the node, else its nodes; None for none.

    Sizes of jobs are processors, so ``MaxProcs`` is preferred (SWF 2.2: both are of the whole system).
    """
    for key, divisor in (("MaxProcs", procs_per_node), ("MaxNodes", 1)):
        stated = header.get(key, "").split()
        if stated and is_whole(stated[0]) and UNITS.low <= int(stated[0]) // divisor <= UNITS.high:
            return int(stated[0]) // divisor
    return None


def read_header(block: bytes) -> dict[str, str]:
    """Return the comments above the first job by key, from the first lines of a trace.

    ``formats.epoch`` needs ``UnixStartTime`` without parsing the jobs.
    """
    header: dict[str, str] = {}
    _header(block, 1, header)
    return header


def _header(block: bytes, line: int, header: dict[str, str]) -> tuple[bytes, int]:
    """Take the comments above the first job off a block; returns the rest and the number of its first line.

    ``header`` is filled in place. Blank lines between comments are skipped; the first line that is neither blank nor
    a comment ends the header. Comments between jobs are not headers and are ignored by ``_rows``.
    """
    begin, key = len(BOM) if block.startswith(BOM) else 0, next(reversed(header), "Note")
    while begin < len(block):
        end = block.find(b"\n", begin) + 1 or len(block)
        text = block[begin:end].strip()
        if text and not text.startswith(b";"):
            break
        comment = text.lstrip(b";").strip().decode("utf-8", "replace")
        if comment:
            key = _keep_comment(header, key, comment)
        begin, line = end, line + 1
    return block[begin:], line


def _keep_comment(header: dict[str, str], key: str, comment: str) -> str:
    """Add a comment to the header; a line without a key continues the one before.

    ``key`` is the key of the comment above. Headers of the Parallel Workloads Archive write long notes as ``; Note:
    text`` followed by lines of text alone. Returns the key that a following line would continue.
    """
    found = KEY.match(comment)
    if found:
        key, comment = found[1], (found[2] or "").strip()
    header[key] = f"{header[key]}\n{comment}" if key in header else comment
    return key


def _rows(path: Path, body: bytes, first_line: int) -> _Rows:
    """Return the rows of a block.

    numpy splits at any blanks and reads all 18 fields as float64, which holds every integer of a trace exactly up
    to 2**53. What it cannot read, and what would change the count of lines, is explained by ``_explained``.

    Raises: InputError naming the first line that is no job.
    """
    lines = _job_lines(body, first_line)
    if not lines:
        return _Rows(np.empty(0, np.int64), np.empty((0, len(FIELDS))), [])
    try:
        # loadtxt takes any Unicode blank for a separator; SWF has ASCII blanks only.
        text_only = io.BytesIO(body.translate(PLAIN))
        value = np.loadtxt(text_only, comments=";", usecols=range(len(FIELDS)), ndmin=2, encoding="ascii")
    except ValueError as error:
        raise _explained(path, body, first_line) from error
    # Blank lines were not looked for at first; if numpy skipped some, the numbers of lines are found the slow way.
    if len(value) != len(lines):
        lines = _job_lines(body, first_line, look=True)
    if len(value) != len(lines) or not np.isfinite(value).all():
        raise _explained(path, body, first_line)
    # The first job decides whether the trace has fields beyond the 18: those columns are text, and need a slow pass
    # over all lines of the block.
    k = lines[0] - first_line
    words = body.split(b"\n", k + 1)[k].split(b";", 1)[0].split(None, len(FIELDS))
    text = _extension(body, lines, first_line) if len(words) > len(FIELDS) else []
    return _Rows(np.asarray(lines, np.int64), value, text)


def _job_lines(body: bytes, first_line: int, *, look: bool = False) -> Sequence[int]:
    """Return the numbers of the lines that hold a job.

    Without a ``;`` in the block, all lines do, and the range costs nothing; ``look`` searches for blank lines when
    the count of rows shows that there are some.
    """
    if not look and b";" not in body:
        return range(first_line, first_line + body.count(b"\n") + (not body.endswith(b"\n")))
    return [line for line, text in enumerate(body.split(b"\n"), first_line) if text.split(b";", 1)[0].strip()]


def _extension(body: bytes, lines: Sequence[int], first_line: int) -> list[list[str]]:
    """Return the words of fields 19 to 21, empty where a line has none.

    Fields beyond 21 are dropped. Bytes that are no UTF-8 become replacement characters instead of an error.
    """
    texts = body.split(b"\n")
    table = []
    for line in lines:
        parts = texts[line - first_line].split(b";", 1)[0].split()[len(FIELDS) :][: len(EXTENSION)]
        words = [part.decode("utf-8", "replace") for part in parts]
        table.append(words + [""] * (len(EXTENSION) - len(words)))
    return table


def _explained(path: Path, body: bytes, first_line: int) -> InputError:
    """Return the error for the first line that is no SWF job.

    This repeats the parsing line by line, which is slow, and is called only when numpy has already failed. A wrong
    field is searched before a short line, since a text in the first field says more about what the file is. If no
    line is at fault, numpy and this search disagree about the form of the text, and the block as a whole is reported.
    """
    for line, text in enumerate(body.split(b"\n"), first_line):
        words = text.split(b";", 1)[0].split()
        for i, word in enumerate(words[: len(FIELDS)]):
            if not NUMBER.fullmatch(word) or not np.isfinite(float(word)):
                return InputError(
                    f"field {i + 1} ({FIELDS[i]}) is {shown(word)}, not a number",
                    where=f"{path}:{line}",
                    hint="correct the line; is it an SWF trace?",
                )
        if 0 < len(words) < len(FIELDS):
            return InputError(
                f"{len(words)} fields, an SWF job has {len(FIELDS)}",
                where=f"{path}:{line}",
                hint="write -1 for each missing value; is the file complete?",
            )
    return InputError("is not a text with one job per line", where=f"{path}:{first_line}", hint="is it an SWF trace?")


def _joined(blocks: list[_Rows]) -> _Rows:
    """Return the rows of all blocks as one table.

    If any block has extension fields, the others are filled with empty texts, so that rows and texts stay aligned.
    """
    text: list[list[str]] = []
    if any(block.text for block in blocks):
        text = [row for b in blocks for row in (b.text or [[""] * len(EXTENSION)] * len(b.line))]
    return _Rows(np.concatenate([b.line for b in blocks]), np.concatenate([b.value for b in blocks]), text)


def _trace(path: Path, rows: _Rows, header: dict[str, str], default_s: float | None, procs_per_node: int) -> SwfTrace:
    """Return the trace of the rows: usable jobs, and the others with their reasons.

    ``default_s`` is the walltime of jobs without one. The start is submission + wait where the trace has a wait.
    """
    column = dict(zip(FIELDS, rows.value.T, strict=True))
    # Schedulers decide by what was requested; many traces have only what was used.
    size = np.where(column["requested_procs"] > 0, column["requested_procs"], column["used_procs"])
    # Reasons are computed on all rows before any is dropped, since line numbers and ids of those are listed.
    reason = _reasons(column, size)
    good = reason == 0
    ids = _exact(column["job_id"])
    bad = np.flatnonzero(~good)
    unusable = Unusable(rows.line[bad], ids[bad], Labels((reason[bad] - 1).astype(np.int32), REASONS))
    if not good.any():
        raise InputError(
            f"0 usable jobs: none of {len(good)} rows has a positive runtime and size",
            where=path,
            hint=f"line {rows.line[0]}: {REASONS[reason[0] - 1]}",
        )
    # A slice gives views; a mask would copy 18 columns of a trace in which nothing is left out.
    keep: Any = slice(None) if good.all() else good
    column = {name: values[keep] for name, values in column.items()}
    # -1 and 0 stand for no requested time, and so does one that no system would grant.
    # See also _extra, which keeps the column as written where this replaced a value.
    missing = ~DURATION_S.holds(column["requested_time_s"])
    walltime = np.where(missing, np.nan if default_s is None else default_s, column["requested_time_s"])
    start = known(np.where(column["wait_s"] >= 0, column["submit_s"] + column["wait_s"], np.nan), TIME_S)
    jobs = Jobs.build(
        column["submit_s"],
        # Whole units: the last unit of a job is not shared with another job.
        np.ceil(size[keep] / procs_per_node),
        column["runtime_s"],
        walltime_s=walltime,
        job_id=ids[keep],
        user=_labels(column["user"]),
        app=_labels(column["app"]),
        partition=_labels(column["partition"]),
        start_s=None if np.isnan(start).all() else start,
        extra=_extra(column, rows.text, keep, bool(missing.any())),
    )
    return SwfTrace(jobs, unusable, header)


REASONS = (
    "no positive runtime",
    "no positive size (neither requested nor used processors)",
    "no submit time",
    "size is not a whole number of processors",
    *(reason for _, reason in size_and_time_rules(*[np.empty(0)] * 3)),
)
"""Why a row is left out.

The texts of the limits come from the same function as the masks, called with empty columns, so the two agree in
number and order.
"""


def _reasons(column: dict[str, Floats], size: Floats) -> NDArray[np.int8]:
    """Return per row: 0 usable, else 1 + the first of REASONS that applies.

    Rules are applied from the last to the first, so that the first that applies is the one which stays. Shape (n,).
    """
    rules = (
        column["runtime_s"] <= 0,
        size <= 0,
        column["submit_s"] < 0,
        size != np.floor(size),
        *(broken for broken, _ in size_and_time_rules(column["submit_s"], column["runtime_s"], size)),
    )
    reason = np.zeros(len(size), np.int8)
    for i in range(len(rules), 0, -1):
        reason[rules[i - 1]] = i
    return reason


def _extra(column: dict[str, Floats], text: list[list[str]], keep: Any, walltime_missing: bool) -> dict[str, Any]:
    """Return fields that the engine does not read, where they hold anything.

    ``keep`` selects the usable rows of ``text``; the columns are selected already. -1 is SWF's mark for a missing
    value, so a column of -1 only is dropped. ``requested_time_s`` is kept only where some are missing: the walltime
    then holds filled-in values, and writing must restore the -1 of the trace.
    """
    extra: dict[str, Any] = {}
    for i in KEPT:
        name = FIELDS[i]
        if name in {"user", "app", "partition"} or (name == "requested_time_s" and not walltime_missing):
            continue
        if name == "requested_time_s" or (column[name] != -1).any():
            extra[name] = _exact(column[name])
    if text:
        table = np.array(text, object)[keep]
        extra.update(zip(EXTENSION, table.T, strict=True))
    return extra


def _exact(values: Floats) -> NDArray[Any]:
    """Return the same numbers as int64 where all of them are whole.

    Above 2**53 float64 has no odd integers, so such a figure may already be rounded and stays a float.
    """
    if (np.abs(values) < 2.0**53).all():
        whole = values.astype(np.int64)
        if (whole == values).all():
            return whole
    return np.ascontiguousarray(values)


def _labels(values: Floats) -> Labels:
    """Return numbers as names; negative ones are missing.

    SWF numbers its users, applications, queues and partitions. They become texts (``"7"``), sorted as texts, so
    that they are treated like the names of any other format.
    """
    numbers, codes = np.unique(values, return_inverse=True)
    names = ["" if v < 0 else str(v) for v in _exact(numbers).tolist()]
    order = sorted({name for name in names if name})
    place = {name: i for i, name in enumerate(order)} | {"": -1}
    return Labels(np.array([place[name] for name in names], np.int32)[codes], tuple(order))


def write_swf(path: Path, jobs: Jobs, header: dict[str, str] | None = None) -> None:
    """Write jobs as SWF, gzip if the name ends in ``.gz``; what SWF has no field for is lost.

    Ids, users, applications and partitions that are no numbers are numbered from 1. A size is written as requested
    processors unless ``jobs.extra`` still holds the trace's own.

    Raises: OutputError.

    The same jobs give identical files: gzip's header has no time, and comments the order of ``header``, the mapping
    that ``read_swf`` returned. A value of several lines becomes comments with the same key, which reads back joined.
    """
    import polars as pl

    from wattqueue.formats.atomic_write import atomic_write

    columns = _swf_columns(jobs)
    table = pl.DataFrame({name: _exact(np.asarray(columns[name], np.float64)) for name in FIELDS})
    names = [name for name in EXTENSION if name in jobs.extra]
    texts = [pl.Series(name, [_word(v) for v in jobs.extra[name]], pl.String) for name in names]
    # One blank between fields and no quotes: SWF knows neither quotes nor empty fields (_word).
    body = table.with_columns(texts).write_csv(include_header=False, separator=" ", quote_style="never")
    comments = "".join(
        f"; {key}: {line}\n" for key, text in _full_header(jobs, header or {}).items() for line in text.split("\n")
    )
    data = (comments + body).encode()
    if path.suffix == ".gz":
        import gzip

        data = gzip.compress(data, compresslevel=6, mtime=0)
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def _full_header(jobs: Jobs, header: dict[str, str]) -> dict[str, str]:
    """Return the header with the version, and with a note where the jobs are not measured.

    Generated jobs must be recognisable in the file itself, since SWF files are passed on without their folder.
    """
    full = {"Version": "2.2"} | header
    if jobs.origin != "measured":
        full.setdefault("Note", f"WattQueue: these jobs are {jobs.origin}")
    return full


def _swf_columns(jobs: Jobs) -> dict[str, NDArray[Any]]:
    """Return the 18 columns of the jobs; fields that a trace brought along are written back unchanged.

    Every column has shape (n,). -1 stands wherever neither the jobs nor ``extra`` have a value.
    """
    missing = np.full(len(jobs), -1.0)
    extra = jobs.extra
    columns: dict[str, NDArray[Any]] = {name: np.asarray(extra.get(name, missing)) for name in FIELDS}
    columns["job_id"] = _numbered(jobs.job_id)
    columns["submit_s"], columns["runtime_s"] = jobs.submit_s, jobs.runtime_s
    columns["requested_time_s"] = np.asarray(extra.get("requested_time_s", jobs.walltime_s))
    # A trace that came from SWF keeps its own columns of sizes, whatever ``procs_per_node`` was.
    if "requested_procs" not in extra and "used_procs" not in extra:
        columns["requested_procs"] = jobs.nodes
    if jobs.start_s is not None:
        # Differences of large floats carry noise below a microsecond, which would fill the file with digits.
        wait = np.round(jobs.start_s - jobs.submit_s, 6)
        columns["wait_s"] = np.where(np.isnan(wait), -1.0, wait)
    for name in ("user", "app", "partition"):
        label: Labels = getattr(jobs, name)
        # Code -1 (no name) indexes the last element, which is SWF's mark for missing.
        table = np.append(_numbered(np.array(label.names, object)), -1)
        columns[name] = table[label.codes]
    return columns


def _numbered(names: NDArray[Any]) -> NDArray[Any]:
    """Return names as numbers: their own where all are numbers of 0 or more, else counted from 1.

    At most 15 digits, so that float64 holds the number exactly. One name that is no number renumbers all of them: a
    mix could give two names the same number.
    """
    if names.dtype.kind in "iuf":
        return names
    if all(re.fullmatch(r"[0-9]{1,15}(\.[0-9]+)?", str(name)) for name in names):
        return np.array([float(str(name)) for name in names], np.float64)
    return np.arange(1, len(names) + 1, dtype=np.float64)


def _word(value: Any) -> str:
    """Return a text as one field: no blanks, never empty.

    A blank would begin a new field, and ``;`` a comment.
    """
    return re.sub(r"[\s;]+", "_", str(value)) or "-1"


FORMAT = WorkloadFormat("swf", "SWF", recognise, read)
