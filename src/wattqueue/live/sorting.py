"""Classify the jobs of a snapshot: which run, are under way, wait for the controller, or are not its concern.

Each row of a snapshot has one *kind*, found once when the row is new:

- ``running``: holds nodes and watts;
- ``free``: pending and not held, so Slurm may start it at any moment. What is to be done with it depends
  on time as well (see ``Sorter._free``);
- ``waiting``: held for the controller; stands in the queue;
- ``hand_over``: held, but only Slurm can schedule it (components of heterogeneous jobs; also those on managed nodes of
  a partition that the machine file does not name);
- ``unknown``: held, and its details have not been read yet; classified again in the next round;
- ``ignored``: on other partitions, held by its user, held since its launch failed, or not eligible (dependency,
  begin time).

The life of a job, as the controller sees it (``refused`` is a back-off on a waiting job, not a kind)::

    submitted ----- job_submit.lua holds it -----> waiting
    submitted ----- no controller at work -------> free

    waiting ------- release ---------------------> under way (free, and stored as released)
    free ---------- adopt: hold -----------------> waiting
    under way ----- Slurm starts it -------------> running
    under way ----- late: hold, refuse ----------> waiting, in back-off (at once where Slurm says what blocks it)
    under way ----- Slurm holds it again, refuse > waiting, in back-off (BadConstraints: no node can serve it)
    running ------- requeue (node failure, ...) -> free, its watts shown but perhaps not counted
    running ------- its launch failed -----------> ignored until a person releases it
    running ------- ends ------------------------> gone

Every arrow but ``submitted`` and ``ended`` is found by comparing a row with what the controller's memory
holds about its key; nothing depends on having seen the row before. So the picture is the same after a
restart of the controller, and a transition that was missed is made in the next round.

Who owns a hold. A job has one hold (``Job.held_by``): the submission hook and a user both leave a
user's hold, the controller and an administrator an operator's. A user's own hold is told from the hook's by
the mark that the hook adds at submission (``Details.mark``); the mark is copied into the controller's state
when the job is first seen, since the field belongs to the site. Once the controller has adopted a job it
is held by an operator, and the user's hold is forgotten. An administrator's own hold on a waiting job looks
like ours and is not kept; a start time is what keeps such a job.

Cost. A driver hands out the same object for a row that did not change, so a row is identified by
``id()``, and a round costs what is new or gone. The old rows are kept alive until the new ones are
stored, so that no ``id`` can stand for two rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wattqueue.live.cluster import Details, Job, JobKey, Snapshot
from wattqueue.live.components import orphans
from wattqueue.live.queue import Queue
from wattqueue.live.requests import JobRequest
from wattqueue.live.state.memory import Refused, ReleasedJob
from wattqueue.live.world import Layout

USER_HELD = "wattqueue:user-held"
"""What job_submit.lua adds to the AdminComment of a job that its user submitted held (``sbatch -H``)."""
NEEDS_CONTROLLER = "wattqueue:needs-controller"
"""... of a job that fits the budget at a lower frequency only: never released without the controller."""
BLOCKED_S = 1.0
"""A released job is taken back after so long where the resource manager states what else keeps it from starting."""
Mode = Literal["observe", "advise", "control"]
Kind = Literal["running", "free", "waiting", "hand_over", "ignored", "unknown"]
UNDECIDED: tuple[Kind, ...] = ("free", "hand_over", "ignored", "unknown")
"""Kinds of which the policy decides nothing."""
_PLAIN = Details("", "", "", "", "", 0, 1, 0)  # stands in where the details of a job could not be read


@dataclass
class Sorted:
    """Rows of a snapshot by what is to be done with them. A row can be in more than one list.

    Lists of rows are ordered by submission, whatever order Slurm prints them in.
    """

    running: list[Job] = field(default_factory=list)
    under_way: list[Job] = field(default_factory=list)
    """Free to start: they count nodes and watts as if they ran."""
    waiting: Sequence[JobKey] = ()
    """Keys of held jobs that the policy may start now, in queue order."""
    aside: list[Job] = field(default_factory=list)
    """Pending rows of which the policy does not decide in this round, in no order."""
    adopt: list[Job] = field(default_factory=list)
    """Released outside WattQueue: to be held again, so that the policy decides."""
    late: list[Job] = field(default_factory=list)
    """Released by the controller and not started in time: to be held again."""
    hand_over: list[Job] = field(default_factory=list)
    """Components of jobs that are to be released to Slurm's own scheduler as soon as all of them carry watts."""
    orphans: list[Job] = field(default_factory=list)
    """Components whose first one is gone, held or not: nobody can start or cancel them."""
    foreign: list[Job] = field(default_factory=list)
    """Pending and free, but not the controller's."""
    refused: int = 0
    """Waiting jobs that are in back-off."""
    barred: Mapping[JobKey, str] = field(default_factory=dict)
    """Held jobs that the site's own rules keep from starting now, and why; they are not among ``waiting``."""
    never: Mapping[JobKey, str] = field(default_factory=dict)
    """Held jobs that can start under no limit to come, and why (rule 19); they are not among ``waiting``."""
    user_held: list[JobKey] = field(default_factory=list)
    """New rows whose mark says that their user holds them: to be remembered, since the mark can be changed."""
    user_released: list[JobKey] = field(default_factory=list)
    """New rows that nobody holds any more, whatever their mark says."""


