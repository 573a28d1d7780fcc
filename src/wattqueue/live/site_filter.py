"""Apply what the site has settled (``live.site``) to a round: keep jobs back, and let the policy see priorities.

Jobs that the site's rules keep from starting are left out of the policy's queue in that round, so that they take
neither nodes nor watts from others; like a job at an association's limit in Slurm, they get no reservation either.
After the policy has decided, starts that exceed a limit together wait for the next round.

Jobs of a reservation are started before the policy is asked, on the reservation's nodes, as Slurm puts them before all
others: those nodes serve nobody else, so the policy could not decide anything but to start them. They wait only for
watts, in the order of their submission.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from wattqueue.live.cluster import Job, JobKey, Snapshot
from wattqueue.live.placement import ChosenStart
from wattqueue.live.queue import Queue
from wattqueue.live.site import NOTHING, Admission, SiteConstraints, barred
from wattqueue.live.sorting import Sorted
from wattqueue.live.world import Layout, Occupation
from wattqueue.model.jobs import Floats
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.actions import StartJob
from wattqueue.parts.contracts import SITE_PRIORITY

RESERVED = frozenset({"reserved", "maint"})
"""States of nodes that only jobs of a reservation can use."""
SitePriority = Mapping[JobKey, Mapping[str, float]]


@dataclass
class SiteFilter:
    """Keeps jobs back in the rounds of one planner."""

    layout: Layout
    _last: tuple[Sequence[JobKey], frozenset[JobKey], Sequence[JobKey]] | None = None
    """Keys of the last round, those kept back, and the rest: the same object while both are the same."""
    _round: tuple[SiteConstraints, Sorted, Collection[str]] = field(default_factory=lambda: (NOTHING, Sorted(), ()))
    _reserved: list[Job] = field(default_factory=list)
    """Jobs of reservations whose nodes are free."""

    def keep_back(self, snapshot: Snapshot, rows: Sorted, queue: Queue, taken: Collection[int]) -> None:
        """Take the jobs that cannot start now out of ``rows.waiting``; ``taken`` are the units that jobs hold."""
        site, self._reserved = snapshot.site, []
        if site.empty:
            self._round = (site, rows, ())
            return
        busy = {self.layout.names[unit] for unit in taken}
        free = {n.name for n in snapshot.nodes if (n.usable or n.state in RESERVED) and n.name not in busy}
        self._round = (site, rows, free)
        rows.barred = barred(site, (queue.row[key] for key in rows.waiting), (*rows.running, *rows.under_way), free)
        self._reserved = [queue.row[key] for key in rows.waiting if key in site.reserved and key not in rows.barred]
        kept, last = frozenset(rows.barred) | {row.key for row in self._reserved}, self._last
        if not kept:
            return
        if last is None or last[0] is not rows.waiting or last[1] != kept:
            last = (rows.waiting, kept, tuple(key for key in rows.waiting if key not in kept))
            self._last = last
        rows.waiting = last[2]
        rows.aside += [queue.row[key] for key in kept]

    def start_reserved(
        self,
        occupation: Occupation,
        now_s: float,
        room_w: float,
        predicted: Callable[[JobKey], tuple[Floats, Floats] | None],
    ) -> list[ChosenStart]:
        """Return the starts of jobs of reservations within ``room_w``; they hold nodes and watts from now on.

        ``predicted`` returns watts of one node and time factors of a job by option.
        """
        site, _, free = self._round
        started = []
        for row in self._reserved:
            names = site.reserved[row.key] & set(free)
            units = sorted(u for u in map(self.layout.unit.get, names) if u is not None and u not in occupation.taken)
            figures = predicted(row.key)
            found = self._units_in_one_partition(units, row.nodes)
            if figures is None or found is None:
                continue
            partition, units = found
            option = int(self.layout.machine.option_start[partition])
            watts = int(self.layout.net_w(figures[0])[option]) * row.nodes
            if watts > room_w:
                continue
            room_w -= watts
            mine = tuple(units)
            start = StartJob(row.key.name, partition, mine, option)
            occupation.under_way(row, partition, option, watts, [self.layout.names[u] for u in mine], now_s)
            power_w, factor = float(figures[0][option]), float(figures[1][option])
            started.append(ChosenStart(row, start, power_w, factor, watts, None))
        return started

    def _units_in_one_partition(self, units: list[int], count: int) -> tuple[int, list[int]] | None:
        """Return a partition of the machine that has so many of these units, and the first of them there."""
        rows = np.searchsorted(self.layout.first, units, side="right") - 1
        for partition in np.unique(rows):
            mine = [unit for unit, row in zip(units, rows, strict=True) if row == partition]
            if len(mine) >= count:
                return int(partition), mine[:count]
        return None

    def together(self, chosen: list[ChosenStart]) -> list[ChosenStart]:
        """Return the starts that fit the site's rules together, in their order."""
        site, rows, free = self._round
        if site.empty or not chosen:
            return chosen
        admission = Admission(site, (*rows.running, *rows.under_way), free)
        names = self.layout.names
        return [one for one in chosen if admission.admit(one.row, [names[u] for u in one.start.nodes])]


def with_priorities(jobs: KnownJobs, keys: Sequence[JobKey], priority: SitePriority, layout: Layout) -> KnownJobs:
    """Return the table of waiting jobs with the column of the site's priorities, (n, P), where there are any.

    Of several partitions of the cluster that stand for one of the machine, the highest counts.
    """
    if not priority:
        return jobs
    table = np.zeros((len(keys), len(layout.machine.partitions)))
    for k, key in enumerate(keys):
        for name, value in priority.get(key, {}).items():
            p = layout.partition_of.get(name)
            if p is not None and value > table[k, p]:
                table[k, p] = value
    return replace(jobs, extra={**jobs.extra, SITE_PRIORITY: table})
