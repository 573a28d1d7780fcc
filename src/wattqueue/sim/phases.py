"""Figures and power series of a finished run whose jobs carry power profiles.

The exact sum of all profiles changes with every sample of every running job, and has millions of rows a week. So it is
computed window by window (``sim/profiles.py``) and never kept: figures of the cap are taken from the exact sum; the
series that a run keeps is its mean between rows of 20 s and the run's own rows (every start, end and change of nodes),
which has the same energy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattqueue.kernels import codes
from wattqueue.model.jobs import Floats
from wattqueue.model.metrics import CapFigures, LimitSums, cap_figures, span
from wattqueue.model.profiles import PERIOD_S
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.steps import Steps, rows_at
from wattqueue.sim.engine import Run
from wattqueue.sim.profiles import PROFILE_NOT_USED, energies_j, power_windows, profiled


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
    found = profiled(run.jobs, run.schedule, run.machine)
    begin, end = span(run.jobs, run.schedule)
    if len(run.power.time_s) == 0:  # no job ran, so there is nothing to replace
        return run, cap_figures(run.power, run.machine, run.cap, begin, end)
    kept, parts = LimitSums(), []
    for series in power_windows(found, run.power):
        low, high = max(begin, float(series.time_s[0])), min(end, float(series.time_s[-1]))
        kept = kept.plus(LimitSums.of(series, run.machine, run.cap, low, high))
        parts.append(_means(series, run.power.time_s, period_s))
    energy = run.schedule.energy_j.copy()
    energy[found.rows] = energies_j(found)
    notes = {**run.notes, PROFILE_NOT_USED: found.left} if found.left else run.notes
    power = _joined(parts)
    return replace(run, power=power, schedule=replace(run.schedule, energy_j=energy), notes=notes), kept.figures()


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


def _joined(parts: list[PowerSeries]) -> PowerSeries:
    """Concatenate windows; the last row of each but the last window is the first of the next."""
    names = ("time_s", "jobs_w", "other_w", "busy_idle_w", "busy_units")
    cut = [slice(None, -1)] * (len(parts) - 1) + [slice(None)]
    return PowerSeries(
        **{n: np.concatenate([getattr(p, n)[c] for p, c in zip(parts, cut, strict=True)]) for n in names}
    )
