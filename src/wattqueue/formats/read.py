"""Read a workload of any format we know, chosen by what the file holds, not by its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats._json import load_json
from wattqueue.formats._source import opened, shown
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload

HEAD_BYTES = 1 << 20
FORMATS = ("table", "swf", "sacct", "slurm-json", "batsim", "pm100", "fdata")
KNOWN = (
    "sacct --parsable2 with a header, sacct --json, SWF, Batsim JSON, PM100 or F-DATA Parquet, or our own table "
    "(submit_s, nodes, runtime_s)"
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a file does not say of itself; each reader takes what concerns it.

    ``time_zone``: of times without a zone; ``columns``: of an sacct dump without a header;
    ``node_watts``: idle and maximum watts of a node, which bound energy counters; ``queued``: take
    jobs that have not ended, with their limit as run time; ``procs_per_node``: SWF processors a unit.
    """

    time_zone: str | None = None
    columns: str | None = None
    node_watts: tuple[float, float] | None = None
    default_walltime_s: float | None = None
    procs_per_node: int = 1
    queued: bool = False


def read_workload(path: Path, options: ReadOptions | None = None, *, kind: str | None = None) -> Workload:
    """Jobs, rows left out and remarks, from a file of any known format; ``kind`` overrides the choice.

    Raises: InputError naming file and line, or the formats that are known.
    """
    options = options or ReadOptions()
    if kind is not None and kind not in FORMATS:
        raise InputError(f"no format {shown(kind)}", mend=f"use one of {', '.join(FORMATS)}")
    kind = kind or ("sacct" if options.columns else sniff(path))
    if kind == "json":
        return _json(path, options)
    if kind == "sacct":
        from wattqueue.formats.sacct import read_sacct

        return read_sacct(
            path,
            time_zone=options.time_zone,
            columns=options.columns,
            node_watts=options.node_watts,
            default_walltime_s=options.default_walltime_s,
            queued=options.queued,
        )
    if kind == "pm100":
        from wattqueue.formats.pm100 import read_pm100

        return read_pm100(path, time_zone=options.time_zone, default_walltime_s=options.default_walltime_s)
    if kind == "fdata":
        from wattqueue.formats.fdata import read_fdata

        return read_fdata(path, time_zone=options.time_zone, default_walltime_s=options.default_walltime_s)
    return _text(path, kind, options)


def _json(path: Path, options: ReadOptions) -> Workload:
    document = load_json(path)
    if isinstance(document, dict) and "profiles" in document:
        from wattqueue.formats.batsim import batsim_workload

        return batsim_workload(path, document, options.default_walltime_s)
    from wattqueue.formats.slurm_json import slurm_workload

    return slurm_workload(path, document, options.node_watts, options.default_walltime_s, queued=options.queued)


def _text(path: Path, kind: str, options: ReadOptions) -> Workload:
    if kind in {"slurm-json", "batsim"}:
        return _json(path, options)
    if kind == "swf":
        from wattqueue.formats.swf import read_swf

        trace = read_swf(path, default_walltime_s=options.default_walltime_s, procs_per_node=options.procs_per_node)
        return Workload(trace.jobs, trace.unusable, "swf", len(trace.jobs) + len(trace.unusable))
    from wattqueue.formats.table import read_table

    jobs = read_table(path, default_walltime_s=options.default_walltime_s)
    return Workload(jobs, Unusable(), "table", len(jobs))


def sniff(path: Path) -> str:
    """Which reader a file is for: one of FORMATS, or ``json`` for either kind of JSON.

    Raises: InputError where no reader is.
    """
    with opened(path) as source:
        head = source.read(HEAD_BYTES)
    if head[:4] == b"PAR1":
        return _sniff_parquet(path)
    if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return "sacct"  # whose reader says what UTF-16 is
    text = head.decode("utf-8-sig", "replace")
    if text.lstrip()[:1] in {"{", "["}:
        return "json"
    return _sniff_text(path, text.splitlines())


def _sniff_text(path: Path, lines: list[str]) -> str:
    from wattqueue.formats._sacct_fields import parse_header

    rows = [line for line in lines if line.strip()]
    if not rows:
        raise InputError("holds nothing", where=path, mend=f"give {KNOWN}")
    names = {name.strip().strip('"') for name in next((r for r in rows if not r.startswith("#")), "").split(",")}
    if rows[0].startswith("# wattqueue jobs") or {"submit_s", "runtime_s"} & names:
        return "table"
    if any(parse_header(line.encode()) for line in rows if "jobid" in line.lower()):
        return "sacct"
    body = next((r for r in rows if not r.lstrip().startswith(";")), "")
    if rows[0].lstrip().startswith(";") or _numbers(body.split()) >= 11:
        return "swf"
    if any(mark in body for mark in "|") or "jobid" in body.lower() or any("jobid" in r.lower() for r in rows[:1000]):
        return "sacct"  # without a header, or in aligned columns: its reader says how to mend that
    raise InputError("is of no format that can be read here", where=path, mend=f"give {KNOWN}")


def _numbers(words: list[str]) -> int:
    count = 0
    for word in words:
        try:
            count += bool(np.isfinite(float(word)))
        except ValueError:
            break
    return count


def _sniff_parquet(path: Path) -> str:
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
        f"a Parquet file with columns {', '.join(sorted(names)[:8])}, which no reader here knows",
        where=path,
        mend=f"give {KNOWN}",
    )
