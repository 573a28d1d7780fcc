"""Read a site's own data (sacct, Slurm JSON, PM100, F-DATA, SWF, Batsim) into a job table.

Main flow: recognise the format, read the rows, leave out those that no schedule can use (counted and listed by reason),
write the job table, print what was read and how trustworthy its energies are. The formats are in ``formats/``, one file
per format; this verb only chooses, writes and prints.

Two files are written: the job table, in the format that its name asks for, and the list of rows that were left out,
beside it. The remarks of the reader (``Workload.notes``) are printed with the summary, because they say how far the
figures can be trusted. ``--json`` prints the same counts for scripts.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.errors import InputError
from wattqueue.formats.times import duration_s
from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue.formats.workload import Workload

WRITTEN = (".parquet", ".csv", ".csv.gz", ".swf", ".swf.gz")
"""Endings that an output may have; only .parquet holds power profiles."""


@verb_of(Printed)
def run(
    printed: Printed,
    file: Annotated[Path, typer.Argument(help="What to read; its content tells the format.", show_default=False)],
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
    procs_per_node: Annotated[int, typer.Option(min=1, max=2**31 - 1, help="SWF: processors that make a node.")] = 1,
    queued: Annotated[
        bool, typer.Option("--queued", help="Take jobs that have not ended: their limit is their run time.")
    ] = False,
    kind: Annotated[
        str | None, typer.Option("--from", help="Format, instead of recognising it: sacct, swf, … or my_format.py")
    ] = None,
) -> None:
    """Read a site's own data into a job table, and print a summary.

    Rows that cannot be used are listed with line and reason beside the output: in jobs.unusable.csv for
    jobs.parquet. Every energy has a label in the column x_energy_quality: measured (the job had its nodes
    alone), attributed (it shared them, or it is unknown) or modelled.
    """
    from wattqueue.formats.atomic_folder import written
    from wattqueue.formats.machine.file import parse_node_watts
    from wattqueue.formats.read import ReadOptions, read_workload
    from wattqueue.formats.source import exists
    from wattqueue.formats.unusable import write_unusable

    if not out.name.endswith(WRITTEN):
        raise InputError(f"cannot write {out.name}", hint=f"name the output with one of {', '.join(WRITTEN)}")
    # samefile follows links: two names of one file would replace the trace by its import.
    if exists(out) and exists(file) and out.samefile(file):
        raise InputError("input and output are the same file", where=out, hint="take another name with -o")
    default_s = duration_s(default_walltime, "--default-walltime")
    bounds = None if watts is None else parse_node_watts(watts)
    options = ReadOptions(time_zone, columns, bounds, default_s, procs_per_node, queued)
    workload = read_workload(file, options, kind=kind)
    # One list per output, so that two imports into one folder keep theirs.
    listed = out.with_name(f"{_stem(out)}.unusable.csv")
    done = written(out, listed)
    _write(out, workload)
    write_unusable(listed, workload.unusable)
    printed.show(
        lambda: workload.summary() | {"unusable_by_reason": _by_reason(workload)},
        lambda: [*_summary_lines(file, workload), *_lost(out, workload), done],
    )


def _stem(out: Path) -> str:
    """Return the name of the output without its ending: each output has a list of unusable rows of its own."""
    return out.name.removesuffix(next(ending for ending in sorted(WRITTEN, key=len)[::-1] if out.name.endswith(ending)))


def _write(out: Path, workload: Workload) -> None:
    """Write the jobs in the format that the output's name asks for. Raises: OutputError.

    SWF loses what it has no field for, CSV the power profiles (``_lost``).
    """
    if out.name.endswith((".swf", ".swf.gz")):
        from wattqueue.formats.workloads.swf import write_swf

        write_swf(out, workload.jobs)
        return
    from wattqueue.formats.table.job_table import write_table

    write_table(out, workload.jobs)


def _by_reason(workload: Workload) -> dict[str, int]:
    """Return the number of unusable rows by reason, the most frequent first.

    The same counts are printed in the summary and, with ``--json``, as ``unusable_by_reason``.
    """
    return dict(Counter(workload.unusable.reason.values().tolist()).most_common())


def _summary_lines(file: Path, workload: Workload) -> list[str]:
    """Return the summary in lines.

    Counts are those of ``Workload.summary``. Lines about profiles, energy and shared nodes appear only where the
    workload has such figures; the remarks of the reader follow at the end.
    """
    found = workload.summary()
    jobs, rows = found["jobs"], found["rows"]
    lines = [f"{file}: {workload.format}, {rows:,} rows", f"  {jobs:,} jobs, {found['unusable']:,} unusable"]
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
        counts = ", ".join(f"{count:,} {word} ({_share(count, jobs)})" for word, count in alone)
        lines.append(f"  on their nodes: {counts}")
    return [*lines, *(f"  note: {note}" for note in found["notes"])]


def _lost(out: Path, workload: Workload) -> list[str]:
    """Return a remark on what the output's format cannot hold.

    A list of one line, or of none. Only profiles are mentioned, since they cannot be computed again from the output.
    """
    if out.name.endswith(".parquet") or not workload.summary()["with_profile"]:
        return []
    return ["  note: the power profiles are left out: only a .parquet holds them"]


def _share(part: int, whole: int) -> str:
    """Return a share in whole percent; ``whole`` is at least 1, since a reader refuses a trace without jobs."""
    return f"{100 * part / whole:.0f} %"
