"""Standard Workload Format 2.2, plain or gzip: 18 fields a job, -1 for missing, ``;`` comments.

Lines with further fields (the 21-column extension of some MetaCentrum traces) are read too.

Reference: Chapin et al., Benchmarks and Standards for the Evaluation of Parallel Job Schedulers,
JSSPP 1999; https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
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
from wattqueue.formats._aside import aside
from wattqueue.formats._source import line_blocks, shown
from wattqueue.formats.unusable import Unusable
from wattqueue.model.jobs import Floats, Jobs, Labels

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
"""The 18 fields in order, by the names that their columns bear here."""
EXTENSION = ("machines", "queue_name", "request")
"""Fields 19 to 21 where a trace has them: text."""
KEPT = tuple(FIELDS.index(name) for name in FIELDS if name not in {"job_id", "submit_s", "wait_s", "runtime_s"})
BOM = codecs.BOM_UTF8
LARGEST = np.iinfo(np.int32).max
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
PLAIN = bytes(c if c < 0x1C or 0x20 <= c < 0x80 else 0x3F for c in range(256))
"""What numpy would take for blanks beyond ASCII's own becomes a question mark."""
KEY = re.compile(r"([A-Za-z][\w /-]{0,39}):(?:\s+(.*))?$")


class SwfTrace(NamedTuple):
    """What an SWF file holds: usable jobs, rows left out, header comments by key (lines of one key joined)."""

    jobs: Jobs
    unusable: Unusable
    header: dict[str, str]


class _Rows(NamedTuple):
    """Rows as written. Shapes: line (r,), value (r, 18) and text (r, extension fields)."""

    line: NDArray[np.int64]
    value: Floats
    text: list[list[str]]


def read_swf(path: Path, *, default_walltime_s: float | None = None, procs_per_node: int = 1) -> SwfTrace:
    """Read an SWF trace; times stay as written, a missing requested time becomes the default or the runtime.

    A job's size is its requested processors, else those it used; a unit of the machine takes
    ``procs_per_node`` of them. Rows without positive runtime or size are left out and listed.
    Further fields that hold anything stand in ``jobs.extra`` under the names in FIELDS and EXTENSION.

    Raises: InputError naming file and line.
    """
    if procs_per_node < 1:
        raise InputError(f"procs_per_node is {procs_per_node}", mend="it must be at least 1")
    header: dict[str, str] = {}
    blocks: list[_Rows] = []
    for first_line, block in line_blocks(path):
        body, line = (block, first_line) if blocks else _header(block, first_line, header)
        if body.strip():
            rows = _rows(path, body, line)
            if len(rows.line):
                blocks.append(rows)
    if not blocks:
        raise InputError("0 jobs: no line holds one", where=path, mend="is it an SWF trace, and complete?")
    rows = blocks[0] if len(blocks) == 1 else _joined(blocks)
    return _trace(path, rows, header, default_walltime_s, procs_per_node)


def read_header(block: bytes) -> dict[str, str]:
    """Comments ahead of the first job by key, from the first lines of a trace."""
    header: dict[str, str] = {}
    _header(block, 1, header)
    return header


def _header(block: bytes, line: int, header: dict[str, str]) -> tuple[bytes, int]:
    """Take the comments ahead of the first job off a block; returns the rest and the number of its first line."""
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
    found = KEY.match(comment)
    if found:
        key, comment = found[1], (found[2] or "").strip()
    header[key] = f"{header[key]}\n{comment}" if key in header else comment
    return key


def _rows(path: Path, body: bytes, first_line: int) -> _Rows:
    lines = _job_lines(body, first_line)
    if not lines:
        return _Rows(np.empty(0, np.int64), np.empty((0, len(FIELDS))), [])
    try:
        text_only = io.BytesIO(body.translate(PLAIN))
        value = np.loadtxt(text_only, comments=";", usecols=range(len(FIELDS)), ndmin=2, encoding="ascii")
    except ValueError as error:
        raise _explained(path, body, first_line) from error
    if len(value) != len(lines):
        lines = _job_lines(body, first_line, look=True)
    if len(value) != len(lines) or not np.isfinite(value).all():
        raise _explained(path, body, first_line)
    k = lines[0] - first_line
    words = body.split(b"\n", k + 1)[k].split(b";", 1)[0].split(None, len(FIELDS))
    text = _extension(body, lines, first_line) if len(words) > len(FIELDS) else []
    return _Rows(np.asarray(lines, np.int64), value, text)


