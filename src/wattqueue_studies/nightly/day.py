"""Cut a day from a record: what ran at midnight goes on, what waited or was submitted that day is scheduled again.

Jobs that were submitted on the day are in it to their ends, beyond midnight; those of the next day are not. A job that
had not ended when the record was made runs as long as the record says of it: to its limit (sacct), or as far as it was
seen (recording). Every replay of the day has the same jobs with the same lengths, so that rule 18 of docs/semantics.md
decides which of them are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.slurm.columns import Clock
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import Machine
from wattqueue.model.recorded_schedule import RecordedSchedule
from wattqueue.model.schedule import Schedule, State
from wattqueue.parts.memory import with_needed_units
from wattqueue.report import words
from wattqueue.sim.reference import asked_partitions
from wattqueue_studies.bound.windows import BoundWindow, cut_window

UNENDED = ("RUNNING", "PENDING", "SUSPENDED", "REQUEUED")
"""States of accounting that are no end."""


def zone_of(text: str | None) -> tzinfo:
    """Return a time zone as ``wattqueue import`` takes it; None is UTC. Raises: InputError for none."""
    clock = Clock(text)
    return ZoneInfo(clock.zone) if clock.zone else timezone(timedelta(seconds=clock.offset_s))


@dataclass(frozen=True, slots=True)
class Day:
    """A day between two midnights of a zone, in Unix time; 23 or 25 hours where clocks are changed."""

    name: str
    begin_s: float
    end_s: float

    @classmethod
    def of(cls, text: str, zone: tzinfo) -> Day:
        """Return the day of a date. Raises: InputError for another text."""
        try:
            first = date.fromisoformat(text)
            following = first + timedelta(days=1)
        except (ValueError, OverflowError) as error:
            raise InputError(f"{text!r} is no date", where="--day", hint="write it like 2026-11-26") from error
        begin, end = (datetime.combine(one, time(), zone).timestamp() for one in (first, following))
        return cls(first.isoformat(), begin, end)


@dataclass(frozen=True, slots=True, eq=False)
class DayRecord:
    """Jobs with their recorded starts, the machine, and what a reader should know.

    Attributes:
        jobs: Jobs; ``start_s`` is NaN for those that had not started. Times in Unix time.
        machine: The machine.
        notes: Sentences.
    """

    jobs: Jobs
    machine: Machine
    notes: tuple[str, ...] = ()

    @classmethod
    def of_accounting(cls, jobs: Jobs, machine: Machine, notes: tuple[str, ...], where: str) -> DayRecord:
        """Return the record of a job table. Raises: InputError for one without starts."""
        if jobs.start_s is None:
            raise InputError("has no start of any job", where=where, hint="sacct --format=...,Submit,Start,End,...")
        open_ended = int(np.isin(jobs.extra.get("state", np.zeros(0, object)), UNENDED).sum())
        many = words.count(open_ended, "job")
        more = f"{many} had not ended when the record was made: run to the limit in every replay"
        return cls(with_needed_units(jobs, machine), machine, (*notes, more) if open_ended else notes)

    @classmethod
    def of_recording(cls, recorded: RecordedSchedule) -> DayRecord:
        """Return the record of a controller."""
        schedule, machine = recorded.schedule, recorded.machine
        names = np.array([*(p.name for p in machine.partitions), ""], object)
        part = np.where(schedule.option < 0, -1, machine.option_partition[np.maximum(schedule.option, 0)])
        jobs = replace(recorded.jobs, start_s=schedule.start_s, partition=Labels.of(names[part]))
        return cls(jobs, machine, tuple(f"{count:,} {text}" for text, count in recorded.notes.items()))

    def window(self, day: Day, most: int | None = None) -> BoundWindow:
        """Return the day as a window, of the first ``most`` jobs that are scheduled.

        Raises: InputError for a day on which no job waited or was submitted.
        """
        jobs, schedule = self.jobs, self._schedule()
        inside = (jobs.submit_s < day.end_s) & (schedule.start_s >= day.begin_s)
        if not inside.any():
            first, last = (datetime.fromtimestamp(t, zone_of(None)).date() for t in self._span())
            raise InputError(
                f"no job waited or was submitted on {day.name}", where="--day",
                hint=f"the record has submissions from {first} to {last}",
            )  # fmt: skip
        count = int(inside.sum())
        factor = np.ones(len(jobs))
        window = cut_window(jobs, schedule, day.begin_s, count if most is None else min(count, most), factor)
        scheduled = np.arange(len(window.jobs)) >= window.running
        submit = np.where(scheduled, np.maximum(window.jobs.submit_s, day.begin_s), window.jobs.submit_s)
        return replace(window, jobs=replace(window.jobs, submit_s=submit, start_s=jobs.take(window.rows).start_s))

    def _span(self) -> tuple[float, float]:
        """Return the first and the last submission."""
        return float(self.jobs.submit_s.min()), float(self.jobs.submit_s.max())

    def _schedule(self) -> Schedule:
        """Return starts and ends as a schedule; a job that had not started starts after all others."""
        jobs, machine = self.jobs, self.machine
        start = np.nan_to_num(np.asarray(jobs.start_s, np.float64), nan=np.inf)
        asked = asked_partitions(jobs, [p.name for p in machine.partitions])
        part = asked.copy()
        for k in range(len(machine.partitions))[::-1]:  # where none is named: the first that is wide enough
            part[(asked < 0) & (jobs.nodes <= machine.partitions[k].units)] = k
        n, none = len(jobs), np.zeros(0, np.int32)
        option = machine.option_start[np.maximum(part, 0)].astype(np.int16)
        nothing: Any = (np.zeros(n, np.int64), np.zeros(n, np.int32), none, none)
        state, unknown = np.full(n, State.COMPLETED, np.int8), np.full(n, np.nan)
        length = np.minimum(jobs.runtime_s, jobs.walltime_s)
        return Schedule(state, np.zeros(n, np.int8), start, start + length, option, unknown, unknown, *nothing)
