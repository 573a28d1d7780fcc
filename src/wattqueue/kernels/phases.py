"""Samples of the power profiles that true watts follow, where a run is asked to (``kernels/ticks.py``).

At another frequency, or on another partition, watts above idle shrink as the job's mean does (``sim/profiles.py``).
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.entries import unit_uw
from wattqueue.kernels.profile_power import place_of
from wattqueue.kernels.state import KernelView, Truth


@inlined
def has_profile(truth: Truth, job: int) -> bool:
    """Return whether the true watts of ``job`` follow a profile."""
    return bool(len(truth.phases.pattern) > 0 and truth.phases.pattern[job] >= 0)


@inlined
def true_unit_uw(view: KernelView, truth: Truth, job: int) -> int:
    """Return the true microwatts of one unit of a running job at full speed: its sample, or its option's figure."""
    if has_profile(truth, job):
        return int(truth.phases.unit_uw[job])
    return unit_uw(truth.actual, job, as_int64(view.held.option[job]))


@kernel
def sample_uw(view: KernelView, truth: Truth, job: int, place: int) -> int:
    """Return the microwatts of one unit of ``job``, at its option, in the period ``place`` of its profile."""
    phases = truth.phases
    q = phases.pattern[job]
    at = place_of(phases.first, phases.resume, as_int64(q), place)
    watt = (phases.base_w[job] + phases.scale_w[job] * phases.level[phases.first[q] + at]) * codes.MICRO
    option = as_int64(view.held.option[job])
    idle = view.units.idle_uw[view.units.option_partition[option]]
    mean, here = phases.mean_uw[job], unit_uw(truth.actual, job, option)
    if here != mean and mean > 0:
        if mean <= idle or here < idle:
            idle = as_int64(0)  # nothing above idle watts to shrink: the whole sample does
        watt = idle + (watt - idle) * ((here - idle) / (mean - idle))
    return as_int64(max(0.0, math.floor(watt + 0.5)))
