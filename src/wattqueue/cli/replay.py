"""Replay a recorded schedule: places as they were, starts as early as these are free, no policy.

The schedule is the folder of a run, or what a live controller recorded (``record = FILE``). ``wattqueue live replay``
is another verb, which asks the policy of such a recording again. The flow is that of ``simulate``: read and check,
replay, write the run's directory, print the table. A cap delays nothing; the table shows its excess.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def run(
    schedule: Annotated[Path, typer.Argument(help="The directory of a run, or the recording of a live controller.")],
    *,
    starts: Annotated[
        Literal["places", "recorded"], typer.Option(help="Start when the places are free, or as recorded.")
    ] = "places",
    jobs: Annotated[
        str | None, typer.Option(help="Workload that gives run times and watts. [those of the record]")
    ] = None,
    cap: Annotated[str | None, typer.Option(help="Compare with 400kW, 70%, none, or a CSV. [the record's]")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for jobs.csv, metrics.json and the rest.")] = None,
    report: Annotated[bool, typer.Option(help="With --out: write report.html too.")] = True,
) -> None:
    """Replay a recorded schedule: places as they were, starts as early as these are free.

    A cap delays no job here: its excess is reported.
    """
    from wattqueue.cli._table import show
    from wattqueue.cli.simulate import remark
    from wattqueue.errors import InputError
    from wattqueue.model.comparability import WorkDone
    from wattqueue.runs.replay import perform_replay, read_source, workload_of
    from wattqueue.terminal import say_never_ran

    if out is not None and out.exists() and schedule.exists() and out.samefile(schedule):
        raise InputError("is the recorded schedule itself", where=out, hint="name another folder")
    source = read_source(schedule)
    table = None if jobs is None else workload_of(source, jobs)
    record, notes = perform_replay(source, jobs=table, starts=starts, cap=cap, workload=jobs or "")
    if out is not None:
        from wattqueue.cli._write import write_report
        from wattqueue.formats.rundir.folder import write_run

        write_run(out, record)
        if report:
            write_report(out / "report.html", record)
    show(f"{schedule.name} on {record.machine.name}", [(f"replay, starts {starts}", record.metrics)])
    remark(notes, record.jobs.origin, 0)
    say_never_ran([("", WorkDone.of(record.jobs, record.schedule))])
    if out is not None:
        typer.echo(f"wrote {out}")
