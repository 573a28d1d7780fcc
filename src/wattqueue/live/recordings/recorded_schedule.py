"""Read when and where jobs ran from the recording of a live controller, for ``wattqueue replay``.

A recording has a line for each round in which something changed, with what ran then. Of each job this module takes:

- the submission and the units as Slurm showed them, the units those of the last round in which the job ran (what was
  planned for a released job may differ);
- the start that Slurm reported;
- the end that was measured with its watts, where the controller learned from the job; else the first round that does
  not show it, or the start of the next job on one of its units if that is earlier;
- watts as measured where they were, else what the ledger counted, idle share included, as a mean over the rounds.

Jobs that still run in the last round end there, and are counted in ``notes``. Jobs that never ran stay in the table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError, WattQueueError
from wattqueue.formats.machine.file import machine_data, machine_of
from wattqueue.live.requests import MeasuredJob
from wattqueue.model.codec import made
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.recorded_schedule import RecordedSchedule
from wattqueue.model.schedule import Schedule, State
from wattqueue.model.signals import Cap

CUT = "jobs that still ran at the end of the recording, and end there"
"""Note with their number."""
CLOCK_S = 1.0
"""Slurm reports starts in whole seconds: a start may lie so much before a round that still shows the job before it."""
_LONGEST_LINE = 1 << 28
ROUNDING_S = 1e-6
"""Least run time of a job: one that Slurm shows in a single round has a length all the same."""


@dataclass
class ObservedRow:
    """What the rounds showed of one job."""

    submit_s: float
    walltime_s: float
    user: str = ""
    app: str = ""
    nodes: int = 1
    start_s: float = math.nan
    end_s: float = math.nan
    last_seen_s: float = math.nan
    option: int = -1
    units: tuple[tuple[int, int], ...] = ()
    """Intervals, both ends included, by number."""
    counted_uw: int = 0
    """Net watts that the ledger counted in the last round."""
    counted_j: float = 0.0
    """Their integral up to the last round."""
    measured_w: float = math.nan
    """Measured mean watts of one node."""

    @property
    def ran(self) -> bool:
        return not math.isnan(self.start_s)


@dataclass
class Rounds:
    """What is known after some rounds of a recording."""

    machine: Machine
    seen: dict[str, ObservedRow] = field(default_factory=dict)
    caps: list[tuple[float, float]] = field(default_factory=list)
    now_s: float = math.nan
    running: set[str] = field(default_factory=set)
    """Jobs that ran in the last round."""

    def take(self, now_s: float, view: Mapping[str, Any] | None) -> None:
        """Take in a round; ``view`` None: that of the round before."""
        for name in self.running:
            job = self.seen[name]
            job.counted_j += job.counted_uw / 1e6 * (now_s - self.now_s)
            job.last_seen_s = now_s
        self.now_s = now_s
        if view is None:
            return
        cap_w = math.inf if view["cap_w"] == "inf" else float(view["cap_w"])
        if not self.caps or self.caps[-1][1] != cap_w:
            self.caps.append((now_s, cap_w))
        jobs, runs = view["jobs"], view["running"]
        names = [str(v) for v in jobs["job_id"]]
        for row, name in enumerate(names):
            if name not in self.seen:
                job = self.seen[name] = ObservedRow(float(jobs["submit_s"][row]), float(jobs["walltime_s"][row]))
                job.user, job.app = _label(jobs["user"], row), _label(jobs["app"], row)
            job = self.seen[name]
            if not job.ran:
                job.nodes = int(jobs["nodes"][row])
        running = set()
        for k, row in enumerate(runs["row"]):
            started = jobs["start_s"][row]
            if started is None or math.isnan(started):
                continue  # released, and not running yet
            name, job = names[row], self.seen[names[row]]
            if job.ran and float(started) > job.start_s:
                job.counted_j = 0.0  # requeued: the last run counts (rule 3)
            job.start_s, job.end_s, job.last_seen_s = float(started), math.nan, now_s
            job.option, job.counted_uw = int(runs["option"][k]), int(runs["net_uw"][k])
            at = range(runs["first"][k], runs["first"][k] + runs["count"][k])
            job.units = tuple(sorted((int(runs["low"][i]), int(runs["high"][i])) for i in at))
            job.nodes = sum(high - low + 1 for low, high in job.units)
            running.add(name)
        for name in self.running - running:
            self.seen[name].end_s = now_s
        self.running = running

    def learn(self, measured: Iterable[Any]) -> None:
        """Take in measured jobs, as the estimator was taught them."""
        for data in measured:
            one = made(MeasuredJob, data)
            known = self.seen.get(one.request.key.name)
            if known is not None and known.ran and one.end_s >= known.start_s:
                known.end_s, known.measured_w = one.end_s, one.mean_node_w


def read_recording(path: Path) -> RecordedSchedule:
    """Return the schedule that a recording shows.

    Raises: InputError for a file that is no recording, one whose machine changes, or a schedule that cannot have been
    (``RecordedSchedule``).
    """
    rounds: Rounds | None = None
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    rounds = _take_line(rounds, json.loads(line))
                except InputError as error:
                    raise InputError(f"line {number} {error.what}", where=path, hint=error.hint) from error
                except WattQueueError:
                    raise
                except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
                    raise InputError(f"line {number} is no recorded round", where=path) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error
    if rounds is None or not any(job.ran for job in rounds.seen.values()):
        raise InputError("shows no job that ran", where=path, hint="record = FILE in the controller's configuration")
    return _schedule(rounds, path)


def recorded_begin(path: Path) -> dict[str, Any] | None:
    """Return how the first controller of a recording began: its policy, row and machine. None for another file.

    Raises: InputError for a file that cannot be read.
    """
    try:
        with path.open("rb") as lines:
            first = json.loads(lines.readline(_LONGEST_LINE))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error
    except ValueError:
        return None
    begin = first.get("begin") if isinstance(first, dict) else None
    return begin if isinstance(begin, dict) and {"policy", "row"} <= begin.keys() else None


def _take_line(rounds: Rounds | None, data: dict[str, Any]) -> Rounds:
    """Return what is known after a line."""
    if "begin" in data:
        machine = machine_of(data["begin"]["machine"], "recording")
        if rounds is None:
            return Rounds(machine)
        if machine_data(machine) != machine_data(rounds.machine):
            raise InputError("begins with another machine", hint="cut the recording there")
        return rounds
    if rounds is None:
        raise KeyError("begin")
    rounds.take(float(data["now_s"]), data.get("view"))
    rounds.learn(data.get("learned", ()))
    return rounds


def _label(column: Mapping[str, Any], row: int) -> str:
    """Return the name in a column of labels; empty for none."""
    code = int(column["codes"][row])
    return "" if code < 0 else str(column["names"][code])


def _schedule(rounds: Rounds, path: Path) -> RecordedSchedule:
    """Return the jobs of all rounds as a schedule."""
    names, jobs, machine = list(rounds.seen), list(rounds.seen.values()), rounds.machine
    cut = sum(math.isnan(job.end_s) for job in jobs if job.ran)
    for job in jobs:
        if job.ran:
            job.submit_s = min(job.submit_s, job.start_s)
            job.end_s = rounds.now_s if math.isnan(job.end_s) else job.end_s
    _end_before_successors([job for job in jobs if job.ran])
    energy, length = [], []
    for job in jobs:
        length.append(max(job.end_s - job.start_s, ROUNDING_S) if job.ran else job.walltime_s)
        energy.append(_watts(job, machine) * length[-1] if job.ran else 0.0)
    count = np.array([len(job.units) if job.ran else 0 for job in jobs], np.int32)
    held = np.array([run for job in jobs if job.ran for run in job.units], np.int32).reshape(-1, 2)
    start = np.array([job.start_s for job in jobs])
    end = np.where(np.isnan(start), np.nan, np.maximum([job.end_s for job in jobs], start))
    none = np.full(len(jobs), np.nan)
    state = np.where(np.isnan(start), State.NOT_STARTED, State.COMPLETED).astype(np.int8)
    schedule = Schedule(
        state, np.zeros(len(jobs), np.int8), start, end, np.array([job.option for job in jobs], np.int16),
        np.array(energy), none, np.cumsum(count, dtype=np.int64) - count, count, held[:, 0].copy(), held[:, 1].copy(),
    )  # fmt: skip
    table = Jobs.build(
        [job.submit_s for job in jobs], [job.nodes for job in jobs], length,
        walltime_s=[job.walltime_s for job in jobs], job_id=np.array(names, object),
        user=[job.user for job in jobs], app=[job.app for job in jobs],
        mean_power_w=[_watts(job, machine) / job.nodes if job.ran else math.nan for job in jobs],
    )  # fmt: skip
    times, watts = (np.array(column) for column in zip(*rounds.caps, strict=True))
    return RecordedSchedule(table, machine, schedule, Cap(times, watts), str(path), {CUT: cut} if cut else {})


def _watts(job: ObservedRow, machine: Machine) -> float:
    """Return the mean watts of a whole job: measured, else what the ledger counted with the idle share."""
    if not math.isnan(job.measured_w):
        return job.measured_w * job.nodes
    shown_s = job.last_seen_s - job.start_s
    net_w = job.counted_j / shown_s if shown_s > 0 and job.counted_j > 0 else job.counted_uw / 1e6
    idle_w = machine.partitions[machine.option_partition[job.option]].idle_w
    return net_w + (0.0 if machine.cap_scope == "jobs" else idle_w * job.nodes)


def _end_before_successors(jobs: list[ObservedRow]) -> None:
    """End each job when the next one starts on one of its units, where no round contradicts that."""
    holder: dict[int, ObservedRow] = {}
    for job in sorted(jobs, key=lambda one: (one.start_s, one.end_s)):
        for low, high in job.units:
            for unit in range(low, high + 1):
                before = holder.get(unit)
                if before is not None and before.end_s > job.start_s >= before.last_seen_s - CLOCK_S:
                    before.end_s = max(job.start_s, before.start_s)
                holder[unit] = job
