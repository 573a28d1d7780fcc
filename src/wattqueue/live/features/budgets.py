"""Energy budgets of a controller: bar jobs, set aside, settle by what was measured, with books that outlive it.

The books are rows of the controller's database (``ControllerState.books``): what is set aside for each job, by budget
and begin of the period, and what was used of each period. Everything that a round changes is stored in one
transaction, before any job is released: a controller that is killed at any moment finds books in which each job is
either set aside or used, and nothing twice. A job that ended while no controller was at work has its record
(``live.files.energy_records``) or is awaited while the accounting may report it; without one it used the most that it
could.

Who asks (``wattqueue budget``) reads a file of each user, as for records of jobs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from pwd import getpwnam, getpwuid
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, WattQueueError, nearest
from wattqueue.formats.budgets import read_budgets
from wattqueue.live.cluster import Details, Job
from wattqueue.live.extension import Extension, beside
from wattqueue.live.features.budget_room import BudgetRoom
from wattqueue.live.features.budget_rows import AHEAD_S, SetAside, StoredBooks
from wattqueue.live.features.budgets_shown import DAY_S, DAYS, BudgetsShown
from wattqueue.live.features.job_energy import EnergyRecorder
from wattqueue.live.files.energy_records import USERS, EnergyFolder, EnergyRecord, read_records, run_name
from wattqueue.live.files.followed import refuse_pipe
from wattqueue.live.files.stamp import Stamp, stamp_of
from wattqueue.live.planner import Planner, RoundState
from wattqueue.live.state.memory import ControllerState
from wattqueue.live.table import Owner, Slots, Stage
from wattqueue.live.world import key_order
from wattqueue.model.budget_books import LONGEST_S, Barred, BudgetBooks, JobDemand
from wattqueue.model.budgets import Budget

AGAIN_S = 60.0
"""How often it is decided again where nothing happened."""
LATE_S = 180.0
"""Slurm ends a job so long after its limit at most: it looks every 30 s, and gives KillWait."""
AWAITED_S = 60.0
"""So long a job that is gone is awaited in the records, where the accounting reports it no more."""
NONE: Slots = np.zeros(0, np.int64)
BARRED = "budget "
"""Begin of the reason of a job that a budget bars."""


class Waiting(NamedTuple):
    """A job that may start."""

    row: Job
    details: Details | None
    demand: JobDemand
    name: str
    concerned: bool
    """Whether any budget is for it."""
    slots: list[int]
    """Its own, and those of its other components."""


@dataclass
class Queue:
    """The jobs that may start, in the order of their submission."""

    slots: Slots = field(default_factory=lambda: NONE)
    wholes: list[list[Job]] = field(default_factory=list)
    """Jobs of several components, each of which waits as one for the sum of its components."""
    version: int = -1
    """Of the table's queue; -1 has all of them looked up again."""
    known: dict[int, Waiting] = field(default_factory=dict)
    demands: dict[str, JobDemand] = field(default_factory=dict)
    """Of those that a budget is for."""
    barred: Slots = field(default_factory=lambda: NONE)
    reasons: NDArray[np.object_] = field(default_factory=lambda: np.zeros(0, np.object_))

    def bar(self, barred: Mapping[str, Barred]) -> None:
        """Find slots and reasons of the barred jobs that wait."""
        words = {key: reason(*one) for key, one in {id(one): one for one in barred.values()}.items()}
        mine = [(one.slots, words[id(bar)]) for one in self.known.values() if (bar := barred.get(one.name)) is not None]
        self.barred = np.array([slot for slots, _ in mine for slot in slots], np.int64)
        self.reasons = np.array([text for slots, text in mine for _ in slots], np.object_)


