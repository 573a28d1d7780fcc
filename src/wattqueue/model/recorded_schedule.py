"""A schedule that was recorded, with what it ran on: what a replay takes (``sim/replay.py``).

It comes from the folder of a run or from the recording of a live controller. Whatever it comes from, it is checked
here: a replay follows each unit from job to job, so a contradiction would show as a wrong figure far from its cause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.ranges import ranges
from wattqueue.model.schedule import Schedule
from wattqueue.model.signals import Cap

EndOf = Callable[[int, float], float]
"""The end of a job (row of the table) that starts at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedSchedule:
    """When and where n jobs ran, by a record.

    Raises: InputError, naming ``where``, for a unit that the machine does not have, that two jobs hold at once or that
    belongs to another partition than the job's, for a job that holds another number of units than it asked for, and
    for one that starts before its submission.
    """

    jobs: Jobs
    """Submissions and sizes; what jobs draw and how long they run is in ``schedule``."""
    machine: Machine
    schedule: Schedule
    """In the order of ``jobs``. ``energy_j`` is what each job drew from start to end."""
    cap: Cap
    """The cap of the record."""
    where: str = "schedule"
    """What messages call the record."""
    notes: dict[str, int] = field(default_factory=dict)
    """Counts of what a reader should know of the record, by text."""

    def __post_init__(self) -> None:
        _require_places(self)
        _require_order(self)

    @property
    def order(self) -> NDArray[np.int64]:
        """Return the rows of the jobs that ran, by start: the order in which units go from job to job. Shape (r,)."""
        rows = np.flatnonzero(self.schedule.ran)
        s = self.schedule
        found: NDArray[np.int64] = rows[np.lexsort((rows, s.end_s[rows], s.start_s[rows]))]
        return found

    def with_jobs(self, jobs: Jobs) -> RecordedSchedule:
        """Return the schedule of another table of the same jobs, matched by id, in that table's order.

        Raises: InputError for a job of either that the other one lacks, for ids that are not distinct, and as the
        class does.
        """
        mine, theirs = [str(v) for v in self.jobs.job_id], [str(v) for v in jobs.job_id]
        if mine == theirs:
            return replace(self, jobs=jobs)
        row = {name: i for i, name in enumerate(mine)}
        for names, whose in ((mine, "schedule"), (theirs, "workload")):
            if len(set(names)) < len(names):
                raise InputError(f"the {whose} has two jobs of one id", where=self.where, hint="ids match the two")
        missing = next((name for name in theirs if name not in row), None)
        if missing is not None:
            hint = "replay the workload that was scheduled, or a part of the schedule's jobs"
            raise InputError(f"job {missing} of the workload is not in the schedule", where=self.where, hint=hint)
        lacking = set(mine) - set(theirs)
        if lacking:
            name = min(lacking, key=mine.index)
            hint = "replay the workload that was scheduled"
            raise InputError(f"job {name} of the schedule is not in the workload", where=self.where, hint=hint)
        at = np.array([row[name] for name in theirs], np.int64)
        return replace(self, jobs=jobs, schedule=self.schedule.take(at))

    def follow(self, earliest_s: Floats, end_of: EndOf) -> tuple[Floats, Floats]:
        """Return start and end of each job, NaN where it did not run. Shapes (n,).

        Each job starts at ``earliest_s`` (n,), or when the last of its units is free if that is later. On each unit
        jobs keep the order of the record.
        """
        s = self.schedule
        start, end = np.full(len(self.jobs), np.nan), np.full(len(self.jobs), np.nan)
        free_s = np.full(self.machine.units, -np.inf)
        first, count = s.unit_start.tolist(), s.unit_count.tolist()
        low, high = s.unit_low.tolist(), s.unit_high.tolist()
        for job in self.order.tolist():
            held = range(first[job], first[job] + count[job])
            begin = float(earliest_s[job])
            for k in held:
                begin = max(begin, float(free_s[low[k] : high[k] + 1].max()))
            start[job], end[job] = begin, end_of(job, begin)
            for k in held:
                free_s[low[k] : high[k] + 1] = end[job]
        return start, end

    def units_of(self, job: int) -> NDArray[np.int64]:
        """Return the numbers of the units that a job held, rising. Shape (units,)."""
        s = self.schedule
        held = range(int(s.unit_start[job]), int(s.unit_start[job] + s.unit_count[job]))
        pieces = [np.arange(s.unit_low[k], s.unit_high[k] + 1, dtype=np.int64) for k in held]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *pieces]))