def _job_lines(body: bytes, first_line: int, *, look: bool = False) -> Sequence[int]:
    """Numbers of the lines that hold a job: all, where nothing hints at blank lines and comments."""
    if not look and b";" not in body:
        return range(first_line, first_line + body.count(b"\n") + (not body.endswith(b"\n")))
    return [line for line, text in enumerate(body.split(b"\n"), first_line) if text.split(b";", 1)[0].strip()]


def _extension(body: bytes, lines: Sequence[int], first_line: int) -> list[list[str]]:
    texts = body.split(b"\n")
    table = []
    for line in lines:
        parts = texts[line - first_line].split(b";", 1)[0].split()[len(FIELDS) :][: len(EXTENSION)]
        words = [part.decode("utf-8", "replace") for part in parts]
        table.append(words + [""] * (len(EXTENSION) - len(words)))
    return table


def _explained(path: Path, body: bytes, first_line: int) -> InputError:
    """The first line that is no SWF job, and why."""
    for line, text in enumerate(body.split(b"\n"), first_line):
        words = text.split(b";", 1)[0].split()
        for i, word in enumerate(words[: len(FIELDS)]):
            if not NUMBER.fullmatch(word) or not np.isfinite(float(word)):
                return InputError(
                    f"field {i + 1} ({FIELDS[i]}) is {shown(word)}, not a number",
                    where=f"{path}:{line}",
                    mend="mend the line; is it an SWF trace?",
                )
        if 0 < len(words) < len(FIELDS):
            return InputError(
                f"{len(words)} fields, an SWF job has {len(FIELDS)}",
                where=f"{path}:{line}",
                mend="write -1 for each missing value; is the file complete?",
            )
    return InputError("is not a text of one job a line", where=f"{path}:{first_line}", mend="is it an SWF trace?")


def _joined(blocks: list[_Rows]) -> _Rows:
    text: list[list[str]] = []
    if any(block.text for block in blocks):
        text = [row for b in blocks for row in (b.text or [[""] * len(EXTENSION)] * len(b.line))]
    return _Rows(np.concatenate([b.line for b in blocks]), np.concatenate([b.value for b in blocks]), text)


def _trace(path: Path, rows: _Rows, header: dict[str, str], default_s: float | None, procs_per_node: int) -> SwfTrace:
    column = dict(zip(FIELDS, rows.value.T, strict=True))
    size = np.where(column["requested_procs"] > 0, column["requested_procs"], column["used_procs"])
    reason = _reasons(column, size)
    good = reason == 0
    ids = _exact(column["job_id"])
    bad = np.flatnonzero(~good)
    unusable = Unusable(rows.line[bad], ids[bad], Labels((reason[bad] - 1).astype(np.int32), REASONS))
    if not good.any():
        raise InputError(
            f"0 usable jobs: none of {len(good)} rows has a positive runtime and size",
            where=path,
            mend=f"line {rows.line[0]}: {REASONS[reason[0] - 1]}",
        )
    keep: Any = slice(None) if good.all() else good
    column = {name: values[keep] for name, values in column.items()}
    missing = column["requested_time_s"] <= 0
    walltime = np.where(missing, np.nan if default_s is None else default_s, column["requested_time_s"])
    start = np.where(column["wait_s"] >= 0, column["submit_s"] + column["wait_s"], np.nan)
    jobs = Jobs.build(
        column["submit_s"],
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
    f"size above {LARGEST}",
)


def _reasons(column: dict[str, Floats], size: Floats) -> NDArray[np.int8]:
    """Per row: 0 usable, else 1 + the first of REASONS that applies."""
    rules = (
        column["runtime_s"] <= 0,
        size <= 0,
        column["submit_s"] < 0,
        size != np.floor(size),
        size > LARGEST,
    )
    reason = np.zeros(len(size), np.int8)
    for i in range(len(rules), 0, -1):
        reason[rules[i - 1]] = i
    return reason