@dataclass
class Demands:
    """Finds what jobs may use at most."""

    longer: dict[str, float] = field(default_factory=dict)
    """How much longer waiting jobs may run, by the clocks at which they may start."""
    _users: dict[int, str] = field(default_factory=dict)

    def of(self, now: RoundState, row: Job, first: Job | None = None) -> JobDemand:
        """Return what a job may use at most; a component is of the account and project of the ``first`` one."""
        watts = _most_node_w(now.planner, row) * max(row.nodes, row.most_nodes if row.pending else 0)
        details = now.snapshot.details.get((first or row).key)
        account, project = ("", "") if details is None else (details.account, details.project)
        limit_s = row.walltime_s * (self.longer.get(_name(row), 1.0) if row.pending else 1.0)
        return JobDemand(self._user(row.uid), account, watts, limit_s + LATE_S, project)

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            try:
                self._users[uid] = getpwuid(uid).pw_name
            except (KeyError, OverflowError):
                self._users[uid] = str(uid)
        return self._users[uid]

    def keep_back(self, now: RoundState, queue: Queue) -> None:
        """Leave out starts of jobs that may run longer, by their clocks, than was asked: they are asked about again."""
        decision, kept, version = now.decision, list[int](), queue.version
        for k, slot in enumerate(now.waiting[list(decision.rows)].tolist()):
            one = queue.known.get(slot)
            factor = _longest(now, one.row, decision.rows[k]) if one is not None and one.concerned else 1.0
            if one is None or factor <= self.longer.get(one.name, 1.0):
                kept.append(k)
            else:
                self.longer[one.name], version = factor, -1
                del queue.known[slot]
        queue.version = version
        if len(kept) < len(decision.rows):
            starts = tuple(decision.starts[k] for k in kept)
            now.decision = decision._replace(starts=starts, rows=tuple(decision.rows[k] for k in kept))


