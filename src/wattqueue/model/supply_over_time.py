"""Free units and load of power domains over time, from a schedule (rule 22 of docs/semantics.md).

Jobs count what the ledger counted when they started, all nodes count as up, and a job that began again has its last run
alone. Watts are net: above idle, unless the cap covers jobs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.domain_load import added_w
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import HeldUnits, Schedule
from wattqueue.model.signals import Cap

CELLS = 2_000_000
"""Domains x times that are computed at once."""


class BindingTree(NamedTuple):
    """The domains that can withhold anything, those below others first; what stands above all is row G. Shapes (G,)."""

    number: NDArray[np.int64]
    """Row of the lowest such domain of each unit, G for none. Shape (U,)."""
    parent: list[int]
    domain: list[int]
    """Number in the machine's tree."""
    fixed: Floats
    """Base and idle watts of each."""
    gain: Floats
    one: bool
    """Whether one domain feeds the whole machine."""
    units: NDArray[np.int64]
    """Units of each partition. Shape (P,)."""

    @classmethod
    def of(cls, machine: Machine, unit_w: Floats) -> BindingTree:
        """Return the tree; ``unit_w`` (P,) the greatest net watts of a unit."""
        tree = machine.supply_tree
        most = tree.input_uw([a + b for a, b in zip(machine.unit_scope_idle_w, unit_w.tolist(), strict=True)]) / 1e6
        keep = np.array([domain.least_limit_w for domain in tree.domains]) < most
        kept = np.flatnonzero(keep)
        number = tree.among(keep).astype(np.int64)
        row = np.where(number < 0, len(kept), number)
        tops = np.flatnonzero(tree.parent < 0)
        return cls(
            row[tree.of_unit],
            [int(row[tree.parent[k]]) for k in kept],
            kept.tolist(),
            machine.supply_idle_uw[kept] / 1e6,
            tree.gain[kept],
            len(tops) == 1 and bool(keep[tops[0]]),
            np.diff(machine.unit_start),
        )

    def limits_w(self, machine: Machine, times: Floats) -> Floats:
        """Return what each domain's limit leaves above base and idle watts, as watts of units. Shape (G, k)."""
        domains = [machine.supply_tree.domains[k] for k in self.domain]
        found = np.empty((len(domains), len(times)))
        for k, domain in enumerate(domains):
            found[k] = (domain.limits_at(times) - self.fixed[k]) / self.gain[k]
        return found


