"""Entries that a run may start: offered by the estimator, in a partition wide enough, of known watts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import MachineError
from wattqueue.model.jobs import NODES_ASKED, Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.consent_windows import Window

Ints = NDArray[np.integer]


def drop_unoffered(entries: Entries, window: Window, prediction: Prediction) -> tuple[Entries, Window]:
    """Drop entries whose watts are infinite: options that an estimator never offers.

    Kernels have no infinite microwatts. An entry is kept only if every option of its window is offered.
    """
    if not np.isinf(prediction.power_w).any():
        return entries, window
    keep = np.ones(len(window.first), np.bool_)
    for option in options_of(window.first, window.last):
        keep &= ~np.isinf(prediction.watts(entries.job, option))
    kept = Entries(entries.job[keep], entries.partition[keep], entries.priority[keep])
    return kept, window.take(keep)


def options_of(first: Ints, last: Ints) -> Iterator[Ints]:
    """Yield the options of all windows, one for each entry at a time; short windows repeat their last. Shapes (m,)."""
    for step in range(int((last - first).max(initial=-1)) + 1):
        yield np.minimum(first + step, last)


def drop_too_wide(entries: Entries, window: Window, jobs: Jobs, machine: Machine) -> tuple[Entries, Window]:
    """Drop entries wider than their partition, and those of partitions on which the job's GPUs need more units.

    They could never run, and would hold its reservation for ever. A job without any entry left is rejected (rule 4).
    """
    units = np.array([p.units for p in machine.partitions])
    fits = jobs.nodes[entries.job] <= units[entries.partition]
    if NODES_ASKED in jobs.extra:
        from wattqueue.parts.gpus import fitting

        fits &= fitting(jobs, machine)[entries.job, entries.partition]
    if fits.all():
        return entries, window
    return Entries(entries.job[fits], entries.partition[fits], entries.priority[fits]), window.take(fits)


def require_known_watts(entries: Entries, window: Window, prediction: Prediction, machine: Machine) -> None:
    """Raise MachineError if a cap applies to watts that are not known (NaN)."""
    if not np.isnan(prediction.power_w).any():
        return
    unknown = np.zeros(len(entries.job), np.bool_)
    for option in options_of(window.first, window.last):
        unknown |= np.isnan(prediction.watts(entries.job, option))
    if unknown.any():
        partition = machine.partitions[int(entries.partition[np.argmax(unknown)])].name
        raise MachineError(
            f"a cap needs the watts of every job, and those of {int(unknown.sum())} entries are not known",
            where=f"{machine.name}, partition {partition}",
            hint="give the unit's maximum (--node-watts IDLE:MAX, or max_w in the machine file), or use an "
            "estimator that predicts watts (--estimator oracle-mean)",
        )