@dataclass
class LiveBudgets:
    """The budgets of a file, and their books in the controller's state.

    Raises: InputError for a file that cannot be used at the start; later the budgets before stay in force.
    """

    path: Path
    memory: ControllerState
    folder: EnergyFolder
    parks: bool = False
    """Whether a control suspends jobs."""
    awaits: bool = False
    """Whether the accounting may still measure what a record calls modelled."""
    expects: Callable[[str, float], bool] = lambda _name, _now_s: False
    """Whether the accounting may still report a run by its name, at a time."""
    problem: str = ""
    _ended: dict[str, EnergyRecord] = field(default_factory=dict)
    """Final records of jobs that are not settled yet."""
    _gone_s: dict[str, float] = field(default_factory=dict)
    """Since when held jobs are neither running nor waiting."""
    accounts: Callable[[], Collection[str]] = tuple
    """Returns those that the resource manager has; empty where that is not known."""
    _stamp: Stamp = ()
    _decided_s: float = -math.inf
    _freed_s: float = -math.inf
    """When all barred jobs were looked at again."""
    _next_s: float = math.inf
    """When the first barred job may be let through."""
    _recovered: bool = False
    _strangers: tuple[str, ...] = ()
    """What to say of users of budgets whom this host does not know."""
    demands: Demands = field(default_factory=Demands)
    queue: Queue = field(default_factory=Queue)
    _begun: dict[str, Job] = field(default_factory=dict)
    """Rows of running jobs that are set aside."""

    def __post_init__(self) -> None:
        """Read the file, and the books."""
        self._stamp, self.stored = stamp_of(self.path), StoredBooks(self.memory)
        self._open(self._read())

    @property
    def books(self) -> BudgetBooks:
        """What is booked."""
        return self.stored.books

    @property
    def held(self) -> dict[str, SetAside]:
        """The jobs for which something is set aside."""
        return self.stored.held

    def _read(self) -> tuple[Budget, ...]:
        """Return the file's budgets. Raises: the errors of ``read_budgets``; InputError for one that cannot be kept."""
        refuse_pipe(self.path)
        budgets = read_budgets(self.path)
        for name in (one.name for one in budgets if self.parks and one.mode == "maximum"):
            text = f"budget {name}: mode maximum sets nothing aside for a pause, and the policy suspends jobs"
            raise InputError(text, where=self.path, hint='mode = "quantile", or a policy without this control')
        return budgets

    def _open(self, budgets: tuple[Budget, ...]) -> None:
        """Take budgets, with what is booked on those of their names; what is set aside may be of other periods now."""
        self.stored.open(budgets)
        for name, one in self.held.items():
            latest_s = -one.start_s + AHEAD_S if one.start_s < 0.0 else None
            self.books.begin(name, one.demand, abs(one.start_s), latest_s)
            self.stored.note(name)
        users = sorted({(one.name, user) for one in budgets for user in one.users if not _is_user(user)})
        self._strangers = tuple(f"budget {name}: this host has no user {user!r}" for name, user in users)

    # -- a round ------------------------------------------------------------------------------------
    def look(self, now: RoundState) -> None:
        """Book starts and ends, and bar the jobs for which budgets have no room."""
        self._reread()
        self.stored.begin(now.now_s)
        due = not 0.0 <= now.now_s - self._decided_s < AGAIN_S or self._next_s <= now.now_s
        running = {_name(row): row for row in now.jobs.rows(now.running)}
        parked = _parked(now) & self.held.keys()
        for name, row in running.items():
            if name not in parked and (due or self._begun.get(name) is not row):
                self._begin(now, name, row)
        self._begun = running
        present = running.keys() | {_name(row) for row in (*now.jobs.rows(now.under_way), *now.rows_at(Stage.STALLED))}
        self._settle(now, present)
        if due:  # a job may be of another account now
            self.queue.version = -1
        if not 0.0 <= now.now_s - self._freed_s < AHEAD_S:  # what jobs are known to use has changed
            self.books.freed.update(range(len(self.books.books)))
            self._freed_s = now.now_s
        changed, fresh = self._wait(now)
        if due or fresh or self.books.freed:
            before = self.books.barred
            self.books.let_through(now.now_s, self.queue.demands)
            self._decided_s = now.now_s
            self._next_s = min(self.books.barred.values(), default=Barred(math.inf, "")).until_s
            changed |= before != self.books.barred
        if changed:
            self.queue.bar(self.books.barred)
        now.jobs.stage[self.queue.barred], now.jobs.reason[self.queue.barred] = Stage.BARRED, self.queue.reasons
        now.waiting = now.jobs.waiting()

    def _reread(self) -> None:
        """Read the file again where it has changed; one that cannot be used leaves the budgets before."""
        stamp = stamp_of(self.path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            budgets = self._read()
        except WattQueueError as error:
            self.problem = f"budgets: {error}"
            return
        self.problem = ""
        self._open(budgets)
        self._decided_s, self.queue, self._begun = -math.inf, Queue(), {}

    def _begin(self, now: RoundState, name: str, row: Job) -> None:
        """Set aside what a job may use that runs, once, and again where its start or limit is another."""
        known = self.held.get(name)
        demand = self.demands.of(now, row)
        if known is not None:  # who it belongs to is known from its submission, and that a control may slow it down
            least_s = known.demand.span_s if now.planner.session.needs.controls else 0.0
            demand = known.demand._replace(span_s=max(demand.span_s, least_s))
        lacks = [book for _, book, _ in self.books.of(demand) if name not in book.held]
        if known is None and not lacks:
            return
        if known is None or known.start_s != row.start_s or known.demand != demand or lacks:
            self.held[name] = SetAside(row.uid, demand, row.start_s)
            self.books.begin(name, demand, row.start_s)
            self.stored.note(name)

    def starts(self, now: RoundState) -> None:
        """Set aside what the jobs may use that this round releases."""
        for placed in now.placed if now.planner.rules.mode == "control" else ():
            row = now.jobs.row[now.jobs.slot[placed.key]]
            demand = self.demands.of(now, row)
            self._release(now, row, demand._replace(span_s=max(demand.span_s, placed.limit_s + LATE_S)))
        released = {goal.key for goal in now.goal.jobs if goal.held is False} if self.queue.wholes else set()
        for first, *others in self.queue.wholes:
            for row in (*others, first) if first.key in released else ():
                self._release(now, row, self.demands.of(now, row, first), "" if row is first else _name(first))

    def _release(self, now: RoundState, row: Job, demand: JobDemand, of: str = "") -> None:
        """Set aside what a job may use that is released now; ``of``: it is a component of that one."""
        if self.books.of(demand):
            self.held[_name(row)] = SetAside(row.uid, demand, -now.now_s)
            self.books.begin(_name(row), demand, now.now_s, now.now_s + AHEAD_S, of)
            self.stored.note(_name(row))

    def _settle(self, now: RoundState, present: AbstractSet[str]) -> None:
        """Book what jobs used that are gone: by their records, or the most after so long without one."""
        gone = [name for name in self.held if name not in present]
        self._gone_s = {name: self._gone_s.get(name, now.now_s) for name in gone}
        recorded = _recorded(self, gone) if gone and not self._recovered else {}
        self._recovered = True
        waits = {_name(row) for row in now.snapshot.jobs if row.pending and row.held} if gone else set()
        for name in gone:
            one, record = self.held[name], self._ended.pop(name, None) or recorded.get(name)
            if record is not None:
                run_s = max(record.end_s - record.start_s, 1.0)
                self._end(name, record.start_s, record.start_s + run_s, record.energy_j / run_s)
            elif one.start_s < 0.0 and name in waits:  # it did not start
                self._drop(name)
            elif now.now_s - self._gone_s[name] >= AWAITED_S and not self.expects(name, now.now_s):
                start_s = abs(one.start_s)  # since its release at most
                end_s = min(start_s + min(one.demand.span_s, LONGEST_S), self._gone_s[name])
                self._end(name, start_s, max(end_s, start_s), one.demand.watts)

    def _end(self, name: str, start_s: float, end_s: float, watts: float) -> None:
        one = self.held.pop(name)
        booked = self.books.end(name, one.demand, start_s, end_s, watts)
        for book, amounts, spare in booked:
            days, day = self.stored.days.setdefault(book.budget.name, {}), int(end_s // DAY_S)
            if not spare:
                days[day] = days.get(day, 0) + sum(amounts.values())
            for old in [old for old in days if old < day - DAYS]:
                del days[old]
        self.stored.note(name)
        self.stored.note_used(one.demand.user, booked)

    def _drop(self, name: str) -> None:
        self.held.pop(name)
        self.books.drop(name)
        self.stored.note(name)

    def final(self, record: EnergyRecord) -> None:
        """Take the record of a run; the next round books it."""
        name = run_name(record.job, record.submit_s)
        if name in self.held:
            self._ended[name] = record

    def _wait(self, now: RoundState) -> tuple[bool, bool]:
        """Find the jobs that may start; return whether they changed, and whether some are new."""
        jobs, queue = now.jobs, self.queue
        slots, wholes = jobs.queue[jobs.stage[jobs.queue] == Stage.HELD], _wholes(now)
        if jobs.version == queue.version and np.array_equal(slots, queue.slots) and wholes == queue.wholes:
            return False, False
        known, details = queue.known, now.snapshot.details if queue.version < 0 else {}
        rows, fresh = dict[int, Waiting](), False
        for slot, row in zip(slots.tolist(), jobs.row[slots].tolist(), strict=True):
            one = known.get(slot)
            if one is None or one.row is not row or (details and details.get(row.key) != one.details):
                one = self._look_up(now, row)
                fresh |= one.concerned
            rows[slot] = one
        if wholes:
            fresh |= wholes != queue.wholes
            rows |= {jobs.slot[parts[0].key]: self._look_up(now, *parts) for parts in wholes}
            rows = dict(sorted(rows.items(), key=lambda pair: key_order(pair[1].row)))
        queue.wholes = wholes
        demands = {one.name: one.demand for one in rows.values() if one.concerned}
        for name in queue.demands.keys() - demands.keys():
            if name not in self.held:
                self.books.cancel(name, queue.demands[name])
        self.demands.longer = {name: by for name, by in self.demands.longer.items() if name in demands}
        queue.slots, queue.version, queue.known, queue.demands = slots, jobs.version, rows, demands
        return True, fresh

    def waiting(self) -> Iterator[tuple[int, JobDemand]]:
        """Yield user id and demand of the jobs that wait."""
        return ((one.row.uid, one.demand) for one in self.queue.known.values())

    def _look_up(self, now: RoundState, row: Job, *others: Job) -> Waiting:
        """Return a job that may start, with the other components of it."""
        demand = self.demands.of(now, row)
        for one in (self.demands.of(now, other, row) for other in others):
            demand = demand._replace(watts=demand.watts + one.watts, span_s=max(demand.span_s, one.span_s))
        concerned = bool(self.books.numbers(demand.user, demand.account, demand.project))
        slots = [now.jobs.slot[one.key] for one in (row, *others)]
        return Waiting(row, now.snapshot.details.get(row.key), demand, _name(row), concerned, slots)

    def lines(self) -> Iterator[str]:
        """Yield what a person should know."""
        if self.problem:
            yield self.problem
        yield from self._strangers
        accounts = self.accounts()
        for budget in self.books.budgets if accounts else ():
            if budget.account and budget.account not in accounts:
                near = nearest(budget.account, accounts)
                yield f"budget {budget.name}: Slurm has no account {budget.account!r}{near and f'; {near}'}".strip()


def _recorded(budgets: LiveBudgets, gone: Iterable[str]) -> dict[str, EnergyRecord]:
    """Return the records of jobs that ended before this controller began."""
    uids = {budgets.held[name].uid for name in gone}
    found = read_records([budgets.folder.folder / USERS / str(uid) for uid in uids])
    return {run_name(one.job, one.submit_s): one for one in found if not (budgets.awaits and one.label == "modelled")}


def reason(until_s: float, by: str) -> str:
    """Return why a budget bars a job."""
    if math.isinf(until_s):
        return f"{BARRED}{by}: the job may use more than any period has; a shorter limit or fewer nodes may fit"
    return f"{BARRED}{by} has no room for it before {time.strftime('%Y-%m-%d %H:%M', time.localtime(until_s))}"


def _most_node_w(planner: Planner, row: Job) -> float:
    """Return the most that a node of a job draws: all of a node that it shares with others, too."""
    parts = [planner.layout.machine.partitions[p] for p in planner.layout.allowed(row.partition)]
    shared = (planner.shared_nodes.partition(name) for name in row.partition.split(","))
    return max((float(one.max_w or math.inf) for one in (*parts, *shared) if one is not None), default=0.0)


def _wholes(now: RoundState) -> list[list[Job]]:
    """Return the components of each job that waits for its release, barred ones before this round, too."""
    jobs, found = now.jobs, dict[str, list[Job]]()
    parts = jobs.at([Stage.HELD, Stage.BARRED], Owner.HANDED_OVER)
    jobs.stage[parts] = Stage.HELD
    for row in jobs.rows(parts):
        found.setdefault(row.whole or row.key.name, []).append(row)
    return list(found.values())


def _longest(now: RoundState, job: Job, row: int) -> float:
    """Return how much longer a job may run by the clocks of its window, at most; ``row``: its own in the view."""
    figures, entries, window = now.planner.predictor.of(job.key), now.view.entries, now.view.window
    if figures is None:
        return 1.0
    mine = np.flatnonzero(entries.job == row)
    spans = zip(window.first[mine].tolist(), window.last[mine].tolist(), strict=True)
    return max((float(figures[1][first : last + 1].max()) for first, last in spans), default=1.0)


def _parked(now: RoundState) -> set[str]:
    """Return the jobs that the controller stopped: their limits are ahead of the clock until they continue."""
    slots = np.array(now.running, np.int64)
    return {_name(row) for row in now.jobs.rows(slots[np.isin(now.jobs.stage[slots], (Stage.PARKED, Stage.RESUMING))])}


def _is_user(name: str) -> bool:
    try:
        return bool(getpwnam(name))
    except KeyError:
        return False


def _name(row: Job) -> str:
    return run_name(row.key.name, row.key.submit_s)


def budgets_extension(budgets: LiveBudgets, energies: EnergyRecorder) -> Extension:
    """Return the stages that keep budgets."""
    energies.final, budgets.awaits = budgets.final, energies.accounting is not None
    budgets.accounts, budgets.expects = (lambda: energies.accounts), energies.expects
    shown = BudgetsShown(budgets.stored, budgets.waiting, energies.folder)
    room = BudgetRoom(budgets.stored, energies.folder)

    def report(now: RoundState) -> None:
        shown.show(now)
        room.write(now)

    def keep_back(now: RoundState) -> None:
        budgets.demands.keep_back(now, budgets.queue)

    show = beside("the budgets", report)
    return Extension(
        {"learned": budgets.look, "decided": keep_back, "planned": budgets.starts, "report": show},
        budgets.lines, keeps=budgets,
    )  # fmt: skip
