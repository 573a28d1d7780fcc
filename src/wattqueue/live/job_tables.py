"""Join and filter the job tables that a policy's snapshot is built from.

A snapshot has one job table: waiting jobs first, in queue order, then those that run or are under way. Entries and
windows refer to rows of the first part, ``RunningJobs.row`` to rows of the second. Both parts are columns already, so
joining costs one concatenation per column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from wattqueue.live.cluster import JobKey
from wattqueue.live.consent import Consents, joined_consent
from wattqueue.live.occupied import BusyColumns
from wattqueue.live.requests import JobRequest
from wattqueue.live.world import Busy
from wattqueue.model.jobs import Labels
from wattqueue.model.known_jobs import KnownJobs, Observed
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Frequency, Prediction
from wattqueue.policy.consented import consented_windows

Window = tuple[np.ndarray, np.ndarray]
"""First and last option of each entry."""
NOBODY: Mapping[JobKey, JobRequest] = {}


def joined(
    first: KnownJobs,
    running: BusyColumns,
    requests: Mapping[JobKey, JobRequest] = NOBODY,
    consents: Consents | None = None,
) -> KnownJobs:
    """Return one table of the waiting jobs followed by the busy ones.

    Busy jobs have the user and the application of their ``requests``, for controls, and no other labels: no pass uses
    them. Observed are the starts of those that run; what is under way has none.
    """
    busy = running.busy
    if not busy:
        return first
    count = len(busy)
    unknown = Observed.nothing(len(first) + count)
    observed = replace(unknown, start_s=np.concatenate((first.observed.start_s, running.start_s)))

    def more(labels: Labels) -> Labels:
        """Extend a column of labels by unknown ones."""
        return Labels(np.concatenate((labels.codes, np.full(count, -1, np.int32))), labels.names)

    def named(labels: Labels, names: list[str]) -> Labels:
        """Extend a column by names, empty for none."""
        known = {name: code for code, name in enumerate(labels.names)}
        codes = [known.setdefault(name, len(known)) if name else -1 for name in names]
        return Labels(np.concatenate((labels.codes, np.array(codes, np.int32))), tuple(known))

    asked = [requests.get(b.row.key) for b in busy] if requests else []
    user = named(first.user, [r.user if r else "" for r in asked]) if requests else more(first.user)
    app = named(first.app, [r.app if r else "" for r in asked]) if requests else more(first.app)

    more_consent = None if consents is None else consents.columns([b.row.key for b in busy])
    if more_consent is not None:  # no control slows or parks what a person stopped or what is about to end
        moves = np.array([b.parked or b.row.state == "running" for b in busy], np.bool_)
        more_consent = replace(more_consent, allowed=np.where(moves, more_consent.allowed, 0.0))
    return replace(
        first,
        consent=joined_consent(first.consent, more_consent),
        job_id=np.concatenate((first.job_id, running.names)),
        submit_s=np.concatenate((first.submit_s, running.submit_s)),
        nodes=np.concatenate((first.nodes, running.nodes)),
        walltime_s=np.concatenate((first.walltime_s, running.walltime_s)),
        user=user,
        app=app,
        partition=more(first.partition),
        _observed=observed,
    )


def with_running(
    part: Frequency,
    busy: Sequence[Busy],
    known: np.ndarray,
    jobs: KnownJobs,
    entries: Entries,
    window: Window,
    prediction: Prediction,
    machine: Machine,
    signals: Signals,
    by_target: bool,
) -> tuple[Entries, Window]:
    """Return entries and windows with those of running jobs behind them, so that controls may ask for them.

    Each has one entry, on the partition where it runs; the pass does not see it (``policy.decide.view_of``). ``known``
    (b,) tells for which of the ``busy`` there is a prediction: others keep the option that they have.
    """
    if not busy:
        return entries, window
    rows = np.arange(len(jobs) - len(busy), len(jobs), dtype=np.int32)
    partition = np.array([b.partition for b in busy], np.int32)
    more = Entries(rows, partition, np.zeros(len(rows)))
    first, last = consented_windows(part, jobs, more, prediction, machine, signals, by_target=by_target)
    option = np.array([b.option for b in busy])
    first, last = np.where(known, first, option), np.where(known, last, option)
    columns = (np.concatenate(pair) for pair in zip(_columns(entries), _columns(more), strict=True))
    return Entries(*columns), (
        np.concatenate((window[0], first)).astype(np.int32),
        np.concatenate((window[1], last)).astype(np.int32),
    )


def _columns(entries: Entries) -> tuple[np.ndarray, ...]:
    return entries.job, entries.partition, entries.priority


def offered(entries: Entries, window: Window, prediction: Prediction) -> tuple[Entries, Window]:
    """Leave out entries whose watts are infinite: the estimator does not offer these options."""
    first, last = (np.asarray(side) for side in window)
    keep = np.isfinite(prediction.watts(entries.job, first)) & np.isfinite(prediction.watts(entries.job, last))
    if keep.all():
        return entries, (first, last)
    return Entries(entries.job[keep], entries.partition[keep], entries.priority[keep]), (first[keep], last[keep])