def _extra(column: dict[str, Floats], text: list[list[str]], keep: Any, walltime_missing: bool) -> dict[str, Any]:
    """Fields that the engine does not read, where they hold anything."""
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
    """The same numbers as int64 where all of them are whole."""
    if (np.abs(values) < 2.0**53).all():
        whole = values.astype(np.int64)
        if (whole == values).all():
            return whole
    return np.ascontiguousarray(values)


def _labels(values: Floats) -> Labels:
    """Numbers as names; negative ones are missing."""
    numbers, codes = np.unique(values, return_inverse=True)
    names = ["" if v < 0 else str(v) for v in _exact(numbers).tolist()]
    order = sorted({name for name in names if name})
    place = {name: i for i, name in enumerate(order)} | {"": -1}
    return Labels(np.array([place[name] for name in names], np.int32)[codes], tuple(order))


def write_swf(path: Path, jobs: Jobs, header: dict[str, str] | None = None) -> None:
    """Write jobs as SWF, gzip if the name ends in ``.gz``; what SWF has no field for is lost.

    Ids, users, applications and partitions that are no numbers are numbered from 1. A size is
    written as requested processors unless ``jobs.extra`` still holds the trace's own.

    Raises: OutputError.
    """
    import polars as pl

    columns = _swf_columns(jobs)
    table = pl.DataFrame({name: _exact(np.asarray(columns[name], np.float64)) for name in FIELDS})
    names = [name for name in EXTENSION if name in jobs.extra]
    texts = [pl.Series(name, [_word(v) for v in jobs.extra[name]], pl.String) for name in names]
    body = table.with_columns(texts).write_csv(include_header=False, separator=" ", quote_style="never")
    comments = "".join(
        f"; {key}: {line}\n" for key, text in _full_header(jobs, header or {}).items() for line in text.split("\n")
    )
    data = (comments + body).encode()
    if path.suffix == ".gz":
        import gzip

        data = gzip.compress(data, compresslevel=6, mtime=0)
    with aside(path) as temporary:
        temporary.write_bytes(data)


def _full_header(jobs: Jobs, header: dict[str, str]) -> dict[str, str]:
    full = {"Version": "2.2"} | header
    if jobs.origin != "measured":
        full.setdefault("Note", f"WattQueue: these jobs are {jobs.origin}")
    return full


def _swf_columns(jobs: Jobs) -> dict[str, NDArray[Any]]:
    missing = np.full(len(jobs), -1.0)
    extra = jobs.extra
    columns: dict[str, NDArray[Any]] = {name: np.asarray(extra.get(name, missing)) for name in FIELDS}
    columns["job_id"] = _numbered(jobs.job_id)
    columns["submit_s"], columns["runtime_s"] = jobs.submit_s, jobs.runtime_s
    columns["requested_time_s"] = np.asarray(extra.get("requested_time_s", jobs.walltime_s))
    if "requested_procs" not in extra and "used_procs" not in extra:
        columns["requested_procs"] = jobs.nodes
    if jobs.start_s is not None:
        wait = np.round(jobs.start_s - jobs.submit_s, 6)
        columns["wait_s"] = np.where(np.isnan(wait), -1.0, wait)
    for name in ("user", "app", "partition"):
        label: Labels = getattr(jobs, name)
        table = np.append(_numbered(np.array(label.names, object)), -1)
        columns[name] = table[label.codes]
    return columns


def _numbered(names: NDArray[Any]) -> NDArray[Any]:
    """Names as numbers: their own where all are numbers of 0 or more, else counted from 1."""
    if names.dtype.kind in "iuf":
        return names
    if all(re.fullmatch(r"\d{1,15}(\.\d+)?", str(name)) for name in names):
        return np.array([float(str(name)) for name in names], np.float64)
    return np.arange(1, len(names) + 1, dtype=np.float64)


def _word(value: Any) -> str:
    """A text as one field: no blanks, never empty."""
    return re.sub(r"[\s;]+", "_", str(value)) or "-1"
