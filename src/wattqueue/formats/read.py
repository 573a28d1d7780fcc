"""Read a workload of any known format, chosen by the content of the file, not by its name.

``read_workload`` is the one entry for every verb that takes a trace: it recognises the format (``sniff``), imports
its reader and calls it with the options that concern it. All readers return a ``Workload`` with the same meaning of
every column, so that nothing after this module depends on the format.

Recognition goes from the surest sign to the weakest: magic bytes, then the names of columns, then the shape of a row.
A wrong guess costs a clear error of the reader; ``--from`` overrides it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats._json import load_json
from wattqueue.formats.source import opened, shown
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload

HEAD_BYTES = 1 << 20
"""How much of a file decides its format.

Bytes. Dumps can begin with long banners, SWF traces with long comments.
"""
FORMATS = ("table", "swf", "sacct", "slurm-json", "batsim", "pm100", "fdata")
"""Names of the formats, as ``--from`` takes them.

Each is also the value of ``Workload.format``, which the summary of an import prints.
"""
KNOWN = (
    "sacct --parsable2 with a header, sacct --json, SWF, Batsim JSON, PM100 or F-DATA Parquet, or our own table "
    "(submit_s, nodes, runtime_s)"
)
"""The formats as errors list them."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a file does not state itself; each reader uses what concerns it.

    ``time_zone``: of times without a zone; ``columns``: of an sacct dump without a header; ``node_watts``: idle and
    maximum watts of a node, which bound energy counters; ``default_walltime_s``: of jobs without a limit;
    ``procs_per_node``: SWF processors per unit; ``queued``: keep jobs that have not ended, with their limit as run
    time.

    Options that do not concern the format of a file are ignored, so that verbs can pass all of them on.
    ``node_watts`` is (idle, maximum) in watts of one node, ``default_walltime_s`` in seconds.
    """

    time_zone: str | None = None
    columns: str | None = None
    node_watts: tuple[float, float] | None = None
    default_walltime_s: float | None = None
    procs_per_node: int = 1
    queued: bool = False


def read_workload(path: Path, options: ReadOptions | None = None, *, kind: str | None = None) -> Workload:
    """Return jobs, rows left out and remarks, from a file of any known format.

    ``kind`` is one of FORMATS and overrides the choice by content; ``options`` holds what the file does not state.
    Readers are imported here, one at a time, since each import costs time and most verbs read one format.

    Raises: InputError naming file and line, or the formats that are known.
    """
    options = options or ReadOptions()
    if kind is not None and kind not in FORMATS:
        raise InputError(f"no format {shown(kind)}", hint=f"use one of {', '.join(FORMATS)}")
    # Naming the columns of a dump without a header says what it is, and such a dump could not be recognised.
    kind = kind or ("sacct" if options.columns else sniff(path))
    if kind == "json":
        return _json(path, options)
    if kind == "sacct":
        from wattqueue.formats.slurm.sacct import read_sacct

        return read_sacct(
            path,
            time_zone=options.time_zone,
            columns=options.columns,
            node_watts=options.node_watts,
            default_walltime_s=options.default_walltime_s,
            queued=options.queued,
        )
    if kind == "pm100":
        from wattqueue.formats.pm100.jobs import read_pm100

        return read_pm100(path, time_zone=options.time_zone, default_walltime_s=options.default_walltime_s)
    if kind == "fdata":
        from wattqueue.formats.fdata import read_fdata

        return read_fdata(path, time_zone=options.time_zone, default_walltime_s=options.default_walltime_s)
    return _text(path, kind, options)


def _json(path: Path, options: ReadOptions) -> Workload:
    """Return the workload of a JSON document: Batsim if it has profiles, else Slurm.

    Both kinds need the whole document, so it is parsed once here. Raises: InputError for a text that is no JSON.
    """
    document = load_json(path)
    if isinstance(document, dict) and "profiles" in document:
        from wattqueue.formats.batsim import batsim_workload

        return batsim_workload(path, document, options.default_walltime_s)
    from wattqueue.formats.slurm.slurm_json import slurm_workload

    return slurm_workload(path, document, options.node_watts, options.default_walltime_s, queued=options.queued)


def _text(path: Path, kind: str, options: ReadOptions) -> Workload:
    """Return the workload of SWF or our own table.

    ``kind`` is as ``read_workload`` takes it; the two kinds of JSON arrive here where the user named one of them, and
    are still told apart by their content. Our table has no unusable rows: it is refused as a whole instead.
    """
    if kind in {"slurm-json", "batsim"}:
        return _json(path, options)
    if kind == "swf":
        from wattqueue.formats.swf import read_swf

        trace = read_swf(path, default_walltime_s=options.default_walltime_s, procs_per_node=options.procs_per_node)
        return Workload(trace.jobs, trace.unusable, "swf", len(trace.jobs) + len(trace.unusable))
    from wattqueue.formats.table.job_table import read_table

    jobs = read_table(path, default_walltime_s=options.default_walltime_s)
    return Workload(jobs, Unusable(), "table", len(jobs))


def sniff(path: Path) -> str:
    """Return which reader a file is for: one of FORMATS, or ``json`` for either kind of JSON.

    Only the first megabyte is looked at, in this order: the magic bytes of Parquet, the byte order mark of UTF-16,
    the first character of JSON, then lines of text (``_sniff_text``). Files that no reader can use, but one of them
    can explain (UTF-16, sacct without a header), are sent to that reader.

    Raises: InputError where no reader fits.
    """
    with opened(path) as source:
        head = source.read(HEAD_BYTES)
    if head[:4] == b"PAR1":
        return _sniff_parquet(path)
    # Windows tools write UTF-16, which would look like a text without any known word.
    if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return "sacct"  # its reader explains UTF-16
    # The megabyte may end within a character; replacing it is harmless, since only words are looked for.
    text = head.decode("utf-8-sig", "replace")
    if text.lstrip()[:1] in {"{", "["}:
        return "json"
    return _sniff_text(path, text.splitlines())


def _sniff_text(path: Path, lines: list[str]) -> str:
    """Return the format of a text by its first lines: our table, then sacct, then SWF.

    ``lines`` are those of the first megabyte, the last of them perhaps cut. Comments of our table begin with ``#``,
    those of SWF with ``;``; a table of ours is recognised by either of its two telling column names, so that a table
    that lacks the other is refused by its reader with the name that is missing.

    Raises: InputError for an empty file, and for a text in no known format.
    """
    from wattqueue.formats.slurm.fields import parse_header

    rows = [line for line in lines if line.strip()]
    if not rows:
        raise InputError("is empty", where=path, hint=f"give {KNOWN}")
    # Our own table may begin with comments; its header is the first line that is none.
    names = {name.strip().strip('"') for name in next((r for r in rows if not r.startswith("#")), "").split(",")}
    if rows[0].startswith("# wattqueue jobs") or {"submit_s", "runtime_s"} & names:
        return "table"
    if any(parse_header(line.encode()) for line in rows if "jobid" in line.lower()):
        return "sacct"
    # SWF has no header: its comments or a long row of numbers give it away. So it comes after the formats with headers.
    body = next((r for r in rows if not r.lstrip().startswith(";")), "")
    if rows[0].lstrip().startswith(";") or _numbers(body.split()) >= 11:
        return "swf"
    # Nothing else is known by now: a separator of sacct or the word JobID somewhere is the best sign that is left.
    if any(mark in body for mark in "|") or "jobid" in body.lower() or any("jobid" in r.lower() for r in rows[:1000]):
        return "sacct"  # without a header, or in aligned columns: its reader gives the hint
    raise InputError("is in no format that can be read here", where=path, hint=f"give {KNOWN}")


def _numbers(words: list[str]) -> int:
    """Return how many words from the first one on are numbers: an SWF row begins with at least 11.

    Fewer than 18, so that a short line is still sent to the reader of SWF, whose error counts its fields.
    """
    count = 0
    for word in words:
        try:
            count += bool(np.isfinite(float(word)))
        except ValueError:
            break
    return count


def _sniff_parquet(path: Path) -> str:
    """Return the format of a Parquet file by its columns.

    A format is recognised if all of its telling columns are there; further ones are allowed.

    Raises: InputError naming some of the columns, for a file that no reader takes.
    """
    from wattqueue.formats._parquet import scan

    names = set(scan(path)[1].names())
    for kind, marks in (
        ("table", {"submit_s", "runtime_s"}),
        ("fdata", {"jid", "adt"}),
        ("pm100", {"submit_time", "num_nodes_alloc"}),
    ):
        if marks <= names:
            return kind
    raise InputError(
        f"a Parquet file with columns {', '.join(sorted(names)[:8])}, which no reader here recognises",
        where=path,
        hint=f"give {KNOWN}",
    )
