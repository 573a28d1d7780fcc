"""Load a run as a report needs it, from the directory that a simulation left or from what it still holds in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wattqueue.formats.epoch import DATED_FROM_S
from wattqueue.formats.rundir.bound_note import read_bound_note
from wattqueue.formats.rundir.folder import RunRecord, read_run, watts_origin
from wattqueue.report.compare.groups import Member
from wattqueue.report.run import About, RunData


def of_record(record: RunRecord, bound: str = "") -> RunData:
    """Return the run of a record, as it was made or as it was read back. Both give the same report.

    ``bound``: what is known of the distance to a proven bound, as a sentence.

    Facts that a report prints but the tables of a run directory cannot hold come from run.toml: whose figures the
    watts are, the date of the trace's time 0, the origin of energies. A trace in Unix time needs no such fact.
    """
    facts = {"watts": record.watts or watts_origin(record.jobs), **record.facts, "bound": bound}
    if "epoch_s" not in facts and float(record.jobs.submit_s.min()) >= DATED_FROM_S:
        facts["epoch_s"] = 0.0  # the trace counts in Unix time
    about = About.of_facts(facts, record.machine, record.jobs.origin)
    return RunData.of(
        record.jobs,
        record.schedule,
        record.power,
        record.machine,
        record.cap,
        metrics=record.metrics,
        about=about,
    )


def load(folder: Path) -> RunData:
    """Return the run of a directory. Raises InputError or MachineError for files that cannot be read."""
    return of_record(read_run(folder), read_bound_note(folder))


def load_members(folders: Iterable[Path]) -> list[Member]:
    """Return the runs of a comparison, in the order of their directories.

    Raises:
        InputError: A directory without a run, or a file that cannot be read.
        MachineError: A machine in run.toml that contradicts itself.
    """
    members = []
    for folder in folders:
        record = read_run(folder)
        members.append(Member(str(folder), record.facts, of_record(record)))
    return members
