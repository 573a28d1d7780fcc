"""What the guard checks before a write, from its own settings and its own observation.

Watts. A job counts the most that its nodes can draw, whatever its licence says, unless the settings have the guard
accept more (``settings.ACCEPTED``). Two rules keep the sum of what counts within the cap and what the site accepts:

- a licence below what counts is *uncovered* by the difference; the open pool and all uncovered watts together may not
  exceed the cap (``watts.bound.WattBound``);
- a job that waits is neither released on fewer watts than count for it nor given so few: while no planner is at work a
  release starts it as it stands.

Consent. A job is stopped, requeued or slowed only where its user consents in the job's comment, or where the settings
name that as a last resort.

What only lowers is never refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from wattqueue.errors import InputError
from wattqueue.live.cluster import (
    ACTIVE,
    ChangeJob,
    ContinueJob,
    Details,
    HoldJob,
    Job,
    JobFields,
    JobKey,
    Pool,
    PowerNode,
    ReleaseJob,
    RequeueJob,
    SetJobFrequency,
    SetPool,
    StopJob,
    Write,
    only_reduces_power,
    user_holds,
)
from wattqueue.live.consent_tags import parse_tag
from wattqueue.live.guard.limits import LeastLimits
from wattqueue.live.guard.limits_told import LimitsTold
from wattqueue.live.guard.settings import GuardSettings
from wattqueue.live.watts.bound import HeldWatts, WattBound, limit_w, open_w

LOW = "it would start on fewer watts than its nodes can draw (`accepted` of guard.toml)"
UNKNOWN = "the guard sees no such job"
OTHER = "it names another job than its key"
NO_CONSENT = "its user does not consent, and it is no last resort (`last_resort` of guard.toml)"
NO_FOLDER = "guard.toml names no folder for frequencies (`frequency_dir` in [slurm])"
STARTS_ACCEPTED = frozenset({"estimates", "frequencies"})
RUNS_ACCEPTED = STARTS_ACCEPTED | {"limits"}
OF_A_JOB = (ChangeJob, ContinueJob, ReleaseJob, RequeueJob, StopJob)
"""Writes that are checked against a job; a hold or a priority of any job raises nothing."""


def _is_tagged(comment: str) -> bool:
    """Whether a comment states something about consent, right or wrong."""
    try:
        return parse_tag(comment) is not None
    except InputError:
        return True


@dataclass(frozen=True)
class Seen:
    """What the guard read from the cluster itself."""

    taken_s: float
    jobs: tuple[Job, ...]
    pool: Pool | None
    details: Callable[[], Mapping[JobKey, Details]] = dict
    """What jobs stated, as read last."""
    limits: LimitsTold | None = None
    """Which limits of nodes are in force; None where nobody is asked, and the planner's word counts."""

    @cached_property
    def active(self) -> list[Job]:
        """Return the jobs that hold nodes and watts: few beside those that wait."""
        return [row for row in self.jobs if row.state in ACTIVE]


