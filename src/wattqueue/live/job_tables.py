"""Waiting and running jobs as the arrays of which a policy's snapshot is built.

A snapshot has one job table: waiting jobs first, in queue order, then those that run or are under way. Entries and
windows refer to rows of the first part, ``RunningJobs.row`` to rows of the second. Both parts are columns already, so
joining costs one concatenation per column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from wattqueue.live.cluster import JobKey
from wattqueue.live.table import LiveJobs, Slots, Stage
from wattqueue.live.world import NO_LIMIT_S, Layout
from wattqueue.model.consent import COLUMNS as CONSENT
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Floats, Ints, Labels
from wattqueue.model.known_jobs import KnownJobs, Observed
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import SITE_PRIORITY, Entries, Frequency, Prediction
from wattqueue.policy.consent_windows import Window, consented_windows
from wattqueue.policy.decide import RunningJobs

SitePriority = Mapping[JobKey, Mapping[str, float]]


class PendingJobs(NamedTuple):
    """The waiting jobs as arrays, kept while the queue does not change."""

    slots: Slots
    """Their slots in the table of jobs."""
    jobs: KnownJobs
    prediction: Prediction
    row: Ints
    """Rows of ``prediction`` for ``jobs``."""
    entries: Entries
    window: Window
    """Options of each entry."""
    rank: Floats | None
    """Rank of each unit for each application of ``jobs``; None where the policy has none."""
    planned_s: Floats | None
    """Planned seconds of ``jobs``; None where the policy does not predict run times."""

    def take(self, kept: np.ndarray) -> PendingJobs:
        """Return some of the jobs, in the same order. ``kept``: shape (n,)."""
        entry = kept[self.entries.job]
        number = np.cumsum(kept) - 1
        row = self.row[kept]
        job, partition, priority = _columns(self.entries)
        return PendingJobs(
            self.slots[kept], self.jobs.take(kept), replace(self.prediction, row=row), row,
            Entries(number[job[entry]].astype(np.int32), partition[entry], priority[entry]),
            self.window.take(entry), self.rank,
            None if self.planned_s is None else self.planned_s[kept],
        )  # fmt: skip


def running_jobs(jobs: LiveJobs, slots: Slots, first_row: int) -> RunningJobs:
    """Return jobs that hold units as a policy's snapshot holds them.

    Job k is row ``first_row + k`` of the job table: waiting jobs come first there.
    """
    pieces = jobs.intervals[slots].tolist()
    count = np.fromiter(map(len, pieces), np.int32, len(pieces))
    ends = np.fromiter(chain.from_iterable(chain.from_iterable(pieces)), np.int32).reshape(-1, 2)
    left = jobs.variance_left[slots]
    return RunningJobs(
        np.arange(first_row, first_row + len(slots), dtype=np.int32), jobs.option[slots], jobs.end_s[slots],
        jobs.net_w[slots] * 1_000_000, np.cumsum(count, dtype=np.int64) - count, count,
        np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1]), jobs.stage[slots] == Stage.PARKED,
        left if left.min(initial=1.0) < 1.0 else np.zeros(0),
    )  # fmt: skip


def joined(first: KnownJobs, jobs: LiveJobs, slots: Slots, *, named: bool) -> KnownJobs:
    """Return one table of the waiting jobs followed by those that hold units.

    The latter have the user and the application of their requests, for controls (``named``), and no other labels: no
    pass uses them. Observed are the starts of those that run; what is under way has none.
    """
    if not len(slots):
        return first
    rows, requests, count = jobs.row[slots].tolist(), jobs.request[slots].tolist(), len(slots)
    start_s = np.array([row.start_s if row.active else np.nan for row in rows], np.float64)
    observed = replace(Observed.nothing(len(first) + count), start_s=np.concatenate((first.observed.start_s, start_s)))

    def more(labels: Labels, names: Sequence[str] = ()) -> Labels:
        """Extend a column of labels by names, empty for none; by unknown ones without any."""
        known = {name: code for code, name in enumerate(labels.names)}
        codes = [known.setdefault(name, len(known)) if name else -1 for name in names] or [-1] * count
        return Labels(np.concatenate((labels.codes, np.array(codes, np.int32))), tuple(known))

    return replace(
        first,
        consent=_joined_consent(first.consent, jobs, slots),
        job_id=np.concatenate((first.job_id, jobs.name[slots])),
        submit_s=np.concatenate((first.submit_s, [row.key.submit_s for row in rows])),
        nodes=np.concatenate((first.nodes, np.fromiter(map(len, jobs.units[slots]), np.int32, count))),
        walltime_s=np.concatenate((first.walltime_s, [min(row.walltime_s, NO_LIMIT_S) for row in rows])),
        user=more(first.user, [one.user if one else "" for one in requests] if named else ()),
        app=more(first.app, [one.app if one else "" for one in requests] if named else ()),
        partition=more(first.partition),
        _observed=observed,
    )


def consent_of(jobs: LiveJobs, slots: Slots) -> Consent:
    """Return the consent of jobs as columns of a policy's job table."""
    return Consent(*(np.ascontiguousarray(column) for column in jobs.consent[slots].T))


def _joined_consent(first: Consent | None, jobs: LiveJobs, slots: Slots) -> Consent | None:
    """Return the consent of waiting jobs and of those that hold units; None where nobody reads it."""
    if first is None:
        return None
    more = consent_of(jobs, slots)
    # no control slows or parks what a person stopped or what is about to end
    moves = [jobs.stage[slot] == Stage.PARKED or jobs.row[slot].state == "running" for slot in slots.tolist()]
    more = replace(more, allowed=np.where(moves, more.allowed, 0.0))
    return Consent(*(np.concatenate((getattr(first, name), getattr(more, name))) for name in CONSENT))


def with_running(
    part: Frequency,
    jobs: LiveJobs,
    slots: Slots,
    known: np.ndarray,
    asked: tuple[KnownJobs, Entries, Window, Prediction, Machine, Signals],
) -> tuple[Entries, Window]:
    """Return entries and windows with those of running jobs behind them, so that controls may ask for them.

    Each has one entry, on the partition where it runs; the pass does not see it (``policy.decide.view_of``). ``known``
    (b,) tells for which of ``slots`` there is a prediction: others keep the option that they have. ``asked``: the
    joined table, the entries and windows of waiting jobs, and what they were made of.
    """
    table, entries, window, prediction, machine, signals = asked
    if not len(slots):
        return entries, window
    rows = np.arange(len(table) - len(slots), len(table), dtype=np.int32)
    more = Entries(rows, jobs.part[slots], np.zeros(len(rows)))
    first, last, _ = consented_windows(part, table, more, prediction, machine, signals)
    option = jobs.option[slots]
    first, last = (np.where(known, side, option).astype(np.int32) for side in (first, last))
    columns = (np.concatenate(pair) for pair in zip(_columns(entries), _columns(more), strict=True))
    return Entries(*columns), window.with_more(first, last)


def _columns(entries: Entries) -> tuple[np.ndarray, ...]:
    return entries.job, entries.partition, entries.priority


def offered(entries: Entries, window: Window, prediction: Prediction) -> tuple[Entries, Window]:
    """Leave out entries whose watts are infinite: the estimator does not offer these options."""
    keep = np.isfinite(prediction.watts(entries.job, window.first))
    keep &= np.isfinite(prediction.watts(entries.job, window.last))
    if keep.all():
        return entries, window
    return Entries(entries.job[keep], entries.partition[keep], entries.priority[keep]), window.take(keep)


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
