"""Carry out ``StartJob``: the same for every driver, because every driver has a kernel view."""

from __future__ import annotations

import operator

import numpy as np

from wattqueue.kernels import actions as act
from wattqueue.kernels import state
from wattqueue.parts.actions import StartJob
from wattqueue.policy.actions import NO_OPTION, REASONS, WRONG_STATE
from wattqueue.policy.identity import JobNames


def start_job(kernel: state.KernelView, names: JobNames, action: StartJob) -> str:
    """Start an entry, as a custom pass would; return an empty text, or why not.

    Units that the action names must be those that the job gets by the policy's placement; other ones are refused
    rather than ignored.
    """
    entries = kernel.entries.of_job
    job, p = names.row(action.job), operator.index(action.partition)
    if not (0 <= job < len(entries) and 0 <= p < entries.shape[1]):
        return WRONG_STATE
    if action.nodes and sorted(action.nodes) != next_units(kernel, p, job):
        return NO_OPTION
    return REASONS[act.start_checked(kernel, int(entries[job, p]), operator.index(action.option))]


def next_units(kernel: state.KernelView, p: int, job: int) -> list[int]:
    """Return the numbers of the units that a start of ``job`` in partition p would take, rising; fewer if too few."""
    if not len(kernel.by_unit.order):
        return lowest_free(kernel, p, int(kernel.nodes[job]))
    found = np.empty(int(kernel.units.unit_start[-1]), np.int32)
    return sorted(found[: act.units_of_start(kernel, p, job, found)].tolist())


def lowest_free(kernel: state.KernelView, p: int, count: int) -> list[int]:
    """Return the numbers of the lowest free units of partition p, ``count`` of them or fewer."""
    units = kernel.units
    words = units.word[units.word_start[p] : units.word_start[p + 1]]
    free = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))[:count]
    return [int(units.unit_start[p]) + int(bit) for bit in free]


def unit_is_free(kernel: state.KernelView, unit: int) -> bool:
    """Return whether a unit is powered, up and without a job."""
    units = kernel.units
    p = int(np.searchsorted(units.unit_start, unit, side="right")) - 1
    i = unit - int(units.unit_start[p])
    return bool((int(units.word[units.word_start[p] + i // 64]) >> (i % 64)) & 1)
