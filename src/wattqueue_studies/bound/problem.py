"""What is to be scheduled: jobs with all their options, beside jobs that run already, under nodes and a cap.

Run times and watts are known. Times count from the begin of the window, in seconds; watts are those that the cap's
scope covers, in whole microwatts (rule 14 of docs/semantics.md), less the idle watts of the job's units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wattqueue.errors import InputError
from wattqueue.kernels import codes
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.supply import require_supply
from wattqueue.sim.reference import asked_partitions
from wattqueue_studies.bound.instance import Instance, JobBlocks, Whole

UNLIMITED_UW = np.iinfo(np.int64).max
"""Stands for no cap."""
WATT_STEPS = 1 << 20
"""Steps of the greatest cap in which an instance counts watts."""


@dataclass(frozen=True, slots=True, eq=False)
class JobChoices(JobBlocks):
    """What n jobs may run at: one row for each job, partition and clock, those of a job together.

    Attributes:
        names: Names of the jobs.
        release_s: Earliest start. Shape (n,).
        first: First row of each job, and the number of rows. Shape (n + 1,).
        option: Option of the machine. Shape (m,).
        partition: Its partition. Shape (m,).
        run_s: How long the job runs there, at its fastest. Shape (m,).
        nodes: Units that it takes. Shape (m,).
        net_uw: Watts that it takes of the cap, of the best units. Shape (m,).
        energy_j: Its energy there, idle share included, on the best units. Shape (m,).
        above_uw: Watts above idle, which a bill counts, whatever the cap counts; -1 where they are not known. (m,).
    """

    names: tuple[str, ...]
    release_s: Floats
    first: Whole
    option: Whole
    partition: Whole
    run_s: Floats
    nodes: Whole
    net_uw: Whole
    energy_j: Floats
    above_uw: Whole

    def from_job(self, job: int) -> JobChoices:
        """Return those of a job and all later ones."""
        low = self.first[job]
        whole = {name: getattr(self, name)[job:] for name in ("names", "release_s")}
        rows = ("option", "partition", "run_s", "nodes", "net_uw", "energy_j", "above_uw")
        return JobChoices(first=self.first[job:] - low, **whole, **{name: getattr(self, name)[low:] for name in rows})


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Jobs to schedule, and what they may use.

    Attributes:
        jobs: The jobs with their options.
        units: Units of each partition. Shape (P,).
        cap_s: When each value of the cap begins; the first at minus infinity or 0. Shape (k,).
        cap_uw: Watts that the cap leaves above idle; ``UNLIMITED_UW`` for none. Shape (k,).
        busy_until_s: Ends of the jobs that run at 0. Shape (f,).
        busy_partition: Their partitions. Shape (f,).
        busy_units: Their units. Shape (f,).
        busy_uw: Their watts. Shape (f,).
    """

    jobs: JobChoices
    units: Whole
    cap_s: Floats
    cap_uw: Whole
    busy_until_s: Floats
    busy_partition: Whole
    busy_units: Whole
    busy_uw: Whole

    @property
    def capped(self) -> bool:
        """Return whether any watts are limited."""
        return bool((self.cap_uw < UNLIMITED_UW).any())

    @property
    def tick_hz(self) -> int:
        """Return ticks a second: 1 where all times are whole seconds, else 1,000."""
        times = (self.jobs.release_s, self.jobs.run_s, self.busy_until_s, self.cap_s[np.isfinite(self.cap_s)])
        return 1 if all((column == np.rint(column)).all() for column in times) else 1_000

    def for_admission(self) -> Problem:
        """Return the problem in which a job may start wherever a cap of the longest run before would have let it.

        The cap is asked when a job starts (rule 13 of docs/semantics.md). The jobs that run at u did not exceed it when
        the last of them started, at most the longest run before u: so they do not exceed the highest cap since then.
        """
        if not self.capped:
            return self
        longest_s = float(self.jobs.run_s.max())
        begin = np.maximum(self.cap_s, 0.0)
        times = np.unique(np.concatenate((begin, begin + longest_s)))
        highest = [self._highest_uw(t - longest_s, t) for t in times.tolist()]
        return replace(self, cap_s=times, cap_uw=np.array(highest, np.int64))

    def _highest_uw(self, begin_s: float, end_s: float) -> int:
        """Return the highest cap in force between two times, both included."""
        first = max(int(np.searchsorted(self.cap_s, begin_s, side="right")) - 1, 0)
        last = max(int(np.searchsorted(self.cap_s, end_s, side="right")), first + 1)
        return int(self.cap_uw[first:last].max())

    def steps(self, *, wide: bool) -> tuple[Whole, Whole]:
        """Return what is free over time, in ticks, units and microwatts: times (s,) and amounts (P + 1, s).

        Times between two ticks are rounded so that more is free (``wide``), or less. Watts are ``UNLIMITED_UW`` without
        a cap. Where jobs that run already take more than there is, nothing is free.
        """
        hz, parts = self.tick_hz, len(self.units)
        limited = self.cap_uw < UNLIMITED_UW
        enough = self.jobs.net_uw.sum() + self.busy_uw.sum() + self.cap_uw[limited].max(initial=0) + 1
        cap = np.where(limited, self.cap_uw, enough)
        at = max(int(np.searchsorted(self.cap_s, 0.0, side="right")) - 1, 0)
        later = np.arange(at + 1, len(cap))
        free = np.append(self.units, cap[at]).astype(np.int64)
        np.subtract.at(free, self.busy_partition, self.busy_units)
        free[parts] -= self.busy_uw.sum()
        rows = np.concatenate((self.busy_partition, np.full(len(self.busy_until_s) + len(later), parts)))
        change = np.concatenate((self.busy_units, self.busy_uw, np.diff(cap)[at:]))
        time = np.concatenate((self.busy_until_s, self.busy_until_s, self.cap_s[later])) * hz
        ticks = np.where((change > 0) == wide, np.floor(time), np.ceil(time)).astype(np.int64)
        ticks = np.maximum(ticks, 0)
        edges, place = np.unique(np.append(0, ticks), return_inverse=True)
        table = np.zeros((parts + 1, len(edges)), np.int64)
        np.add.at(table, (rows, place[1:]), change)
        table[:, 0] += free
        return edges, np.maximum(np.cumsum(table, axis=1), 0)

    def with_running(self, option: Whole, until_s: Floats) -> Problem:
        """Return the problem in which the first jobs run at 0 already: each at one of its rows, until a time. (f,)."""
        jobs, f = self.jobs, len(option)
        return replace(
            self, jobs=jobs.from_job(f), busy_until_s=until_s, busy_partition=jobs.partition[option],
            busy_units=jobs.nodes[option], busy_uw=jobs.net_uw[option],
        )  # fmt: skip


