"""Read a site's own data (sacct, Slurm JSON, PM100, F-DATA, SWF, Batsim) into a job table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.errors import InputError
from wattqueue.formats.duration import duration_s

if TYPE_CHECKING:
    from wattqueue.formats.workload import Workload

WRITTEN = (".parquet", ".csv", ".csv.gz", ".swf", ".swf.gz")


def run(
    file: Annotated[Path, typer.Argument(help="What to read; the format is found by itself.", show_default=False)],
    out: Annotated[Path, typer.Option("-o", "--out", help="jobs.parquet, jobs.csv[.gz] or jobs.swf[.gz].")],
    time_zone: Annotated[
        str | None, typer.Option(help="Of times without a zone: Europe/Berlin, +02:00 or UTC (the default).")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of an sacct dump without a header, as given to --format.")
    ] = None,
    watts: Annotated[
        str | None, typer.Option("--node-watts", help="IDLE:MAX of a node: energy counters beyond are left out.")
    ] = None,
    default_walltime: Annotated[
        str | None, typer.Option(help="Walltime of jobs without a limit: 24h, 90min or seconds.")
    ] = None,
    procs_per_node: Annotated[int, typer.Option(help="SWF: processors that make a node.")] = 1,
    queued: Annotated[
        bool, typer.Option("--queued", help="Take jobs that have not ended: their limit is their run time.")
    ] = False,
    kind: Annotated[
        str | None, typer.Option("--from", help="Format, if it is not to be found: sacct, swf, slurm-json, …")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Read a site's own data into a job table, and say what was read.

    Rows that cannot be used are listed in unusable.csv beside the output, with line and reason. Every energy
    carries a label in the column x_energy_quality: measured (the job had its nodes alone), attributed (it
    shared them, or nobody can tell) or modelled.
    """
    from wattqueue.formats.node_watts import parse_node_watts
    from wattqueue.formats.read import ReadOptions, read_workload
    from wattqueue.formats.unusable import write_unusable

    if not out.name.endswith(WRITTEN):
        raise InputError(f"cannot write {out.name}", mend=f"name the output with one of {', '.join(WRITTEN)}")
    if out.exists() and file.exists() and out.samefile(file):
        raise InputError("input and output are the same file", where=out, mend="take another name with -o")
    default_s = duration_s(default_walltime, "--default-walltime")
    bounds = None if watts is None else parse_node_watts(watts)
    options = ReadOptions(time_zone, columns, bounds, default_s, procs_per_node, queued)
    workload = read_workload(file, options, kind=kind)
    _write(out, workload)
    listed = out.with_name("unusable.csv")
    write_unusable(listed, workload.unusable)
    if as_json:
        print(json.dumps(workload.summary() | {"rejected_by_reason": _by_reason(workload)}, indent=2))
    else:
        print("\n".join([*_said(file, workload), *_lost(out, workload), f"wrote {out} and {listed}"]))


def _write(out: Path, workload: Workload) -> None:
    if out.name.endswith((".swf", ".swf.gz")):
        from wattqueue.formats.swf import write_swf

        write_swf(out, workload.jobs)
        return
    from wattqueue.formats.table import write_table

    write_table(out, workload.jobs)


def _by_reason(workload: Workload) -> dict[str, int]:
    return dict(Counter(workload.unusable.reason.values().tolist()).most_common())


def _said(file: Path, workload: Workload) -> list[str]:
    """The summary in lines."""
    found = workload.summary()
    jobs, rows = found["jobs"], found["rows"]
    lines = [f"{file}: {workload.format}, {rows:,} rows", f"  {jobs:,} jobs, {found['rejected']:,} rejected"]
    lines += [f"    {count:,} {reason}" for reason, count in _by_reason(workload).items()]
    lines.append(f"  watts of {found['with_power']:,} jobs ({_share(found['with_power'], jobs)})")
    if found["with_profile"]:
        lines.append(f"  power profiles of {found['with_profile']:,} jobs ({_share(found['with_profile'], jobs)})")
    qualities = [(word, found[f"energy_{word}"]) for word in ("measured", "attributed", "modelled")]
    if any(count for _, count in qualities):
        lines.append("  energy: " + ", ".join(f"{count:,} {word}" for word, count in qualities))
    alone = [
        (word, found[f"alone_{key}"]) for word, key in (("alone", "yes"), ("shared", "no"), ("unknown", "unknown"))
    ]
    if any(count for _, count in alone):
        said = ", ".join(f"{count:,} {word} ({_share(count, jobs)})" for word, count in alone)
        lines.append(f"  on their nodes: {said}")
    return [*lines, *(f"  note: {note}" for note in found["notes"])]


def _lost(out: Path, workload: Workload) -> list[str]:
    """What the output's format cannot hold."""
    if out.name.endswith(".parquet") or not workload.summary()["with_profile"]:
        return []
    return ["  note: the power profiles are left out: only a .parquet holds them"]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"