@dataclass
class Sorter:
    """Classifies snapshot after snapshot, and keeps the queue of waiting jobs."""

    layout: Layout
    mode: Mode
    start_timeout_s: float
    """A released job that has not started after this time is taken back."""
    describe: Callable[[Job, Details | None], JobRequest]
    """Returns what the user of a row requested."""
    queue: Queue = field(default_factory=Queue)
    foreign_since: dict[JobKey, float] = field(default_factory=dict)
    """When each foreign job was first seen free."""
    marked: Callable[[JobKey, str], bool] = lambda _key, _mark: False
    """Whether the controller's state holds a mark about a job."""
    requests: dict[JobKey, JobRequest] = field(default_factory=dict)
    """Requests of all jobs that run, wait or are under way."""
    fresh: list[JobRequest] = field(default_factory=list)
    """Requests of jobs whose row is new in this round: those to predict."""
    _rows: tuple[Job, ...] = ()
    """Rows of the last snapshot."""
    _kind: dict[int, Kind] = field(default_factory=dict)
    _lists: dict[Kind, dict[int, Job]] = field(default_factory=dict)
    _components: dict[int, Job] = field(default_factory=dict)
    """Rows of components but the first ones, of every kind."""
    _throttles: dict[tuple[str, float], int] = field(default_factory=dict)
    """Tasks that may run at once, by array (``sbatch --array=1-100%5``)."""

    def sort(
        self,
        snapshot: Snapshot,
        placed: Mapping[JobKey, ReleasedJob],
        refused: Mapping[JobKey, Refused],
        origin: Mapping[JobKey, float],
    ) -> Sorted:
        """Classify the rows of a snapshot.

        ``placed`` are the jobs that the controller released, ``refused`` those in back-off,
        ``origin`` first submissions of requeued jobs.
        """
        out = Sorted()
        self._update(snapshot, origin, out)
        now_s, details = snapshot.taken_s, snapshot.details
        out.running = sorted(self._of("running"), key=_age)
        held, pending = self._of("hand_over"), self._of("free")
        # what carries no watts and is not held for the controller stands in a partition that is not its concern
        counted = [row for k, row in self._components.items() if row.watts >= 0 or self._kind[k] == "hand_over"]
        out.orphans = orphans(snapshot.jobs, counted)
        lost = {row.key for row in out.orphans}
        out.hand_over = sorted((row for row in held if row.key not in lost), key=_age)
        for row in sorted((row for row in pending if row.key not in lost), key=_age):
            self._free(row, details.get(row.key, _PLAIN), placed.get(row.key), now_s, out)
        free = {row.key for row in out.foreign}
        self.foreign_since = {k: v for k, v in self.foreign_since.items() if k in free}
        barred = {k for k, r in refused.items() if now_s < r.until_s and k in self.queue.slot}
        out.refused = len(barred)
        barred |= self._throttled(out, barred)
        keys = self.queue.keys()
        # the same tuple as before while nothing changed: the planner then keeps its tables
        out.waiting = tuple(key for key in keys if key not in barred) if barred else keys
        out.aside = [row for kind in UNDECIDED for row in self._of(kind) if row.pending]
        out.aside += [self.queue.row[key] for key in barred]
        return out

    def _of(self, kind: Kind) -> Iterable[Job]:
        """Return the rows of one kind, in no order."""
        return self._lists.get(kind, {}).values()

    def _update(self, snapshot: Snapshot, origin: Mapping[JobKey, float], out: Sorted) -> None:
        """Add the rows that are new, and drop those that are gone.

        A row that changed is gone under its old identity and new under another.
        """
        old, rows = _apart(self._rows, snapshot.jobs)
        gone = old.keys() - rows.keys()
        unknown = self._lists.get("unknown", {})
        new = {number: row for number, row in rows.items() if number not in old}
        new |= {number: row for number, row in unknown.items() if number not in gone}
        for number in gone:
            row, kind = old[number], self._kind.pop(number)
            self._lists[kind].pop(number, None)
            self._components.pop(number, None)
            if kind == "waiting" and self.queue.row.get(row.key) is row:
                self.queue.remove(row.key)
        self._rows = snapshot.jobs  # the old rows stayed alive until here, so no id stood for two
        self.fresh = []
        for number, row in new.items():
            details = snapshot.details.get(row.key)
            if row.pending and not row.held:
                out.user_released.append(row.key)
            elif row.held and details is not None and user_holds(row, details):
                out.user_held.append(row.key)
            self._add(number, row, details, origin)
        if len(self.requests) > 2 * len(snapshot.jobs) + 1000:
            keep = {row.key for row in snapshot.jobs}
            self.requests = {key: value for key, value in self.requests.items() if key in keep}

    def _add(self, number: int, row: Job, details: Details | None, origin: Mapping[JobKey, float]) -> None:
        """Classify one row, and put a waiting one into the queue."""
        kind = self._kind_of(row, details)
        old = self._kind.get(number)
        if old is not None:
            self._lists[old].pop(number, None)
        self._kind[number] = kind
        self._lists.setdefault(kind, {})[number] = row
        if row.component > 0:
            self._components[number] = row
        if kind in ("ignored", "unknown", "hand_over"):
            return
        request = self.requests.get(row.key)
        if request is None or row.pending:
            # a pending job can be changed by its user; what a running job requested is settled
            request = self.requests[row.key] = self.describe(row, details)
        self.fresh.append(request)
        if details is not None and details.throttle > 0 and row.array:
            self._throttles[_array(row)] = details.throttle
        if kind == "waiting":
            self.queue.add(row, request, self.layout.allowed(row.partition), origin.get(row.key))

    def _kind_of(self, row: Job, details: Details | None) -> Kind:
        """Return the kind of a row, which depends on the row and its details alone, not on time.

        A held job is the controller's if it carries watts and its user does not hold it. The mark that
        job_submit.lua left is not what decides: the AdminComment belongs to the site, which may change
        it at any time. In observe and advise mode nothing is held, so every eligible pending job counts
        as waiting.
        """
        if row.active:
            return "running"
        if not row.pending:
            return "ignored"
        if not self.layout.allowed(row.partition):
            return "hand_over" if self._bare_component(row, details) else "ignored"
        if self.mode != "control":
            return "waiting" if row.eligible and not row.held else "ignored"
        if not row.held or details is None:
            return "unknown" if row.held else "free"
        if not self._waits(row, details):
            return "ignored"
        if details.parts > 1:
            return "hand_over"
        return "waiting" if row.watts >= 0 else "ignored"

    def _bare_component(self, row: Job, details: Details | None) -> bool:
        """Whether job_submit.lua holds a component for the controller although it decides nothing about its partition.

        The machine file does not name the partition, and it holds managed nodes.
        """
        if self.mode != "control" or details is None or details.parts <= 1 or not row.held:
            return False
        return NEEDS_CONTROLLER in details.mark and self._waits(row, details)

    def _waits(self, row: Job, details: Details) -> bool:
        """Whether a held job waits for nothing but the controller."""
        return row.held_by != "failed" and row.eligible and not self._held_by_user(row, details)

    def user_holds(self, row: Job, details: Mapping[JobKey, Details]) -> bool:
        """Whether a held job's own user holds it; taken to be so while its details are not known."""
        known = details.get(row.key)
        return known is None or self._held_by_user(row, known)

    def _held_by_user(self, row: Job, details: Details) -> bool:
        """Whether a held job's own user holds it: by its mark, or by what was remembered when it was first seen."""
        return user_holds(row, details) or (row.held_by == "user" and self.marked(row.key, USER_HELD))

    def _free(self, row: Job, details: Details, placed: ReleasedJob | None, now_s: float, out: Sorted) -> None:
        """Sort a job that Slurm may start at any moment.

        Each counts as under way, since it may start before the next round. A foreign one stops
        counting after ``start_timeout_s``: it may be kept from starting by something that the
        controller cannot see (a limit, a reservation), and must not block the policy for ever.
        """
        if details.parts > 1 and row.watts < 0:
            out.adopt.append(row)  # Slurm would start it uncounted
        elif details.parts > 1 or row.watts < 0:
            since_s = self.foreign_since.setdefault(row.key, now_s)
            out.foreign.append(row)
            if now_s - since_s > self.start_timeout_s:
                return
        elif placed is None:
            out.adopt.append(row)
        elif now_s - placed.since_s > (min(BLOCKED_S, self.start_timeout_s) if row.blocked else self.start_timeout_s):
            out.late.append(row)
        out.under_way.append(row)

    def _throttled(self, out: Sorted, barred: set[JobKey]) -> set[JobKey]:
        """Return the tasks of throttled arrays beyond the number that may start now.

        Slurm enforces the limit for running tasks only: a released task above it would hold watts
        without starting.
        """
        if not self._throttles:
            return set()
        room = dict(self._throttles)
        for row in (*out.running, *out.under_way):
            if _array(row) in room:
                room[_array(row)] -= 1
        more: set[JobKey] = set()
        for _, key, _ in self.queue.places:
            array = _array(self.queue.row[key])
            if key not in barred and array in room:
                room[array] -= 1
                if room[array] < 0:
                    more.add(key)
        return more