def job_options(jobs: Jobs, machine: Machine, truth: Prediction, begin_s: float) -> JobChoices:
    """Return the options of jobs by what they truly draw and take.

    Of units that differ, a job gets the best: watts and run times are at most those of any placement.

    Raises: InputError naming a job that is wider than every partition that it may use, or has no option; PolicyError
    for power domains that can hold jobs back, under which the best schedule known would not be one.
    """
    require_supply("bound", machine, truth, "a bound", learns=False)
    asked = asked_partitions(jobs, [p.name for p in machine.partitions])
    work_s = np.minimum(jobs.runtime_s, jobs.walltime_s)
    row, option = _offered(jobs, machine, truth, asked)
    part = machine.option_partition[option].astype(np.int64)
    wattage = _least(truth.unit_factor, jobs, machine, row, part, sums=True)
    slowest = _least(truth.unit_time_factor, jobs, machine, row, part, sums=False)
    units = jobs.nodes[row].astype(np.int64)
    watts = truth.watts(row.astype(np.int32), option)
    total_w = watts * wattage
    idle = np.array([p.idle_w for p in machine.partitions])[part] * units
    total_uw, idle_uw = np.rint(total_w * codes.MICRO), np.rint(idle * codes.MICRO)
    net, above = (
        # The ledger counts a job with at least the idle watts of its units (rule 14); unknown watts stay negative.
        np.where(np.isnan(total_uw), -1, np.maximum(total_uw - less, 0)).astype(np.int64)
        for less in (np.zeros_like(idle_uw) if machine.cap_scope == "jobs" else idle_uw, idle_uw)
    )
    run_s = work_s[row] * truth.factors(row.astype(np.int32), option) * slowest
    first = np.searchsorted(row, np.arange(len(jobs) + 1))
    names = tuple(str(name) for name in jobs.job_id)
    release = np.maximum(jobs.submit_s - begin_s, 0.0)
    return JobChoices(names, release, first, option, part, run_s, units, net, np.nan_to_num(total_w * run_s), above)


def _offered(jobs: Jobs, machine: Machine, truth: Prediction, asked: Whole) -> tuple[Whole, Whole]:
    """Return the rows (job, option) that jobs may run at. Shapes (m,). Raises: InputError as ``job_options``."""
    n, part = len(jobs), machine.option_partition
    width = np.array([p.units for p in machine.partitions])[part]
    fits = (asked[:, None] < 0) | (asked[:, None] == part)
    every = np.arange(n, dtype=np.int32)
    watts = np.stack([truth.watts(every, o) for o in range(len(part))], axis=1)
    fits &= watts != np.inf
    wide = fits & (jobs.nodes[:, None] <= width)
    bad = np.flatnonzero(~wide.any(axis=1))
    if len(bad):
        most = int(np.where(fits[bad[0]], width, 0).max())
        raise InputError(
            f"needs {jobs.nodes[bad[0]]:,} units, and the widest partition that it may use has {most:,}",
            where=f"job {jobs.job_id[bad[0]]}", hint="no schedule runs it: leave it out",
        )  # fmt: skip
    row, option = np.nonzero(wide)
    return row.astype(np.int64), option.astype(np.int64)