class GuardBound(WattBound):
    """The bound of one observation, and what else is checked of a write."""

    def __init__(self, settings: GuardSettings, cap_w: float, seen: Seen, limits: LeastLimits | None = None) -> None:
        """Begin with what was read; ``limits`` goes on from the observation before."""
        self.settings, self.seen, self.limits = settings, seen, limits or LeastLimits()
        self._changed_fields: dict[JobKey, JobFields] = {}
        """What waiting jobs were given since the observation."""
        self._accepted = settings.accepted & RUNS_ACCEPTED
        rows = {row.key: row for row in seen.jobs}
        self.limits.keep(rows)
        super().__init__(
            limit_w(cap_w - settings.without_jobs_w, settings.overshoot.of(cap_w)),
            open_w(seen.pool),
            rows,
            lambda: {row.key: self.held_by(row) for row in seen.active},
            0 if seen.pool is None else max(0, seen.pool.used - sum([max(row.watts, 0) for row in seen.active])),
        )

    def held_by(self, row: Job) -> HeldWatts:
        """Return what a running job holds."""
        licence, above = max(row.watts, 0), self._most_w(row)
        if row.state == "suspended" and not self.settings.most_w(row.partition, 1):
            return HeldWatts(0, 0)  # Slurm counts no licence of it, and its nodes count beside the pool
        counted, most = 0 if row.state == "suspended" else licence, max(licence, above)
        stopped = row.state == "stopped"
        return HeldWatts(counted, licence, most) if stopped else HeldWatts(counted, most, None, above == 0)

    def _most_w(self, row: Job) -> int:
        """Return what counts for a running job above its licence: nothing where the licence is accepted."""
        accepted, told = self._accepted, self.seen.limits
        if row.watts < 0 or not accepted:
            return self.settings.most_w(row.partition, len(row.node_names) or row.nodes)
        if told is None or accepted & STARTS_ACCEPTED:
            return 0
        if told.holds and row.node_names and told.below_w.keys() >= set(row.node_names):
            return 0  # whatever starts: limits of all nodes keep the cap
        most_w = self.settings.most_w(row.partition, 1)
        below_w = sum(min(float(most_w), told.below_w.get(name, 0.0)) for name in row.node_names)
        return math.ceil(most_w * (len(row.node_names) or row.nodes) - below_w)

    def refusal(self, write: Write) -> str:
        """Return why a write is not carried out; empty where it may be."""
        return self._refused(write) or super().refusal(write)

    def note(self, write: Write, error: str) -> None:
        """Take over a write that was tried."""
        if isinstance(write, ChangeJob) and write.key is not None and write.key in self.rows:
            before = self._changed_fields.get(write.key, JobFields())
            given = {name: value for name, value in write.fields._asdict().items() if value is not None}
            self._changed_fields[write.key] = before._replace(**given)
        if not error and write.key is not None:
            self.limits.note(write, self.rows.get(write.key), self.seen.taken_s)
        super().note(write, error)

    @property
    def most_open_w(self) -> float:
        """Return the greatest pool that the cap leaves; inf without a cap."""
        return max(0.0, self.limit_w - self.uncovered_w)

    def within(self, write: Write) -> Write:
        """Return what may be done of a write: the pool as far as the cap leaves it, a job without a shorter limit.

        A planner that counts less without jobs (nodes that are off or drained) would be left with a low pool for ever,
        and one whose job gets no watts with a limit that is too short could not let it go on.
        """
        if isinstance(write, SetPool) and self.open_w < self.most_open_w < write.open_w:
            most_w = math.floor(self.most_open_w)
            return replace(write, open_w=most_w, after=str(most_w))
        row = self.rows.get(write.key) if write.key is not None else None
        if isinstance(write, ChangeJob) and row is not None and self._shortens(row, write.fields):
            fields = write.fields._replace(limit_s=None)
            return replace(write, fields=fields, after=str(fields)) if any(x is not None for x in fields) else write
        return write

    def _shortens(self, row: Job, given: JobFields) -> bool:
        """Whether a job would end sooner than its user asked for."""
        return given.limit_s is not None and given.limit_s < self.limits.least_s(row, self.seen.taken_s)

    def only_lowers(self, write: Write) -> bool:
        """Whether a write can only lower what jobs may draw, so that it needs no record."""
        row = self.rows.get(write.key) if write.key is not None else None
        match write:
            case SetPool():
                return write.open_w <= self.open_w
            case HoldJob() | StopJob() | RequeueJob():
                return True
            case PowerNode():
                return only_reduces_power(write, row)
            case _:
                return False

    def _refused(self, write: Write) -> str:
        row = self.rows.get(write.key) if write.key is not None else None
        if isinstance(write, OF_A_JOB):
            if row is None:
                return UNKNOWN
            if write.target not in (row.key.name, row.target, str(row.number)):
                return OTHER  # the command names its target, and what is checked is the job of the key
        match write:
            case ReleaseJob() if row is not None:
                return self._not_released(row)
            case ChangeJob() if row is not None:
                return self._not_changed(row, write.fields)
            case StopJob() | RequeueJob():
                return self._without_consent(row, "stop" if isinstance(write, StopJob) else "requeue")
            case SetJobFrequency() if write.khz > 0:
                if not self.settings.slurm.get("frequency_dir"):
                    return NO_FOLDER  # it would be carried out by nobody, and the job draw more than it counts
                found = next((one for one in self.seen.jobs if one.key.name == write.target), None)
                return self._without_consent(found, "frequency")
            case _:
                return ""

    def _not_released(self, row: Job) -> str:
        """Return why a waiting job is not released; a job of several components only as a whole."""
        if not row.pending:
            return UNKNOWN
        details = self._details(row.key)
        if row.held_by == "user" and (details is None or user_holds(row, details)):
            return "its user holds it"
        parts = [one for one in self.seen.jobs if one.whole == row.whole] if row.whole else [row]
        return LOW if any(self._low(one, self._changed_fields.get(one.key, JobFields())) for one in parts) else ""

    def _not_changed(self, row: Job, given: JobFields) -> str:
        """Return why fields of a job are not changed."""
        if given.comment is not None and _is_tagged(given.comment):
            return "consent is stated by the user alone"
        if self._shortens(row, given):
            return "a shorter limit would end it"
        counts = any(one is not None for one in (given.watts, given.node_count, given.partition))
        # of a job that is held, too: a release of all jobs while no planner is at work starts it as it stands
        return LOW if counts and row.pending and self._low(row, given) else ""

    def _low(self, row: Job, given: JobFields) -> bool:
        """Whether a waiting job with these fields would start on fewer watts than count for it."""
        if self.settings.accepted & STARTS_ACCEPTED:
            return False
        watts = row.watts if given.watts is None else given.watts
        nodes = row.most_nodes if given.node_count is None else max(given.node_count)
        return max(watts, 0) < self.settings.most_w(given.partition or row.partition, max(nodes, row.nodes, 1))

    def _without_consent(self, row: Job | None, what: str) -> str:
        """Return why a job may not be stopped, requeued or slowed."""
        if row is None:
            return UNKNOWN
        if what in self.settings.last_resort:
            return ""
        details = self._details(row.key)
        return "" if details is not None and self.settings.consent.stated(details).allowed else NO_CONSENT

    def lacks_mark(self, write: ReleaseJob) -> bool:
        """Whether it is not known who holds a job that is to be released."""
        row = self.rows.get(write.key) if write.key is not None else None
        return row is not None and row.held_by == "user" and self._details(row.key) is None

    def _details(self, key: JobKey) -> Details | None:
        """Return what a job stated; tasks of a waiting array share one record, under the array's id."""
        array = JobKey(key.name.partition("_")[0], key.submit_s)
        found = self.seen.details()
        return found.get(key) or found.get(array)