def _require_places(recorded: RecordedSchedule) -> None:
    """Check that each job that ran held as many units as it asked for, all of its partition."""
    s, jobs, machine = recorded.schedule, recorded.jobs, recorded.machine
    if len(s.state) != len(jobs):
        raise InputError(f"{len(s.state)} rows for {len(jobs)} jobs", where=recorded.where)
    ran = np.flatnonzero(s.ran)
    job = np.repeat(ran, s.unit_count[ran])
    if not len(job):
        return
    at = ranges(s.unit_start[ran], s.unit_count[ran])
    low, high = s.unit_low[at].astype(np.int64), s.unit_high[at].astype(np.int64)
    bounds = machine.unit_start
    p = machine.option_partition[s.option[job]]
    outside = (low < bounds[p]) | (high >= bounds[p + 1])
    if outside.any():
        k = int(np.argmax(outside))
        unit, name = int(high[k] if high[k] >= bounds[p[k] + 1] else low[k]), machine.partitions[p[k]].name
        held = f"job {jobs.job_id[job[k]]} holds unit {unit}"
        size = f"{bounds[p[k]]} to {bounds[p[k] + 1] - 1}"
        raise InputError(f"{held}, and partition {name} of {machine.name} has units {size}", where=recorded.where)
    order = np.lexsort((low, job))
    twice = (job[order][1:] == job[order][:-1]) & (low[order][1:] <= high[order][:-1])
    if twice.any():
        k = int(order[1:][np.argmax(twice)])
        raise InputError(f"job {jobs.job_id[job[k]]} holds unit {low[k]} twice", where=recorded.where)
    held_units = np.bincount(job, high - low + 1, len(jobs)).astype(np.int64)
    wrong = ran[held_units[ran] != jobs.nodes[ran]]
    if len(wrong):
        k = int(wrong[0])
        text = f"job {jobs.job_id[k]} asked for {jobs.nodes[k]} units and held {held_units[k]}"
        raise InputError(text, where=recorded.where)


def _require_order(recorded: RecordedSchedule) -> None:
    """Check that no job starts before its submission, and that no unit is held by two jobs at once."""
    s, jobs = recorded.schedule, recorded.jobs
    early = np.flatnonzero(s.ran & (s.start_s < jobs.submit_s))
    if len(early):
        k = int(early[0])
        text = f"job {jobs.job_id[k]} starts at {s.start_s[k]:.6f} s, before its submission at {jobs.submit_s[k]:.6f} s"
        raise InputError(text, where=recorded.where)
    start, _ = recorded.follow(s.start_s, lambda job, _: float(s.end_s[job]))
    late = np.flatnonzero(start > s.start_s)
    if not len(late):
        return
    order = recorded.order
    place = int(np.flatnonzero(np.isin(order, late))[0])
    job = int(order[place])
    mine = recorded.units_of(job)
    for other in order[:place][::-1].tolist():
        if s.end_s[other] > s.start_s[job]:
            shared = np.intersect1d(mine, recorded.units_of(other))
            if len(shared):
                names = f"jobs {jobs.job_id[other]} and {jobs.job_id[job]}"
                raise InputError(f"{names} both hold unit {shared[0]} at {s.start_s[job]:.6f} s", where=recorded.where)