def _least(factor: Floats | None, jobs: Jobs, machine: Machine, row: Whole, part: Whole, *, sums: bool) -> Floats:
    """Return of the units of least factor, as many as a job takes, the sum of factors or the greatest one. (m,)."""
    found = np.array(jobs.nodes[row] if sums else np.ones(len(row)), np.float64)
    if factor is None:  # all units are alike
        return found
    app = jobs.app.codes[row]
    for a in np.unique(app[app >= 0]).tolist():
        if np.isnan(factor[a]).all():  # an application without factors
            continue
        for p in range(len(machine.partitions)):
            rows = np.flatnonzero((app == a) & (part == p))
            low, high = machine.unit_start[p : p + 2].tolist()
            rising = np.sort(factor[a, low:high])
            reached = np.cumsum(rising) if sums else rising
            found[rows] = reached[jobs.nodes[row[rows]] - 1]
    return found


def machine_problem(options: JobChoices, machine: Machine, cap: Cap, begin_s: float, *, idle_off: bool) -> Problem:
    """Return the problem of jobs on an empty machine under a cap.

    ``idle_off``: idle nodes may be powered off, so that their watts are not lost to the cap.

    Raises: InputError naming a job whose watts are not known, where there is a cap.
    """
    idle_w = machine.scope_idle_w()
    if idle_off and machine.cap_scope == "machine":  # jobs take all their watts of the cap, idle ones included
        each_w = np.array([p.idle_w for p in machine.partitions])[options.partition]
        more = np.rint(each_w * options.nodes * codes.MICRO).astype(np.int64)
        net_uw = np.where(options.net_uw < 0, -1, options.net_uw + more)
        idle_w, options = 0.0, replace(options, net_uw=net_uw)
    finite = np.isfinite(cap.cap_w)
    limit_uw = np.full(len(finite), UNLIMITED_UW, np.int64)
    # One microwatt more: to within that the cap admits jobs (rule 13).
    limit_uw[finite] = np.maximum(np.floor((cap.cap_w[finite] - idle_w) * codes.MICRO) + 1, 0).astype(np.int64)
    units = np.array([p.units for p in machine.partitions], np.int64)
    nothing = np.zeros(0, np.int64)
    found = Problem(options, units, cap.time_s - begin_s, limit_uw, np.zeros(0), nothing, nothing, nothing)
    unknown = np.flatnonzero(options.net_uw < 0)
    if found.capped and len(unknown):
        raise InputError(
            "its watts are not known", where=f"job {options.names[options.job[unknown[0]]]}",
            hint="state mean_power_w for all jobs, or the machine's max_w, or leave the cap out",
        )  # fmt: skip
    return replace(found, jobs=replace(options, net_uw=np.maximum(options.net_uw, 0)))


def refuse_impossible(problem: Problem) -> None:
    """Refuse a job that no schedule can run. Raises: InputError naming it."""
    _, free = problem.steps(wide=True)
    most = free.max(axis=1)
    jobs = problem.jobs
    fits = (jobs.nodes <= most[jobs.partition]) & (jobs.net_uw <= most[-1])
    # What is free at the end is free for ever; before, a gap may be too short for a job, which the search finds.
    bad = np.flatnonzero(~np.logical_or.reduceat(fits, jobs.first[:-1]))
    if len(bad):
        row = int(jobs.first[bad[0]])
        raise InputError(
            f"needs {jobs.net_uw[row] / 1e6:,.1f} W above idle, and the cap never leaves more than "
            f"{most[-1] / 1e6:,.1f} W",
            where=f"job {jobs.names[bad[0]]}", hint="raise the cap, or leave the job out",
        )  # fmt: skip


def instance_of(problem: Problem, *, wide: bool = True) -> Instance:
    """Return a problem in whole numbers that allow at least as much; at most as much if not ``wide``.

    What is proven of a wide one holds for the problem, and a schedule of a narrow one is a schedule of the problem.
    """
    jobs, hz, parts = problem.jobs, problem.tick_hz, len(problem.units)
    time, free = problem.steps(wide=wide)
    amount = np.zeros((len(jobs.run_s), parts + 1), np.int64)
    amount[np.arange(len(jobs.run_s)), jobs.partition] = jobs.nodes
    limits = problem.cap_uw[problem.cap_uw < UNLIMITED_UW]
    step = max(1, int(limits.max(initial=0)) // WATT_STEPS) if wide else 1
    amount[:, parts], free[parts] = jobs.net_uw // step, -(-free[parts] // step)
    kept = slice(0, parts + problem.capped)
    down, up = (np.asarray(turn(jobs.release_s * hz), np.int64) for turn in (np.floor, np.ceil))
    run = (np.floor if wide else np.ceil)(jobs.run_s * hz).astype(np.int64)
    energy = np.floor(jobs.energy_j * 1_000).astype(np.int64)
    changes = np.append(True, (free[kept, 1:] != free[kept, :-1]).any(axis=0))
    found = Instance(
        hz, parts, down if wide else up, up, jobs.first.astype(np.int64), run, np.ascontiguousarray(amount[:, kept]),
        energy, time[changes], np.ascontiguousarray(free[kept, changes]),
    )  # fmt: skip
    return replace(found, release=found.soonest()) if wide else found
