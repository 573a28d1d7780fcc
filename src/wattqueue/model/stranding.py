"""Watts that a contract allows and a tree of power domains strands, and racks a job (rule 22 of docs/semantics.md).

At any time the free units could draw so much at their maximum, and the root (the cap, or the one domain above all) has
so much left; the tree lets them draw the bottom-up minimum of free units and of what each domain has left. What the
tree withholds of the lesser of the first two is *stranded*: no job can have it, whatever its watts. Jobs count what the
ledger counted when they started, all nodes count as up. Watts are net: above idle, unless the cap covers jobs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import HeldUnits, Schedule, State
from wattqueue.model.signals import Cap

CELLS = 2_000_000
"""Domains x times that are computed at once."""


class Stranded(NamedTuple):
    """What is stranded over time; a value holds from its time to the next. Shapes (k,)."""

    time_s: Floats
    watts: Floats
    """What the tree withholds."""
    budget_w: Floats
    """What the root allows all units together, at most their maximum."""
    waiting: NDArray[np.bool_]
    """Whether some job waits."""

    def figures(self) -> dict[str, float | None]:
        """Return the metrics: means over time, and shares of the budget, over all and while some job waits."""
        length = np.diff(self.time_s)
        lost, whole = self.watts[:-1] * length, self.budget_w[:-1] * length
        waiting = self.waiting[:-1]
        return {
            "stranded_w_mean": _over(lost.sum(), length.sum()),
            "stranded_j": float(lost.sum()),
            "stranded_share": _over(lost.sum(), whole.sum()),
            "stranded_waiting_share": _over(lost[waiting].sum(), whole[waiting].sum()),
        }


def stranded(jobs: Jobs, schedule: Schedule, machine: Machine, cap: Cap) -> Stranded:
    """Return what is stranded from the first submission to the last end."""
    change = _Changes.of(jobs, schedule, machine)
    times = np.union1d(change.times_s(), np.concatenate((cap.time_s, machine.supply_tree.times_s)))
    begin = float(jobs.submit_s.min(initial=np.inf))
    times = times[(times >= begin) & (times <= float(schedule.end_s.max(where=schedule.ran, initial=begin)))]
    tree = _Tree.of(machine, change.unit_w)
    parts = list(_pieces(tree, change, times, machine, cap)) or [(np.zeros(0), np.zeros(0))]
    watts, budget = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    waits = schedule.state != State.REJECTED
    started = np.where(np.isfinite(schedule.start_s), schedule.start_s, np.inf)[waits]
    arrived = np.searchsorted(np.sort(jobs.submit_s[waits]), times, side="right")
    return Stranded(times, watts, budget, arrived > np.searchsorted(np.sort(started), times, side="right"))


def racks_a_job(schedule: Schedule, machine: Machine) -> float | None:
    """Return the mean number of racks of the jobs that ran; None where none did.

    A rack is a run of neighbouring units of one partition whose lowest domain is the same.
    """
    own = machine.supply_tree.of_unit
    cut = np.concatenate(([True], own[1:] != own[:-1]))
    cut[machine.unit_start[1:-1]] = True
    rack = np.cumsum(cut)
    held = HeldUnits.of(schedule)
    low, high = rack[held.low], rack[held.high]
    same = np.zeros(len(low), np.bool_)
    same[1:] = (held.job[1:] == held.job[:-1]) & (low[1:] == high[:-1])
    racks = np.bincount(held.job, high - low + 1 - same, len(schedule.state))[schedule.ran]
    return float(racks.mean()) if len(racks) else None


class _Tree(NamedTuple):
    """The domains that can withhold anything, those below others first; the root stands behind them. Shapes (G,)."""

    number: NDArray[np.int64]
    """Row of the lowest such domain of each unit, the last row for none. Shape (U,)."""
    parent: list[int]
    domain: list[int]
    """Number in the machine's tree."""
    fixed: Floats
    """Base and idle watts of each."""
    gain: Floats
    one: bool
    """Whether one domain feeds the whole machine."""

    @classmethod
    def of(cls, machine: Machine, unit_w: Floats) -> _Tree:
        """Return the tree; ``unit_w`` (P,) net watts of a free unit at its maximum."""
        tree = machine.supply_tree
        idle = [part.idle_w if machine.cap_scope == "machine" else 0.0 for part in machine.partitions]
        most = tree.input_uw([a + b for a, b in zip(idle, unit_w.tolist(), strict=True)]) / 1e6
        keep = np.array([domain.least_limit_w for domain in tree.domains]) < most
        kept = np.flatnonzero(keep)
        row = np.full(len(keep) + 1, len(kept), np.int64)
        row[kept] = np.arange(len(kept))
        for k in reversed(range(len(keep))):
            if not keep[k]:
                row[k] = row[tree.parent[k]]
        tops = np.flatnonzero(tree.parent < 0)
        return cls(
            row[tree.of_unit],
            [int(row[tree.parent[k]]) for k in kept],
            kept.tolist(),
            tree.input_uw(idle)[kept] / 1e6,
            np.array([max(part.gain for part in tree.below[k]) for k in kept], np.float64),
            len(tops) == 1 and bool(keep[tops[0]]),
        )

    def limits_w(self, machine: Machine, times: Floats) -> Floats:
        """Return what each domain's limit leaves above base and idle watts, as watts of units. Shape (G, k)."""
        domains = [machine.supply_tree.domains[k] for k in self.domain]
        found = np.empty((len(domains), len(times)))
        for k, domain in enumerate(domains):
            limit: Floats | float = domain.least_limit_w
            if domain.limit_s:
                where = np.searchsorted(domain.limit_s, times, side="right") - 1
                limit = np.array(domain.limits_w)[np.maximum(where, 0)]
            found[k] = (limit - self.fixed[k]) / self.gain[k]
        return found


