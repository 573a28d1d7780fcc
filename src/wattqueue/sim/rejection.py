"""Find the jobs that are rejected at submission, because no entry of them could ever run (rule 4 of docs/semantics.md).

A job that could never start would hold a reservation for ever. Decided once, before the run: it depends on the
machine and the cap only, never on what an estimator will have learned. After the run every other job that never ran
gets its reason (``model.schedule``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels.calls import least_nets, least_of_jobs
from wattqueue.kernels.state import KernelView, Log
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import Reason
from wattqueue.model.signals import Cap
from wattqueue.policy.build import idle_uw, unit_uw


def rejections(
    jobs: Jobs, view: KernelView, cap: Cap, machine: Machine, *, machine_figures: bool, switches_off: bool
) -> NDArray[np.int8]:
    """Return a Reason for each job. Shape (n,).

    The least watts of a job are the machine's own: its idle share, which the ledger never goes below, or,
    where the estimator takes the machine's stated maxima, those. A learned prediction never rejects. ``switches_off``:
    the policy switches idle nodes off, so that all other nodes may be.
    """
    reason = np.zeros(len(jobs), np.int8)
    reason[(view.entries.of_job < 0).all(axis=1)] = Reason.TOO_WIDE
    if not cap.limited:
        return reason
    gain = gain_uw(machine) if switches_off else None
    least = least_net_uw(view, machine_figures=machine_figures, on_uw=gain) + view.now.base_uw
    if gain is not None:
        least -= gain @ np.diff(machine.unit_start)
    highest = cap.highest_from(jobs.submit_s) * codes.MICRO
    reason[(reason == Reason.NONE) & (least > np.rint(highest))] = Reason.TOO_MUCH_POWER
    return reason


def state_reasons(jobs: Jobs, view: KernelView, cap: Cap, log: Log) -> None:
    """Give each job that never ran, and has no reason yet, the one that holds at the end of the run.

    A job whose predicted watts exceed every cap from its submission on never fits; any other is still queued.
    """
    left = (log.state == codes.NOT_STARTED) & (log.reason == Reason.NONE)
    if not left.any():
        return
    log.reason[left] = Reason.QUEUED
    if cap.limited:
        least = least_net_uw(view, machine_figures=True) + view.now.base_uw
        highest = np.rint(cap.highest_from(jobs.submit_s) * codes.MICRO)
        log.reason[left & (least > highest)] = Reason.NEVER_FITS


def margins_w(view: KernelView, least: Floats, log: Log) -> Floats | None:
    """Return the least margin in watts of each job that cannot start under the ledger, NaN for others; None for none.

    ``least`` (4,): see ``AnnouncedSteps.least``. Shape (n,).
    """
    rows = np.flatnonzero(log.reason == Reason.LEDGER).astype(np.int32)
    if not len(rows):
        return None
    found = np.zeros((len(rows), 4), np.int64)
    least_of_jobs(view, least, rows, found)
    margin = np.full(len(log.reason), np.nan)
    margin[rows] = found[:, 2] / codes.MICRO
    return margin


def gain_uw(machine: Machine) -> Floats:
    """Return the microwatts by which an idle unit of each partition draws more than one whose node is off. Shape (P,).

    Zeros where the cap does not cover idle nodes.
    """
    covered = machine.cap_scope == "machine"
    off = [codes.microwatts(part.off_w) * part.nodes / part.units for part in machine.partitions]
    gain: Floats = np.maximum(idle_uw(machine) - off, 0.0) * covered
    return gain


def least_net_uw(view: KernelView, *, machine_figures: bool, on_uw: Floats | None = None) -> NDArray[np.float64]:
    """Return the least net microwatts of each job over its entries and options; inf without an entry. Shape (n,).

    ``on_uw`` (P,): what each unit of a job costs besides, since its node may not be off.

    Windows are walked option by option over all entries at once; shorter windows repeat their last option.
    """
    entries, idle = view.entries, view.units.idle_uw[view.units.option_partition]
    least = np.full(len(view.nodes), np.inf)
    width = int((entries.last - entries.first).max(initial=0)) + 1
    share = 0 if view.now.scope_jobs else 1
    for step in range(width):
        option = np.minimum(entries.first.astype(np.int64) + step, entries.last)
        unit = idle[option].astype(np.float64)
        if machine_figures:
            unit = unit_uw(view.predicted, entries.job, option).astype(np.float64)
        net = view.nodes[entries.job] * np.maximum(unit - share * idle[option], 0.0)
        if machine_figures and len(view.by_unit.factors.table):
            least_nets(view, entries.job, option, net)  # the best units: some of them may be free one day
        if on_uw is not None:
            net += view.nodes[entries.job] * on_uw[view.units.option_partition[option]]
        np.minimum.at(least, entries.job, net)
    return least
