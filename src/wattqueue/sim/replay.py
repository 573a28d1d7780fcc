"""Replay a recorded schedule: places as they were, starts as early as these places allow (paper 2, section 4.2).

No policy decides. Two readings of a replay:

``places``
    Submissions and places are those of the record, and each job starts as soon as it is submitted and its units are
    free. What held a job back besides its places (a cap, a reservation, the queue's order) does not count.
``recorded``
    Start times are those of the record as well. A job starts later only if one before it on its units runs longer.

Run times and watts are those of the record, which gives its ends and energies again to the last digit, or the truth of
a workload, as ``simulate`` takes it: then the replay tests how well the workload describes what was recorded.

A replay delays no job for a cap: metrics and reports show by how much and how long the cap was exceeded. All units are
powered on throughout; what switched units off in the record is not replayed, nor are speeds that changed under way.

Reference: paper 2, section 4.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, one_of
from wattqueue.kernels import codes
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.recorded_schedule import EndOf, RecordedSchedule
from wattqueue.model.schedule import PowerSeries, Schedule, State
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.sim.engine import Run
from wattqueue.sim.profiles import at_option, on_units
from wattqueue.sim.truth import actual_power

Starts = Literal["places", "recorded"]
"""Readings of a replay: starts by places alone, or starts as recorded."""
EARLIER = "jobs that start earlier than recorded (other than their places delayed them: a cap, a reservation, a pass)"
"""Note with the number of jobs whose places were free before they started."""
LATER = "jobs that start later than recorded (a job before them on their units ran longer)"
"""Note with the number of jobs that a longer run time delays."""
NOT_RUN = "jobs that did not run in the recorded schedule"
"""Note with the number of jobs that a replay leaves out."""


def replay(recorded: RecordedSchedule, *, starts: Starts = "places", cap: Cap | None = None) -> Run:
    """Replay a schedule with the run times and energies that were recorded.

    ``cap`` (None: the record's own) is what the power is compared with; it delays nothing. A job's power is constant:
    its recorded energy over its run time. Job ids, users and the rest are those of the record.

    Raises: InputError for an unknown reading.

    Example::

        run = replay(RecordedSchedule(jobs, machine, schedule, Cap.none()))
    """
    s = recorded.schedule
    length = s.end_s - s.start_s

    def end_of(job: int, start_s: float) -> float:
        if start_s == s.start_s[job]:
            return float(s.end_s[job])  # start + (end - start) may differ in the last bit
        return _rounded(start_s + float(length[job]))

    jobs = replace(recorded.jobs, profiles=None)
    with np.errstate(invalid="ignore", divide="ignore"):
        watts = np.where(s.ran & (length > 0), s.energy_j / length, 0.0)
    micro = np.rint(watts * codes.MICRO).astype(np.int64)
    return _run(replace(recorded, jobs=jobs), starts, cap, end_of, micro, s.energy_j, s.state)


def replay_workload(
    recorded: RecordedSchedule,
    jobs: Jobs,
    *,
    starts: Starts = "places",
    cap: Cap | None = None,
    actual: Prediction | None = None,
) -> Run:
    """Replay a schedule with the run times and watts of a workload, matched by job id.

    ``jobs``, ``cap`` and ``actual`` as ``simulate`` takes them: ``actual`` has true watts and time factors by option
    (and by unit) where the workload's own are not the truth. Each job runs at the option of the record.

    Raises: InputError for a job that schedule or workload lacks, a size that differs, or an unknown reading.
    """
    recorded = recorded.with_jobs(jobs)
    machine, s = recorded.machine, recorded.schedule
    truth = actual or actual_power(jobs, machine)
    rows = np.flatnonzero(s.ran)
    unit_uw, factor = at_option(jobs, machine, truth, rows, s)
    differ = truth.unit_factor is not None
    total_uw = on_units(jobs, truth, s, rows, unit_uw) if differ else jobs.nodes[rows] * unit_uw
    micro, factors = np.zeros(len(jobs), np.int64), np.ones(len(jobs))
    micro[rows], factors[rows] = total_uw, factor
    work, killed = np.minimum(jobs.runtime_s, jobs.walltime_s), jobs.runtime_s > jobs.walltime_s

    parked = np.zeros(len(jobs)) if s.parked_s is None else s.parked_s

    def end_of(job: int, start_s: float) -> float:
        if parked[job] > 0.0:
            return _rounded(start_s + float(parked[job]) + float(work[job]) * float(factors[job]))
        if factors[job] == 1.0:
            return start_s + float(work[job])  # as in the engine: times of a trace stay as they were written
        return max(start_s, _rounded(start_s + float(work[job]) * float(factors[job])))

    state = np.where(s.ran, np.where(killed, State.KILLED, State.COMPLETED), s.state).astype(np.int8)
    return replace(_run(recorded, starts, cap, end_of, micro, None, state), actual=actual)


def _run(
    recorded: RecordedSchedule, starts: Starts, cap: Cap | None, end_of: EndOf, micro: NDArray[np.int64],
    energy_j: Floats | None, state: NDArray[np.int8],
) -> Run:  # fmt: skip
    """Return the run of jobs that draw ``micro`` (n,) int64 microwatts and end as ``end_of`` says."""
    if starts not in get_args(Starts):
        raise InputError(f"unknown starts {starts!r}", where="replay", hint=one_of(starts, get_args(Starts)))
    s, jobs = recorded.schedule, recorded.jobs
    earliest = jobs.submit_s if starts == "places" else s.start_s
    start, end = recorded.follow(earliest, end_of)
    energy = np.where(s.ran, (end - start) * (micro / codes.MICRO), 0.0)
    if energy_j is not None:
        energy = np.where(start == s.start_s, energy_j, energy)  # a run that was moved is a microsecond off
    schedule = Schedule(
        state, s.reason, start, end, s.option, energy, s.predicted_w,
        s.unit_start, s.unit_count, s.unit_low, s.unit_high, s.parked_s, s.margin_w,
    )  # fmt: skip
    counts = {
        EARLIER: int((start < s.start_s).sum()),
        LATER: int((start > s.start_s).sum()),
        NOT_RUN: int((~s.ran).sum()),
    }
    notes = {**recorded.notes, **{text: count for text, count in counts.items() if count}}
    power = power_of(jobs, recorded.machine, schedule, micro)
    return Run(jobs, recorded.machine, recorded.cap if cap is None else cap, schedule, power, notes)


def _rounded(time_s: float) -> float:
    """Return a computed time, rounded to the microsecond (rule 1 of docs/semantics.md)."""
    return round(time_s * 1e6) / 1e6


def power_of(jobs: Jobs, machine: Machine, schedule: Schedule, micro: NDArray[np.int64]) -> PowerSeries:
    """Return the power series of jobs that draw ``micro`` (n,) int64 microwatts each, on a machine that is all on.

    From the first submission to the last end, with a row where something changes. Sums are of integers, as in the
    engine, so that both give the same watts.
    """
    rows = np.flatnonzero(schedule.ran)
    idle = np.array([codes.microwatts(p.idle_w) for p in machine.partitions], np.int64)
    part = machine.option_partition[schedule.option[rows]]
    size = jobs.nodes[rows].astype(np.int64)
    change = np.stack([micro[rows], idle[part] * size, size])
    moments = np.concatenate((schedule.start_s[rows], schedule.end_s[rows]))
    begin = jobs.submit_s.min(initial=np.inf)
    time, place = np.unique(np.append(moments, begin), return_inverse=True)
    steps = np.zeros((3, len(time)), np.int64)
    for row, values in zip(steps, change, strict=True):
        np.add.at(row, place[:-1], np.concatenate((values, -values)))
    jobs_uw, busy_idle, busy = np.cumsum(steps, axis=1)
    kept = np.ones(len(time), np.bool_)
    kept[1:] = (steps[:, 1:] != 0).any(axis=0)
    units = np.array([p.units for p in machine.partitions], np.int64)
    other = int((idle * units).sum()) - busy_idle
    if not len(jobs):
        kept[:] = False
    columns = (jobs_uw[kept] / codes.MICRO, other[kept] / codes.MICRO, busy_idle[kept] / codes.MICRO)
    return PowerSeries(time[kept], *columns, busy[kept].astype(np.int32))