class _Changes(NamedTuple):
    """What jobs take when they start, and give back when they end; one row for each rack of a job. Shapes (r,)."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    start_s: Floats
    end_s: Floats
    net_w: Floats
    """Net watts of each unit."""
    most_w: Floats
    """Net watts of each such unit at its maximum."""
    unit_w: Floats
    """The same of a unit of each partition. Shape (P,)."""

    @classmethod
    def of(cls, jobs: Jobs, schedule: Schedule, machine: Machine) -> _Changes:
        """Return them for the jobs that ran."""
        ran = schedule.ran
        part = machine.option_partition[np.maximum(schedule.option, 0)]
        below = 0.0 if machine.cap_scope == "jobs" else 1.0
        idle = np.array([one.idle_w * below for one in machine.partitions])
        net = np.maximum(np.nan_to_num(schedule.predicted_w) / jobs.nodes - idle[part], 0.0)
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
        return cls(low, high, schedule.start_s[job], schedule.end_s[job], net[job], unit_w[part[job]], unit_w)

    def times_s(self) -> Floats:
        """Return when anything starts or ends."""
        return np.concatenate((self.start_s, self.end_s))


def _pieces(
    tree: _Tree, change: _Changes, times: Floats, machine: Machine, cap: Cap
) -> Iterator[tuple[Floats, Floats]]:
    """Yield stranded watts and budget, some times after the other."""
    rows = len(tree.domain) + 1
    unit_most = np.repeat(change.unit_w, np.diff(machine.unit_start))
    full = np.bincount(tree.number, unit_most, rows)
    # Units of each row below each place: intervals of units become one figure a row.
    table = _counts(tree.number, change)
    at = np.searchsorted(times, np.concatenate((change.start_s, change.end_s))[table.source])
    order = np.argsort(at, kind="stable")
    at, row = at[order], table.row[order]
    free, load = table.free_w[order], table.load_w[order]
    own_free, own_load = full.copy(), np.zeros(rows)
    step = max(CELLS // rows, 1)
    scope_idle = machine.scope_idle_w()
    for first in range(0, len(times), step):
        now = times[first : first + step]
        k0, k1 = np.searchsorted(at, (first, first + len(now)))
        place = row[k0:k1] * len(now) + at[k0:k1] - first
        size = rows * len(now)
        frees = np.bincount(place, free[k0:k1], size).reshape(rows, -1).cumsum(axis=1) + own_free[:, np.newaxis]
        loads = np.bincount(place, load[k0:k1], size).reshape(rows, -1).cumsum(axis=1) + own_load[:, np.newaxis]
        own_free, own_load = frees[:, -1].copy(), loads[:, -1].copy()
        draw, could = np.maximum(frees, 0.0), np.maximum(frees.sum(axis=0), 0.0)
        limit = tree.limits_w(machine, now)
        left = np.full(len(now), np.inf)
        for k, parent in enumerate(tree.parent):  # those below others first
            left = np.maximum(limit[k] - loads[k], 0.0)
            draw[parent] += np.minimum(draw[k], left)
            loads[parent] += loads[k]
        capped = np.asarray(cap.at(now), np.float64)
        budget = np.minimum(capped - scope_idle, full.sum())
        room = np.maximum(capped - scope_idle - loads[-1], 0.0)
        tree_draws = np.minimum(draw[-1], room)
        if tree.one:
            budget, room = np.minimum(budget, limit[-1]), np.minimum(room, left)
        yield np.maximum(np.minimum(room, could) - tree_draws, 0.0), np.maximum(budget, 0.0)


class _Counts(NamedTuple):
    """Changes by row of the tree. Shapes (c,)."""

    row: NDArray[np.int64]
    source: NDArray[np.int64]
    """Row of ``_Changes``; those behind its length are the ends."""
    free_w: Floats
    load_w: Floats


def _counts(number: NDArray[np.int64], change: _Changes) -> _Counts:
    """Return what each interval of units changes in each row of the tree, at its start and, reversed, at its end."""
    cut = np.flatnonzero(np.concatenate(([True], number[1:] != number[:-1])))
    end = np.append(cut[1:], len(number))
    first = np.searchsorted(cut, change.low, side="right") - 1
    last = np.searchsorted(cut, change.high, side="right") - 1
    count = last - first + 1
    source = np.repeat(np.arange(len(count)), count)
    run = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count) + first[source]
    units = np.minimum(end[run] - 1, change.high[source]) - np.maximum(cut[run], change.low[source]) + 1
    free, load = units * change.most_w[source], units * change.net_w[source]
    where = number[cut[run]]
    return _Counts(
        np.concatenate((where, where)), np.concatenate((source, source + len(count))),
        np.concatenate((-free, free)), np.concatenate((load, -load)),
    )  # fmt: skip


def _over(part: float, whole: float) -> float | None:
    """Return a share, None of nothing."""
    return float(part / whole) if whole > 0 else None
