"""Where jobs ran when their watts and run times were recorded, as options of a machine (rule 21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, one_of
from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.machine import Machine

if TYPE_CHECKING:
    from wattqueue.model.physics import Physics

RAN_PARTITION, RAN_HZ = "ran_partition", "ran_frequency_hz"
"""Columns of a job table that state the reference of a job."""


def option_at(machine: Machine, partition: int, hz: float) -> int | None:
    """Return the option of a partition at a clock, NaN for the highest; None where it has no such clock."""
    from wattqueue.model.ear import SAME_HZ

    first, end = machine.option_start[partition : partition + 2].tolist()
    if np.isnan(hz):
        return int(first)
    near = np.flatnonzero(np.abs(machine.option_frequency_hz[first:end] - hz) <= SAME_HZ)
    return int(first + near[0]) if len(near) else None


def gpu_option(machine: Machine, partition: int, cap_w: float, where: str) -> int:
    """Return the option of a partition at a GPU limit. Raises: InputError for a limit that it does not have."""
    part = machine.partitions[partition]
    if cap_w not in part.gpu_caps_w:
        known = ", ".join(f"{cap:g}" for cap in part.gpu_caps_w) or "none: leave gpu_cap_w out"
        what = f"partition {part.name} has no GPU limit of {cap_w:g} W"
        raise InputError(what, where=where, hint=f"its limits: {known}")
    return int(machine.option_start[partition]) + part.gpu_caps_w.index(cap_w)


def refuse_clock(machine: Machine, partition: int, hz: float, where: str) -> None:
    """Raise InputError for a clock that a partition does not have."""
    part = machine.partitions[partition]
    known = ", ".join(f"{f:g}" for f in part.frequencies_hz) or "none: leave the clock out"
    raise InputError(f"partition {part.name} has no clock of {hz:g} Hz", where=where, hint=f"its clocks: {known}")


def reference_options(physics: Physics, jobs: Jobs, machine: Machine, known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the option at which each job ran when its watts and run time were recorded. Shape (n,).

    The job table states it (``ran_partition``, the job's own partition, ``ran_frequency_hz``), else the physics. A job
    without an application of the physics (not ``known``) may leave it open: it has the machine's first partition.

    Raises: InputError for a partition or clock that the machine lacks, and a job that leaves its reference open.
    """
    names = [p.name for p in machine.partitions]
    if physics.reference is not None and physics.reference not in names:
        raise InputError(
            f"{machine.name} has no partition {physics.reference!r}", where=f"{physics.where}: reference",
            hint=one_of(physics.reference, names),
        )  # fmt: skip
    stated = -1 if physics.reference is None else names.index(physics.reference)
    part = _stated_partitions(jobs, names)
    part = np.where(part < 0, stated if len(names) > 1 else 0, part)
    open_ = np.flatnonzero((part < 0) & known)
    if len(open_):
        app = jobs.app.names[jobs.app.codes[open_[0]]]
        raise InputError(
            f"the partition on which job {jobs.job_id[open_[0]]} of application {app} ran is not stated",
            where=physics.where,
            hint='state reference = "PARTITION", or a column ran_partition in the job table',
        )
    part = np.maximum(part, 0)
    hz = np.where((part == stated) | (len(names) == 1), physics.reference_hz or np.nan, np.nan)
    own = np.asarray(jobs.extra.get(RAN_HZ, np.full(len(jobs), np.nan)), np.float64)
    return _options(machine, part, np.where(np.isnan(own), hz, own), physics.where)


def asked_partitions(jobs: Jobs, names: list[str]) -> NDArray[np.int64]:
    """Return the partition that each user named, -1 for none that the machine has. Shape (n,)."""
    found = np.array([*(names.index(n) if n in names else -1 for n in jobs.partition.names), -1], np.int64)
    return found[jobs.partition.codes]


def _stated_partitions(jobs: Jobs, names: list[str]) -> NDArray[np.int64]:
    """Return the partition that the job table states for each job, -1 for none. Shape (n,).

    Raises: InputError for a partition in ``ran_partition`` that the machine lacks.
    """
    asked = asked_partitions(jobs, names)
    if RAN_PARTITION not in jobs.extra:
        return asked
    ran = Labels.of(jobs.extra[RAN_PARTITION])
    unknown = next((name for name in ran.names if name not in names), None)
    if unknown is not None:
        raise InputError(
            f"no partition {unknown!r}", where=f"job table, column {RAN_PARTITION}", hint=one_of(unknown, names)
        )
    own = np.array([*(names.index(n) for n in ran.names), -1], np.int64)[ran.codes]
    return np.where(own >= 0, own, asked)


def _options(machine: Machine, part: NDArray[np.int64], hz: Floats, where: str) -> NDArray[np.int64]:
    """Return the option of each partition and clock, NaN for the highest. Shapes (n,).

    Raises: InputError for a clock that a partition does not have.
    """
    clocks, clock = np.unique(hz, return_inverse=True)
    pairs, at = np.unique(part * max(len(clocks), 1) + clock, return_inverse=True)
    found = []
    for pair in pairs.tolist():
        p, own = pair // len(clocks), float(clocks[pair % len(clocks)])
        option = option_at(machine, p, own)
        if option is None:
            refuse_clock(machine, p, own, f"{where}: reference")
        found.append(option)
    return np.array(found, np.int64)[at]