class UnitsHeld(NamedTuple):
    """What jobs take when they start, and give back when they end; a row for each interval of units. Shapes (r,)."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    start_s: Floats
    end_s: Floats
    net_w: Floats
    """Net watts of each unit."""
    partition: NDArray[np.int64]
    most_w: Floats
    """Net watts of a unit of each partition at its maximum. Shape (P,)."""
    job_w: Floats
    """Net watts of a unit of each job that ran. Shape (n,)."""

    @classmethod
    def of(cls, jobs: Jobs, schedule: Schedule, machine: Machine) -> UnitsHeld:
        """Return them for the jobs that ran."""
        ran = schedule.ran
        part = machine.option_partition[np.maximum(schedule.option, 0)]
        idle = machine.unit_net_idle_w
        net = added_w(machine, schedule, np.nan_to_num(schedule.predicted_w) / jobs.nodes)
        unit_w = np.array(
            [
                float(net[ran & (part == p)].max(initial=0.0)) if one.max_w is None else max(one.max_w - idle[p], 0.0)
                for p, one in enumerate(machine.partitions)
            ]
        )
        held = HeldUnits.of(schedule)
        there = ran[held.job]
        job = held.job[there]
        low, high = (side[there].astype(np.int64) for side in (held.low, held.high))
        where = part[job].astype(np.int64)
        return cls(low, high, schedule.start_s[job], schedule.end_s[job], net[job], where, unit_w, net)

    def tree(self, machine: Machine) -> BindingTree:
        """Return the domains that can withhold watts from a free unit at its maximum, or from some job."""
        greatest = [
            max(float(most), float(self.net_w[self.partition == p].max(initial=0.0)))
            for p, most in enumerate(self.most_w)
        ]
        return BindingTree.of(machine, np.array(greatest))


def event_times(jobs: Jobs, schedule: Schedule, machine: Machine, cap: Cap) -> Floats:
    """Return when a job starts or ends, or a limit changes, from the first submission to the last end. Shape (k,)."""
    ran = schedule.ran
    changes = (schedule.start_s[ran], schedule.end_s[ran], jobs.submit_s, cap.time_s, machine.supply_tree.times_s)
    times: Floats = np.unique(np.concatenate(changes))
    begin = float(jobs.submit_s.min(initial=np.inf))
    return times[(times >= begin) & (times <= float(schedule.end_s.max(where=ran, initial=begin)))]


class Moment(NamedTuple):
    """Some times, and the machine at each of them; T times, G domains and what stands above all behind them."""

    time_s: Floats
    """Shape (T,)."""
    free: Floats
    """Free units of each partition of which each domain is the lowest. Shape (P, G + 1, T)."""
    load_w: Floats
    """Net watts of the jobs below each domain. Shape (G + 1, T)."""
    limit_w: Floats
    """What its limit leaves above base and idle watts, as watts of units. Shape (G, T)."""
    root_w: Floats
    """What the cap leaves above idle watts. Shape (T,)."""


def moments(tree: BindingTree, held: UnitsHeld, times: Floats, machine: Machine, cap: Cap) -> Iterator[Moment]:
    """Yield the machine at rising times, some after the other; changes at a time are applied."""
    rows, partitions = len(tree.domain) + 1, len(machine.partitions)
    row, source, units, partition = _changes(tree.number, held)
    at = np.searchsorted(times, np.concatenate((held.start_s, held.end_s))[source])
    order = np.argsort(at, kind="stable")
    at, row, units, partition = at[order], row[order], units[order], partition[order]
    load = -units * np.concatenate((held.net_w, held.net_w))[source][order]
    place = partition * rows + row
    owner = np.repeat(np.arange(partitions), np.diff(machine.unit_start))
    free_before = np.bincount(owner * rows + tree.number, minlength=partitions * rows).astype(np.float64)
    load_before = np.zeros(rows)
    step = max(CELLS // rows, 1)
    for first in range(0, len(times), step):
        now = times[first : first + step]
        here = slice(*np.searchsorted(at, (first, first + len(now))))
        column = at[here] - first
        free = _added(place[here] * len(now) + column, units[here], free_before, len(now))
        loads = _added(row[here] * len(now) + column, load[here], load_before, len(now))
        free_before, load_before = free[:, -1].copy(), loads[:, -1].copy()
        for k, parent in enumerate(tree.parent):  # those below others first
            loads[parent] += loads[k]
        root = np.asarray(cap.at(now), np.float64) - machine.scope_idle_w()
        yield Moment(now, free.reshape(partitions, rows, -1), loads, tree.limits_w(machine, now), root)


def _added(place: NDArray[np.int64], change: Floats, before: Floats, times: int) -> Floats:
    """Return rows of sums over time: ``before`` (r,), and changes at places row x times + time. Shape (r, times)."""
    found = np.bincount(place, change, len(before) * times).reshape(len(before), times).cumsum(axis=1)
    return np.asarray(found + before[:, np.newaxis], np.float64)


def _changes(
    number: NDArray[np.int64], held: UnitsHeld
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Return what intervals of units change at their starts, and reversed at their ends. Shapes (c,).

    Row of the tree; row of the interval, those behind the last one being the ends; free units; partition.
    """
    cut = np.flatnonzero(np.concatenate(([True], number[1:] != number[:-1])))
    end = np.append(cut[1:], len(number))
    first = np.searchsorted(cut, held.low, side="right") - 1
    count = np.searchsorted(cut, held.high, side="right") - first
    source = np.repeat(np.arange(len(count)), count)
    run = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count) + first[source]
    units = (np.minimum(end[run] - 1, held.high[source]) - np.maximum(cut[run], held.low[source]) + 1).astype(
        np.float64
    )
    row, partition = number[cut[run]], held.partition[source]
    return (
        np.concatenate((row, row)), np.concatenate((source, source + len(count))),
        np.concatenate((-units, units)), np.concatenate((partition, partition)),
    )  # fmt: skip
