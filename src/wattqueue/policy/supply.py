"""Which power domains can limit a run, and what they are not combined with (rule 22 of docs/semantics.md).

A domain whose limit is never below its input with all units at the most that they can draw never binds. It is left out
before a run: a machine whose domains are all left out is scheduled as one without a tree, to the same nodes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import MachineError, PolicyError
from wattqueue.kernels.fresh import no_supply
from wattqueue.kernels.state import KernelView, SupplyLimits
from wattqueue.kernels.supply import new_supply
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.schedule import Reason
from wattqueue.model.signals import Cap, Signals
from wattqueue.model.supply import NO_MARGIN, Terms
from wattqueue.model.supply_binding import can_bind, tightest
from wattqueue.parts.contracts import Floats, Prediction


def greatest_unit_w(machine: Machine, prediction: Prediction, *, learns: bool) -> Floats:
    """Return the most that a unit of each partition can be counted at; inf where nothing bounds it. Shape (P,).

    ``learns``: predictions to come are not in the table; the stated maximum bounds them (``require_within``).
    """
    found = np.zeros(len(machine.partitions))
    for p, part in enumerate(machine.partitions):
        options = slice(int(machine.option_start[p]), int(machine.option_start[p + 1]))
        watts = prediction.power_w[:, options]
        predicted = float(watts[np.isfinite(watts)].max(initial=0.0))
        if prediction.unit_factor is not None:
            units = prediction.unit_factor[:, machine.unit_start[p] : machine.unit_start[p + 1]]
            predicted *= float(units[np.isfinite(units)].max(initial=1.0))
        found[p] = np.inf if learns and part.max_w is None else greatest_w(part, predicted)
    return found


def greatest_w(part: Partition, predicted_w: float) -> float:
    """Return the most that a unit can draw: the maximum as stated or predicted, or its share of a boot or shutdown."""
    moving = max(part.boot_w, part.shutdown_w, part.off_w) / part.units_per_node
    return max(part.max_w or 0.0, predicted_w, part.idle_w, moving)


def supply_limits(
    machine: Machine,
    prediction: Prediction,
    *,
    learns: bool,
    terms: Terms = NO_MARGIN,
    sample: NDArray[np.int64] | None = None,
    of_node: NDArray[np.int32] | None = None,
) -> SupplyLimits:
    """Return the domains of a machine that can hold jobs back, nothing running, and its nodes of GPUs.

    ``learns``: see ``greatest_unit_w``; ``terms``: see ``can_bind``; ``sample`` and ``of_node``: see ``new_supply``, by
    default nothing is known, and no GPUs are given by node.
    """
    sample = np.zeros(0, np.int64) if sample is None else sample
    of_node = np.zeros(len(machine.partitions), np.int32) if of_node is None else of_node
    keep = np.zeros(0, np.bool_)
    if machine.supply:
        keep = can_bind(machine, greatest_unit_w(machine, prediction, learns=learns), terms)
    if not keep.any():
        return _without_domains(machine, sample, of_node) if of_node.any() else no_supply()
    tree, kept = machine.supply_tree, np.flatnonzero(keep)
    number = tree.among(keep)
    times_s = kept_times_s(machine, keep)
    limits_w = np.stack([tree.domains[k].limits_at(np.array(times_s)) for k in kept], axis=1)
    found = new_supply(
        number[tree.parent[kept]],
        tree.gain[kept],
        machine.supply_idle_uw[kept],
        np.rint(limits_w * 1e6).astype(np.int64),
        np.array(times_s, np.float64),
        number[tree.of_unit],
        machine.unit_start,
        sample,
        of_node=of_node,
    )
    return found._replace(number=kept.astype(np.int32))


def _without_domains(machine: Machine, sample: NDArray[np.int64], of_node: NDArray[np.int32]) -> SupplyLimits:
    """Return the nodes of GPUs of a machine on which no domain can hold a job back."""
    none, above = np.zeros(0, np.int64), np.full(machine.units, -1, np.int32)
    limits, since = np.zeros((1, 0), np.int64), np.array([-np.inf])
    return new_supply(
        none.astype(np.int32), np.zeros(0), none, limits, since, above, machine.unit_start, sample, of_node=of_node
    )


def require_by_node(policy: str, machine: Machine, of_node: NDArray[np.int32], lacking: str) -> None:
    """Refuse GPUs that are given by node with what that is not combined with, ``lacking``; empty for nothing.

    Raises: PolicyError naming the first such partition.
    """
    if lacking and of_node.any():
        raise PolicyError(
            f"jobs ask for GPUs of {machine.partitions[int(np.argmax(of_node > 0))].name}, which gives them node by "
            f"node; not combined with that yet: {lacking}",
            where=policy,
            hint='let nodes be the units of the partition (unit = "node"), or leave the column gpus out',
        )


def kept_times_s(machine: Machine, keep: NDArray[np.bool_]) -> list[float]:
    """Return when limits of some domains change, and minus infinity before."""
    domains = (domain for domain, kept in zip(machine.supply_tree.domains, keep, strict=True) if kept)
    return [-np.inf, *sorted({time_s for domain in domains for time_s in domain.limit_s[1:]})]


def with_limit_times(signals: Signals, machine: Machine, terms: Terms = NO_MARGIN) -> Signals:
    """Return signals in which each time at which the limit of a domain changes is a signal, too (rule 2).

    ``terms``: see ``can_bind``.
    """
    if not machine.supply:
        return signals
    times_s = kept_times_s(machine, can_bind(machine, greatest_unit_w(machine, _nothing(machine), learns=True), terms))
    if len(times_s) == 1:
        return signals
    time_s = np.union1d(signals.cap.time_s, times_s[1:])
    return replace(signals, cap=Cap(time_s, np.asarray(signals.cap.at(time_s), np.float64)))


def require_supply(
    policy: str, machine: Machine, prediction: Prediction, lacking: str, *, learns: bool, terms: Terms = NO_MARGIN
) -> None:
    """Refuse domains that can bind with what they are not combined with, ``lacking``; empty for nothing.

    ``learns``: as in ``greatest_unit_w``; ``terms``: see ``can_bind``.

    Raises: PolicyError naming the first such domain.
    """
    if not machine.supply:
        return
    tree, keep = machine.supply_tree, can_bind(machine, greatest_unit_w(machine, prediction, learns=learns), terms)
    if not keep.any():
        return
    uneven = [k for k in np.flatnonzero(keep) if len({part.gain for part in tree.below[k]}) > 1]
    stated = can_bind(machine, greatest_unit_w(machine, _nothing(machine), learns=True), terms)
    moving = [k for k in np.flatnonzero(keep & ~stated) if tree.domains[k].limit_s]
    name = tree.domains[int(np.argmax(keep))].name
    if prediction.unit_factor is not None:
        lacking = lacking or "watts that depend on the unit"
    if uneven:
        name, lacking = tree.domains[uneven[0]].name, lacking or "units of one domain behind different efficiencies"
    if moving:
        name, lacking = tree.domains[moving[0]].name, lacking or "a moving limit and predictions above stated maxima"
    if lacking:
        raise PolicyError(
            f"{int(keep.sum())} power domains can hold jobs back, {name} is one; not combined with them yet: {lacking}",
            where=policy,
            hint="state limits that the greatest watts of their units keep (max_w), or leave [[supply]] out",
        )


def _nothing(machine: Machine) -> Prediction:
    """Return a prediction of no watts."""
    return Prediction(np.zeros((1, len(machine.option_partition))), np.ones((1, len(machine.option_partition))))


def require_begun(machine: Machine, begin_s: float) -> None:
    """Raise MachineError for a series of limits that begins after ``begin_s``, when the first job is submitted."""
    for domain in machine.supply:
        if domain.limit_s and domain.limit_s[0] > begin_s:
            raise MachineError(
                f"its limit begins at {domain.limit_s[0]:,.15g} s, and jobs are submitted from {begin_s:,.15g} s on",
                where=f"supply {domain.name}",
                hint="add a row for the begin of the jobs",
            )


def require_within(policy: str, machine: Machine, power_uw: NDArray[np.int64]) -> None:
    """Refuse a run in which an estimator that learns predicted more of a unit than bounds the domains left out.

    ``power_uw`` (rows, O) are all its predictions.

    Raises: PolicyError naming partition and watts.
    """
    for p, part in enumerate(machine.partitions):
        options = slice(int(machine.option_start[p]), int(machine.option_start[p + 1]))
        most_w = float(power_uw[:, options].max(initial=0)) / 1e6
        if part.max_w is not None and most_w > greatest_w(part, 0.0):
            raise PolicyError(
                f"predicted {most_w:,.15g} W of a unit of {part.name}, above its stated maximum of "
                f"{part.max_w:,.15g} W: power domains that were left out, since they cannot bind below it, might have",
                where=policy,
                hint="raise max_w in the machine file",
            )


def notes_of_run(
    policy: str, machine: Machine, view: KernelView, reason: NDArray[np.int8], online: object
) -> dict[str, int]:
    """Return the notes of ``held_back_by`` for a run that has ended.

    Raises: PolicyError as ``require_within``, where an estimator learned (``online``).
    """
    if machine.supply and online is not None:
        require_within(policy, machine, view.predicted.power_uw)
    return held_back_by(machine, view, reason)


def held_back_by(machine: Machine, view: KernelView, reason: NDArray[np.int8]) -> dict[str, int]:
    """Return a note for each domain that no job of reason ``SUPPLY`` gets past, with the number of these jobs.

    Of several domains that are too small for a job, it is the one that ``tightest`` names for its first partition.
    """
    found = dict[str, int]()
    for job in np.flatnonzero(reason == Reason.SUPPLY):
        p = int(np.flatnonzero(view.entries.of_job[job] >= 0)[0])
        option = int(view.entries.last[view.entries.of_job[job, p]])
        row = 0 if len(view.predicted.power_uw) == 1 else view.predicted.row[job] if len(view.predicted.row) else job
        idle_uw = 0 if machine.cap_scope == "jobs" else int(view.units.idle_uw[p])
        name = tightest(machine, p, max(int(view.predicted.power_uw[row, option]) - idle_uw, 0))[1]
        text = f"jobs with more watts than power domain {name} ever carries"
        found[text] = found.get(text, 0) + 1
    return found
