"""A run as a report sees it, from the directory that a simulation left or from what it still holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wattqueue.formats.rundir import RunRecord, read_run, watts_origin
from wattqueue.report.compare.groups import Member
from wattqueue.report.run import About, Run


def of_record(record: RunRecord) -> Run:
    """A run from its record, as it was made or as it was read back."""
    facts = {"watts": record.watts or watts_origin(record.jobs), **record.facts}
    about = About.of_facts(facts, record.machine, record.jobs.origin)
    return Run.of(
        record.jobs,
        record.schedule,
        record.power,
        record.machine,
        record.cap,
        metrics=record.metrics,
        about=about,
    )


def load(folder: Path) -> Run:
    """A run from its directory. Raises: InputError, MachineError."""
    return of_record(read_run(folder))


def load_members(folders: Sequence[Path]) -> list[Member]:
    """The runs of a comparison. Raises: InputError, MachineError."""
    members = []
    for folder in folders:
        record = read_run(folder)
        members.append(Member(str(folder), record.facts, of_record(record)))
    return members
