"""The power of a finished run whose jobs carry power profiles: series, energies, and how their exact sum kept the cap.

The engine counts each job with its mean watts. Afterwards, from the starts and ends of the schedule, this
replaces the constant of each profiled job by its samples (``kernels/profile_power.py``). The sum is exact (int64
microwatts). Energies change only by the rounding of samples to microwatts, because a profile's mean is the job's mean.

The exact sum changes with every sample of every running job, and has millions of rows a week. So ``with_phases``
computes it window by window and keeps none of it: figures of the cap are taken from the exact sum; the series that a
run keeps is its mean between rows of 20 s and the run's own rows (every start, end and change of nodes), which has the
same energy. ``with_profiles`` keeps the whole series.

A profile describes one unit of factor 1; where units differ, the job's units together draw its samples times the sum of
their factors. It describes a run at one speed from start to end. Jobs that changed speed, or ran more than once, keep
their constant watts and are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import EngineError, InputError
from wattqueue.kernels import codes
from wattqueue.kernels.calls import run_energies, sum_on_grid, sum_steps, sum_units
from wattqueue.kernels.fresh import new_heap, new_held
from wattqueue.kernels.profile_power import Merged, NextSteps, OwnRows, PatternTable, RunTable, StepRing
from wattqueue.kernels.state import UnitFactorTable
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import CapFigures, LimitSums, cap_figures, span
from wattqueue.model.profiles import PERIOD_S
from wattqueue.model.schedule import PowerSeries, Schedule
from wattqueue.model.steps import Steps, rows_at
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.build import rows_of, time_factors, unit_uw
from wattqueue.policy.by_unit import unit_factors
from wattqueue.sim.engine import Run
from wattqueue.sim.truth import actual_power

if TYPE_CHECKING:
    from wattqueue.model.profiles import PowerProfiles

STEPS_A_WINDOW = 2_000_000
_CHANGED = 1e-6  # relative difference of energy, or seconds, from which a run was not at one speed

PROFILE_NOT_USED = "jobs whose power profile does not fit their run (constant watts used)"
"""Key of the note of a run that counts them, as it is printed."""


@dataclass(frozen=True, slots=True, eq=False)
class ProfiledRuns:
    """The runs that profiles describe.

    Jobs whose speed changed under way, or that were requeued and ran more than once, are left out and counted.
    """

    runs: RunTable
    """The runs as the kernels take them."""
    patterns: PatternTable
    """The samples that they refer to."""
    rows: NDArray[np.intp]
    """The job of each run. Shape (k,)."""
    left: int
    """Profiled jobs that keep their constant watts."""


def with_profiles(run: Run) -> Run:
    """Return the run with the power series that its jobs' profiles add up to, and their energies.

    ``notes`` counts ``PROFILE_NOT_USED`` jobs (ProfiledRuns.left).

    Raises: InputError if no job has a profile.
    """
    found = profiled(run)
    return _with_power(run, found, _joined(list(power_windows(found, run.power))))


def _with_power(run: Run, found: ProfiledRuns, power: PowerSeries) -> Run:
    """Return a run with another power series, and the energies of its profiles."""
    energy = run.schedule.energy_j.copy()
    energy[found.rows] = energies_j(found)
    notes = {**run.notes, PROFILE_NOT_USED: found.left} if found.left else run.notes
    return replace(run, power=power, schedule=replace(run.schedule, energy_j=energy), notes=notes)


def profile_power(run: Run, *, begin_s: float | None = None, end_s: float | None = None) -> PowerSeries:
    """The power series of a run whose jobs carry profiles, from ``begin_s`` to ``end_s``.

    Rows stand at each moment when power changes; the first at ``begin_s``, the last at ``end_s`` (defaults: the
    run's own first and last).

    Raises: InputError if no job has a profile, or the window ends before it begins.
    """
    found = profiled(run)
    return _joined(list(power_windows(found, run.power, begin_s=begin_s, end_s=end_s)))


def profiled(run: Run) -> ProfiledRuns:
    """Return the runs of a simulation whose watts follow a profile: those that kept one speed from start to end.

    A run counts as steady if its length and its energy are those of the option at which it ran, on its units, to
    ``_CHANGED``.
    """
    jobs, schedule, machine, actual = run.jobs, run.schedule, run.machine, run.actual
    if jobs.profiles is None:
        raise InputError("no job carries a power profile", hint="use a workload or trace format that has samples")
    profiles = jobs.profiles
    rows = np.flatnonzero(schedule.ran & (profiles.pattern >= 0))
    unit_uw, factor = at_option(jobs, machine, actual, rows, schedule)
    start, end = schedule.start_s[rows], schedule.end_s[rows]
    work = np.minimum(jobs.runtime_s, jobs.walltime_s)[rows]
    total_uw = jobs.nodes[rows] * unit_uw
    differ = actual is not None and actual.unit_factor is not None
    if actual is not None and differ:
        total_uw = on_units(jobs, actual, schedule, rows, unit_uw)
    constant_j = (end - start) * (total_uw / codes.MICRO)
    steady = np.abs(end - start - work * factor) <= _CHANGED * np.maximum(1.0, end - start)
    steady &= np.abs(schedule.energy_j[rows] - constant_j) <= _CHANGED * np.maximum(1.0, constant_j)
    runs = _runs(jobs, machine, profiles, rows, schedule, unit_uw, factor)
    if differ:
        runs = _as_one_unit(runs, total_uw)
    patterns = PatternTable(profiles.level, profiles.first, profiles.resume)
    return ProfiledRuns(RunTable(*(column[steady] for column in runs)), patterns, rows[steady], int((~steady).sum()))


def energies_j(found: ProfiledRuns) -> Floats:
    """Return the energy of each profiled run over its samples, all units. Shape (k,)."""
    energy = np.empty(len(found.rows))
    run_energies(found.patterns, found.runs, energy)
    return energy


def at_option(
    jobs: Jobs, machine: Machine, actual: Prediction | None, rows: NDArray[np.intp], schedule: Schedule
) -> tuple[NDArray[np.int64], Floats]:
    """Return true microwatts of one unit, and time factors, at the options that jobs ran with. Shapes (k,).

    Where units differ in speed, a job's time factor is that of its slowest unit.
    """
    table, option = rows_of(actual or actual_power(jobs, machine)), schedule.option[rows]
    factor = time_factors(table, rows, option)
    if actual is not None and actual.unit_time_factor is not None:
        factor = factor * _slowest(unit_factors(jobs.app, actual.unit_time_factor), schedule, rows)
    return unit_uw(table, rows, option), factor


def _slowest(times: UnitFactorTable, schedule: Schedule, rows: NDArray[np.intp]) -> Floats:
    """Return the greatest time factor among the units of each job. Shape (k,)."""
    found = np.ones(len(rows))
    for k, job in enumerate(rows.tolist()):
        first, own = int(schedule.unit_start[job]), times.table[times.row[job]]
        held = range(first, first + int(schedule.unit_count[job]))
        found[k] = max(float(own[schedule.unit_low[i] : schedule.unit_high[i] + 1].max()) for i in held)
    return found


def on_units(
    jobs: Jobs, actual: Prediction, schedule: Schedule, rows: NDArray[np.intp], unit_uw: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return true microwatts of whole jobs on the units that they held, which differ. Shape (k,)."""
    held = new_held(0, 0)._replace(
        first=schedule.unit_start, pieces=schedule.unit_count, low=schedule.unit_low, high=schedule.unit_high
    )
    total = np.empty(len(rows), np.int64)
    sum_units(held, unit_factors(jobs.app, actual.unit_factor), rows.astype(np.int32), unit_uw, total)
    return total


def _as_one_unit(runs: RunTable, total_uw: NDArray[np.int64]) -> RunTable:
    """Return runs on units that differ as runs on one unit that draws what all of theirs draw together.

    Samples are then rounded to 1 µW once for the job.
    """
    times = total_uw / np.maximum(runs.constant_uw, 1)
    return runs._replace(
        base_w=runs.base_w * times, scale_w=runs.scale_w * times, nodes=np.ones_like(runs.nodes), constant_uw=total_uw
    )


def _runs(
    jobs: Jobs, machine: Machine, profiles: PowerProfiles, rows: NDArray[np.intp], schedule: Schedule,
    unit_uw: NDArray[np.int64], factor: Floats,
) -> RunTable:  # fmt: skip
    """Return runs with base and scale at the speed they had.

    Watts above idle shrink at a lower speed as the job's mean does, and samples come at longer periods. Where a mean is
    not above idle watts, the whole sample shrinks: the mean of the samples is the true one in either case.
    """
    partition_idle = np.array([p.idle_w for p in machine.partitions])
    idle = partition_idle[machine.option_partition[schedule.option[rows]]]
    work = np.minimum(jobs.runtime_s, jobs.walltime_s)
    mean = profiles.mean_power_w(work)[rows]
    slowed = (unit_uw != np.rint(mean * codes.MICRO)) & (mean > 0.0)
    idle = np.where((mean > idle) & (unit_uw / codes.MICRO >= idle), idle, 0.0)
    shrink = np.where(slowed, (unit_uw / codes.MICRO - idle) / np.where(slowed, mean - idle, 1.0), 1.0)
    return RunTable(
        profiles.pattern[rows],
        np.where(slowed, idle + (profiles.base_w[rows] - idle) * shrink, profiles.base_w[rows]),
        profiles.scale_w[rows] * shrink,
        profiles.period_s * factor,
        jobs.nodes[rows],
        unit_uw,
        schedule.start_s[rows],
        schedule.end_s[rows],
    )


def power_windows(
    found: ProfiledRuns, own: PowerSeries, *, begin_s: float | None = None, end_s: float | None = None,
    steps: int = STEPS_A_WINDOW,
) -> Iterator[PowerSeries]:  # fmt: skip
    """Yield the power series window by window, about ``steps`` samples each, so that memory stays bounded.

    Each window has rows at its begin and at its end, where the next one begins: sums over windows (energy,
    seconds above a cap) are sums over the whole. ``own`` is the run's series with constant watts.
    """
    if len(own.time_s) == 0:
        yield own
        return
    begin = float(own.time_s[0]) if begin_s is None else float(begin_s)
    end = float(own.time_s[-1]) if end_s is None else float(end_s)
    if not begin <= end:
        raise InputError(f"the power window ends at {end} s, before it begins at {begin} s")
    edges = _edges(found.runs, begin, end, steps)
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield _window(found, own, low, high)


def _edges(runs: RunTable, begin: float, end: float, steps: int) -> Floats:
    """Return where to cut so that each window holds about ``steps`` samples. Shape (windows + 1,).

    Sums up the sampling rate of running jobs over time, and cuts at equal shares of the total.
    """
    low, high = np.maximum(runs.start_s, begin), np.minimum(runs.end_s, end)
    inside = low < high
    rate = 1.0 / runs.period_s[inside]
    time = np.concatenate((low[inside], high[inside]))
    order = np.argsort(time, kind="stable")
    time, rate = time[order], np.cumsum(np.concatenate((rate, -rate))[order])
    total = np.concatenate(([0.0], np.cumsum(np.maximum(rate[:-1], 0.0) * np.diff(time)))) if len(time) else np.zeros(1)
    windows = max(1, int(np.ceil(total[-1] / steps)))
    if windows == 1:
        return np.array([begin, end])
    cuts = np.interp(np.arange(1, windows) * (total[-1] / windows), total, time)
    return np.unique(np.concatenate(([begin], cuts, [end])))


def _window(found: ProfiledRuns, own: PowerSeries, begin: float, end: float) -> PowerSeries:
    """Return one window's rows, the first at its begin, the last at its end.

    The steps of ``kernels/profile_power.py``, for the runs that overlap the window.

    Raises: EngineError if watts remain after the last job ended: the sum would be wrong everywhere.
    """
    runs = found.runs
    touched = np.flatnonzero((runs.start_s <= end) & (runs.end_s > begin))
    touched = touched[np.argsort(runs.start_s[touched], kind="stable")]
    runs = RunTable(*(column[touched] for column in runs))
    own_row, own_last = int(rows_at(own.time_s, begin)), int(np.searchsorted(own.time_s, end, side="right"))
    length = np.minimum(runs.end_s, end) - np.maximum(runs.start_s, begin)
    steps = int((length / runs.period_s).sum()) + 3 * len(touched)  # at most; a start, an end and rounding for each run
    rows_at_most = steps + own_last - own_row + 2  # memory that no row is written to is never claimed
    own_time = np.append(begin, own.time_s[own_row + 1 : own_last])
    grid = _grid(runs, own_time, end, steps)
    if grid is not None:
        cells, own_cell, total = grid
        out = _room(len(total) + 1)
        period = float(runs.period_s[0])
        rows = sum_on_grid(found.patterns, runs, out, OwnRows(own_cell, own_time, own_row), cells, total, period)
        out.time[rows - 1] = min(out.time[rows - 1], end)  # a multiple may be rounded to just above the end
    else:
        out = _room(rows_at_most)
        rows = sum_steps(found.patterns, runs, _next_steps(len(touched)), out, own.time_s, own_row, begin, end)
    if end >= own.time_s[-1] and out.off_uw[rows - 1] != 0:
        raise EngineError("power profiles: the sum is not 0 after the last job ended")
    if out.time[rows - 1] < end:
        out.time[rows], out.row[rows], out.off_uw[rows] = end, out.row[rows - 1], out.off_uw[rows - 1]
        rows += 1
    return _series(own, Merged(*(column[:rows] for column in out)))


def _grid(
    runs: RunTable, own_time: Floats, end: float, steps: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """Return what ``sum_on_grid`` takes, by multiples of the period: start and end of runs, the own rows, zeros.

    None where the periods differ, where a run or a row of the window (apart from its begin) is at no multiple, where
    the window begins less than a rounding error before a multiple, whose steps are not in force yet, and where there
    are more multiples than ``steps``: then a sum in order of time is faster.
    """
    if not len(runs.start_s) or (runs.period_s != runs.period_s[0]).any():
        return None
    period = float(runs.period_s[0])
    low, high = _multiple_below(own_time[0], period), _multiple_below(end, period)
    if high - low >= steps or low * period > own_time[0]:
        return None
    cells = _multiples(np.column_stack((runs.start_s, runs.end_s)), period)
    later = _multiples(own_time[1:], period)
    if cells is None or later is None:
        return None
    return cells, np.append(low, later), np.zeros(high - low + 1, np.int64)


def _multiples(time_s: Floats, period_s: float) -> NDArray[np.int64] | None:
    """Return how many periods each time is; None if one is no multiple, up to the rounding of float64."""
    found = np.rint(time_s / period_s)
    near = np.abs(time_s - found * period_s) <= 4 * np.spacing(np.abs(time_s) + period_s)
    return found.astype(np.int64) if near.all() else None


def _multiple_below(time_s: float, period_s: float) -> int:
    """Return the number of whole periods up to a time."""
    exact = _multiples(np.array([time_s]), period_s)
    return int(np.floor(time_s / period_s)) if exact is None else int(exact[0])


def _room(rows: int) -> Merged:
    """Return room for rows of a sum."""
    return Merged(np.empty(rows), np.empty(rows, np.int64), np.empty(rows, np.int64))


def _next_steps(runs: int) -> NextSteps:
    """Return room for the next step of each run."""
    sample, place, now_uw = np.empty((3, runs), np.int64)
    ring = 1 << runs.bit_length()
    time, run = np.empty(ring), np.empty(ring, np.int64)
    return NextSteps(sample, place, now_uw, time, run, new_heap(runs, runs), StepRing())


def _series(own: PowerSeries, merged: Merged) -> PowerSeries:
    """Return the watts of merged rows; what is not of jobs is the run's own."""
    at = merged.row
    jobs_w = (np.rint(own.jobs_w[at] * codes.MICRO).astype(np.int64) + merged.off_uw) / codes.MICRO
    return PowerSeries(merged.time, jobs_w, own.other_w[at], own.busy_idle_w[at], own.busy_units[at])


def _joined(parts: list[PowerSeries]) -> PowerSeries:
    """Concatenate windows: the same rows, wherever the cuts were.

    Rows at a cut where nothing changed are removed.
    """
    if len(parts) == 1:
        return parts[0]
    names = ("time_s", "jobs_w", "other_w", "busy_idle_w", "busy_units")
    whole = {n: np.concatenate([getattr(p, n)[(k > 0) :] for k, p in enumerate(parts)]) for n in names}
    seams = np.cumsum([len(p.time_s) - (k > 0) for k, p in enumerate(parts)])[:-1] - 1
    idle = np.all([whole[n][seams] == whole[n][seams - 1] for n in names[1:]], axis=0)  # nothing changed there
    return PowerSeries(**{n: np.delete(column, seams[idle]) for n, column in whole.items()})


def has_phases(run: Run) -> bool:
    """Return whether some job carries a power profile that the run itself did not follow (``simulate(phases_s=)``)."""
    profiles = run.jobs.profiles
    return run.phases_s is None and profiles is not None and bool((profiles.pattern >= 0).any())


def with_phases(run: Run, period_s: float = PERIOD_S) -> tuple[Run, CapFigures]:
    """Return the run with the power of its jobs' profiles, and how their exact sum kept the cap.

    The series holds means over at most ``period_s``; energies of jobs are those of their samples.
    ``notes`` counts the jobs of ``PROFILE_NOT_USED``, which keep their constant watts (see ProfiledRuns.left).

    Raises: InputError if no job has a profile.
    """
    found = profiled(run)
    begin, end = span(run.jobs, run.schedule)
    if len(run.power.time_s) == 0:  # no job ran, so there is nothing to replace
        return run, cap_figures(run.power, run.machine, run.cap, begin, end)
    kept, parts = LimitSums(), []
    for series in power_windows(found, run.power):
        low, high = max(begin, float(series.time_s[0])), min(end, float(series.time_s[-1]))
        kept = kept.plus(LimitSums.of(series, run.machine, run.cap, low, high))
        parts.append(_means(series, run.power.time_s, period_s))
    return _with_power(run, found, _ends_joined(parts)), kept.figures()


def _means(series: PowerSeries, own_s: Floats, period_s: float) -> PowerSeries:
    """Return the mean of the sum between rows of the run's own and of a grid.

    The last row stands at the window's end. The mean comes from the cumulated energy at the edges, so that the energy
    of the series is that of the exact sum.
    """
    time = series.time_s
    first, last = float(time[0]), float(time[-1])
    if len(time) < 2:
        return series
    grid = np.arange(np.floor(first / period_s) + 1, np.ceil(last / period_s)) * period_s
    own = own_s[(own_s > first) & (own_s < last)]
    edges = np.unique(np.concatenate(([first], grid, own, [last])))
    mean = Steps(time, series.jobs_w).means(edges)
    watts = np.rint(np.append(mean, series.jobs_w[-1]) * codes.MICRO) / codes.MICRO
    at = rows_at(time, edges)
    return PowerSeries(edges, watts, series.other_w[at], series.busy_idle_w[at], series.busy_units[at])


def _ends_joined(parts: list[PowerSeries]) -> PowerSeries:
    """Concatenate windows; the last row of each but the last window is the first of the next."""
    names = ("time_s", "jobs_w", "other_w", "busy_idle_w", "busy_units")
    cut = [slice(None, -1)] * (len(parts) - 1) + [slice(None)]
    return PowerSeries(
        **{n: np.concatenate([getattr(p, n)[c] for p, c in zip(parts, cut, strict=True)]) for n in names}
    )
