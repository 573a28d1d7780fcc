"""Replay a recorded schedule: places as they were, starts as early as these are free, no policy.

The schedule is the folder of a run, or what a live controller recorded (``record = FILE``). ``wattqueue live replay``
is another verb, which asks the policy of such a recording again. The flow is that of ``simulate``: read and check,
replay, write the run's directory, print the table. A cap delays nothing; the table shows its excess.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from wattqueue.runs.options import ReplayOptions
from wattqueue.verbs import Printed, out_field, report_field, verb_of


@dataclass(frozen=True)
class ReplayVerb(Printed, ReplayOptions):
    """Options of the verb."""

    _: KW_ONLY
    out: Path | None = out_field("Directory for jobs.csv, metrics.json and the rest.")
    report: bool = report_field()


@verb_of(ReplayVerb)
def run(options: ReplayVerb) -> None:
    """Replay a recorded schedule: places as they were, starts as early as these are free.

    A cap delays no job here: its excess is reported.
    """
    from wattqueue.cli._table import show
    from wattqueue.cli.simulate import remarks
    from wattqueue.errors import InputError
    from wattqueue.model.comparability import WorkDone
    from wattqueue.runs.replay import perform_replay, read_source, workload_of
    from wattqueue.terminal import say_never_ran

    schedule, folder, jobs = Path(str(options.schedule)), options.out, options.jobs
    if folder is not None and folder.exists() and schedule.exists() and folder.samefile(schedule):
        raise InputError("is the recorded schedule itself", where=folder, hint="name another folder")
    source = read_source(schedule)
    table = None if jobs is None else workload_of(source, str(jobs))
    workload = "" if jobs is None else str(jobs)
    record, notes = perform_replay(source, jobs=table, starts=options.starts, cap=options.cap, workload=workload)
    if folder is not None:
        from wattqueue.cli._write import write_report
        from wattqueue.formats.rundir.folder import write_run

        write_run(folder, record)
        if options.report:
            write_report(folder / "report.html", record)
    column = (f"replay, starts {options.starts}", record.metrics)
    options.show(lambda: record.metrics, lambda: show(f"{schedule.name} on {record.machine.name}", [column]))
    options.say(remarks(notes, record.jobs.origin, 0))
    say_never_ran([("", WorkDone.of(record.jobs, record.schedule))])
    if folder is not None:
        options.say([f"wrote {folder}"])
