"""What users of a cluster allow during a load target, followed from snapshot to snapshot (``live.consent_tags``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wattqueue.live.apply import LEFT_OUT, WriteResult
from wattqueue.live.cluster import Details, JobKey, RequeueJob
from wattqueue.live.consent_tags import SiteDefaults, StatedConsent
from wattqueue.live.extension import Extension
from wattqueue.live.planner import RoundState
from wattqueue.policy.capabilities import EVENT_BITS


@dataclass
class Consents:
    """The consent of all jobs of a cluster, followed from snapshot to snapshot.

    A comment is parsed when it is new. ``changes`` counts how often the consent of a known job became another one, or
    that of a new job was read: what was derived from the consent of before is outdated then.
    """

    defaults: SiteDefaults
    changes: int = 0
    moved: bool = False
    """Whether the last ``follow`` found another consent of a job that was known before, or a refused requeue."""
    refused: set[JobKey] = field(default_factory=set)
    """Jobs that the resource manager did not requeue (submitted with ``--no-requeue``, say): they are parked."""
    changed: set[JobKey] = field(default_factory=set)
    """Jobs whose consent was read again by the last ``follow``, or whose requeue was refused since the one before."""
    _noted: set[JobKey] = field(default_factory=set)
    """Jobs that could not be requeued since the last ``follow``."""
    _known: dict[JobKey, tuple[Details, StatedConsent]] = field(default_factory=dict)
    _last: Mapping[JobKey, Details] | None = None

    def follow(self, details: Mapping[JobKey, Details]) -> None:
        """Read the comments that are new or were changed."""
        self.moved, self.changed, self._noted = bool(self._noted), self._noted, set()
        if details is self._last:
            return
        self._last, before = details, self._known
        self.refused &= details.keys()
        self._known = {}
        for key, one in details.items():
            old = before.get(key)
            if old is not None and old[0] is one:
                self._known[key] = old
                continue
            stated = self.defaults.stated(one)
            self._known[key] = (one, stated)
            if old is None or old[1] != stated:
                self.changes += 1
                self.changed.add(key)
                self.moved |= old is not None

    def of(self, key: JobKey) -> StatedConsent:
        """Return the consent of a job; one whose details have not been read does not consent."""
        known = self._known.get(key)
        return StatedConsent(allowed=False, source="site") if known is None else known[1]

    def row(self, key: JobKey) -> tuple[float, ...]:
        """Return the consent of a job as the columns of a job table."""
        found = self.of(key)
        checkpoint_s = math.nan if key in self.refused else found.checkpoint_s
        return float(found.allowed), found.slowdown, found.until_s, found.price, checkpoint_s

    def note(self, outcomes: Iterable[WriteResult]) -> None:
        """Remember the jobs that could not be requeued."""
        for write, error in outcomes:
            if isinstance(write, RequeueJob) and write.key is not None and error and not error.startswith(LEFT_OUT):
                self.refused.add(write.key)
                self.changes += 1
                self._noted.add(write.key)

    def counts(self, keys: Iterable[JobKey]) -> dict[str, int]:
        """Return how many of these jobs consent, do not, and have a wrong tag, for the status."""
        rows = [self.of(key) for key in keys]
        wrong, given = sum(r.source == "wrong" for r in rows), sum(r.allowed for r in rows)
        return {"consenting": given, "not_consenting": len(rows) - given, "wrong_tag": wrong}


def consent_extension(consents: Consents) -> Extension:
    """Return the stages by which the policy sees what users allow."""

    def follow(now: RoundState) -> None:
        """Read the comments that are new or were changed, into the table of jobs."""
        jobs = now.jobs
        consents.follow(now.snapshot.details)
        changed = (jobs.slot[key] for key in consents.changed if key in jobs.slot)
        for slot in {*jobs.new, *changed}:
            jobs.consent[slot] = consents.row(jobs.row[slot].key)
        now.asks_consent, now.depends = True, (*now.depends, consents.changes)
        now.happened |= EVENT_BITS["consent"] if consents.moved else 0
        now.explained["consent"] = lambda: {row.key.name: _record(consents.of(row.key)) for row in now.snapshot.jobs}

    return Extension({"classified": follow, "written": lambda now: consents.note(now.outcomes)})


def _record(stated: StatedConsent) -> list[object]:
    """Return what a job's user reads: whether consent is given, what decides, and the limits that are stated."""
    limits = (stated.slowdown, stated.until_s, stated.price, stated.checkpoint_s)
    return [int(stated.allowed), stated.source, *(None if math.isnan(limit) else limit for limit in limits)]