def _apart(old: Sequence[Job], new: Sequence[Job]) -> tuple[dict[int, Job], dict[int, Job]]:
    """Return the rows of two lists between their common beginning and their common end, by identity.

    Most rounds change few rows of many thousands, and often at one place of the list.
    """
    head = _alike(old, new)
    tail = min(_alike(reversed(old), reversed(new)), min(len(old), len(new)) - head)
    parts = (rows[head : len(rows) - tail] for rows in (old, new))
    before, after = ({id(row): row for row in part} for part in parts)
    return before, after


def _alike(one: Iterable[Job], other: Iterable[Job]) -> int:
    """Return at how many places from the first on two lists hold the same objects."""
    same = list(map(operator.is_, one, other))
    return same.index(False) if False in same else len(same)


def user_holds(row: Job, details: Details) -> bool:
    """Whether job_submit.lua marked the job as held by its user, and nobody else has held it since.

    The controller holds as an operator, so a job whose user released it and that the controller adopted is not taken
    for the user's again.
    """
    return row.held_by == "user" and USER_HELD in details.mark


def _age(row: Job) -> tuple[float, int]:
    """Return the order of rows that run or are about to: by submission, ties by job id."""
    return row.key.submit_s, row.number


def _array(row: Job) -> tuple[str, float]:
    """Return the array of a task, as (name, submit time)."""
    return row.array, row.key.submit_s
