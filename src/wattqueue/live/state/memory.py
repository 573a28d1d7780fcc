"""Remember releases, refusals and first submissions across restarts of the controller.

A release is stored before Slurm is asked to start the job. A controller that is killed in between
finds the job still held and simply forgets the release; the other order could lose the watts of a
job under way.

=============  ================================  =====================================================================
table          written                           needed after a restart for
=============  ================================  =====================================================================
live_placed    before each release               watts and option of jobs under way; telling them from adopted ones
live_refused   when a start failed               the back-off, so that a restart does not try every broken job at once
live_origin    when a job was requeued           its place in the queue
live_parked    before a job is stopped           telling the jobs to continue from those that a person stopped
live_drained   before a node is drained          telling the nodes to bring back from those that a person drained
live_ledger    at each reading of the meter      what an adaptive ledger has learned, and the allowance that is spent
live_budgets   before each release, at ends      what running jobs set aside of budgets, and what was used
live_marks     when a mark is first seen         the user's hold, the range of nodes before a pin, re-asserted watts
=============  ================================  =====================================================================

Losing the database loses no job and no watt: Slurm's licences hold the cap. Jobs under way are then adopted and
decided again, requeued jobs go to the end of the queue, and the marks are read from the AdminComments once more.

Reads are served from dictionaries, which are the truth of a running controller; each change is written through to
the database in one transaction. A database that fails (full disk, damaged file) does not end the controller: the
changed keys are kept as ``unsaved`` and stored with the next change, or by ``sync`` at the begin of the next round.
Only a release must not happen unsaved, so ``place`` raises, and nothing is released in that round. ``problem`` keeps
the failure until the next ``sync``: a later transaction that has nothing to write succeeds on a full disk, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, RowMapping, Table, and_, bindparam, delete, insert, select
from sqlalchemy.exc import SQLAlchemyError

from wattqueue.errors import OutputError
from wattqueue.live.cluster import JobKey
from wattqueue.live.state.database import BUDGETS, DRAINED, LEDGER, MARKS, ORIGIN, PARKED, PLACED, REFUSED
from wattqueue.store.failures import cause


class ReleasedJob(NamedTuple):
    """A job that the controller released."""

    key: JobKey
    since_s: float
    """Time of the round that decided it."""
    partition: str
    """Slurm partition that was written."""
    option: int
    """Option (partition, frequency) of the start."""
    watts: int
    """Count of the ``watts`` licence that was written."""
    predicted_w: float
    """Predicted watts of the whole job, idle share included."""
    limit_s: float
    """Time limit that was written."""
    nodes: str = ""
    """Compressed node list that the pass chose; Slurm is bound to it only where it was written too."""


class ParkedJob(NamedTuple):
    """A job that the controller stopped during a load target, or is about to."""

    key: JobKey
    since_s: float
    """Time of the round that decided it."""
    watts: int
    """Count of its ``watts`` licence before."""
    limit_s: float
    """Its time limit before; inf for none."""
    why: str
    """The load target, for its user and the audit log."""
    until_s: float
    """End of the target, as it was known then: who takes over without a controller continues the job after it."""


class Refused(NamedTuple):
    """A job whose start was refused or did not happen."""

    key: JobKey
    until_s: float
    """It is not tried again before this time."""
    times: int
    """Consecutive refusals: the back-off doubles with each."""
    reason: str


STUCK_AFTER = 3
"""A job is stuck after so many refusals in a row."""
ADAPTIVE = "adaptive"
"""Name of the row of an adaptive ledger."""
TABLES = (PLACED, REFUSED, ORIGIN, MARKS, PARKED)


@dataclass
class ControllerState:
    """The tables of the controller's state (``live.state.database.open_state``).

    There is one writer, the holder of the run folder's lock.

    Invariant: for every key outside ``unsaved`` the database holds exactly the rows of the dictionaries.
    """

    engine: Engine
    placed: dict[JobKey, ReleasedJob] = field(default_factory=dict)
    """Jobs that the controller released, until they are gone or held again."""
    refused: dict[JobKey, Refused] = field(default_factory=dict)
    """Jobs whose start failed, for the back-off; kept through later releases for its count."""
    origin: dict[JobKey, float] = field(default_factory=dict)
    """First submission of requeued jobs."""
    marks: dict[JobKey, frozenset[str]] = field(default_factory=dict)
    """What job_submit.lua or the controller noted about a job (``cluster.USER_HELD``, ``licences.REWRITTEN``)."""
    parked: dict[JobKey, ParkedJob] = field(default_factory=dict)
    """Jobs that the controller stopped, until they are seen running again or are gone."""
    drained: dict[str, float] = field(default_factory=dict)
    """Nodes that the controller drained, each with the end of the target, until they are seen in service again."""
    ledger: str = ""
    """What an adaptive ledger has learned (``live.features.ledger_meter``), as JSON; empty for nothing."""
    books: dict[str, str] = field(default_factory=dict)
    """The books of energy budgets (``live.features.budgets``): rows of JSON by a name of theirs."""
    unbooked: set[str] = field(default_factory=set)
    """Rows of these that are not stored yet."""
    unsaved: set[JobKey] = field(default_factory=set)
    problem: str = ""
    """Why a change could not be stored since the last ``sync``; empty where all could be."""

    def __post_init__(self) -> None:
        """Load all rows."""
        with self.engine.connect() as connection:
            for row in connection.execute(select(PLACED)).mappings():
                self.placed[_key(row)] = ReleasedJob(_key(row), **_fields(row, ReleasedJob))
            for row in connection.execute(select(REFUSED)).mappings():
                self.refused[_key(row)] = Refused(_key(row), **_fields(row, Refused))
            for row in connection.execute(select(PARKED)).mappings():
                self.parked[_key(row)] = ParkedJob(_key(row), **_fields(row, ParkedJob))
            for row in connection.execute(select(ORIGIN)).mappings():
                self.origin[_key(row)] = row["first_s"]
            for row in connection.execute(select(MARKS)).mappings():
                self.marks[_key(row)] = frozenset(row["marks"].split(","))
            self.drained = {row.name: row.until_s for row in connection.execute(select(DRAINED))}
            self.books = {row.name: row.state for row in connection.execute(select(BUDGETS))}
            self.ledger = next((row.state for row in connection.execute(select(LEDGER))), "")

    def place(self, rows: Iterable[ReleasedJob]) -> None:
        """Store jobs that are about to be released.

        An earlier refusal of the same job stays, for the count of its back-off.

        Raises: OutputError where they cannot be stored; then none of them may be released.
        """
        rows = [row for row in rows if self.placed.get(row.key) != row]
        if not rows:
            return
        before = {row.key: self.placed.get(row.key) for row in rows}
        unsaved = set(self.unsaved)
        self.placed |= {row.key: row for row in rows}
        if not self._save(before):
            # neither the database nor the dictionaries changed, so these keys are no more unsaved than before
            self.unsaved = unsaved
            for key, old in before.items():
                if old is None:
                    del self.placed[key]
                else:
                    self.placed[key] = old
            raise OutputError(f"the state cannot be written: {self.problem}", where=self.engine.url.database)

    def park(self, rows: Iterable[ParkedJob]) -> None:
        """Store jobs that are about to be stopped. Raises: OutputError where they cannot be; then none may be."""
        rows = [row for row in rows if row.key not in self.parked]
        if not rows:
            return
        unsaved = set(self.unsaved)
        self.parked |= {row.key: row for row in rows}
        if not self._save(row.key for row in rows):
            self.unsaved = unsaved
            for row in rows:
                del self.parked[row.key]
            raise OutputError(f"the state cannot be written: {self.problem}", where=self.engine.url.database)

    def unpark(self, keys: Iterable[JobKey]) -> None:
        """Forget that jobs were stopped: they run again."""
        self._save([key for key in keys if self.parked.pop(key, None) is not None])

    def drain(self, names: Iterable[str], until_s: float) -> None:
        """Store nodes that are about to be drained, with the end of the load target.

        Raises: OutputError where they cannot be; then none may be.
        """
        new = [name for name in names if name not in self.drained]
        if not new:
            return
        try:
            with self.engine.begin() as connection:
                connection.execute(insert(DRAINED), [{"name": name, "until_s": until_s} for name in new])
        except SQLAlchemyError as error:
            self.problem = cause(error)
            raise OutputError(f"the state cannot be written: {self.problem}", where=self.engine.url.database) from error
        self.drained |= dict.fromkeys(new, until_s)

    def undrain(self, names: Iterable[str]) -> None:
        """Forget that nodes were drained. One that cannot be removed from the database is forgotten at a later call."""
        gone = [name for name in names if name in self.drained]
        if not gone:
            return
        try:
            with self.engine.begin() as connection:
                connection.execute(delete(DRAINED).where(DRAINED.c.name.in_(gone)))
        except SQLAlchemyError as error:
            self.problem = cause(error)
            return
        for name in gone:
            del self.drained[name]

    def book(self, rows: Mapping[str, str | None]) -> None:
        """Change rows of the books, None for one that is gone; ``store_books`` stores them."""
        for name, state in rows.items():
            if self.books.get(name) != state:
                self.unbooked.add(name)
                if state is None:
                    del self.books[name]
                else:
                    self.books[name] = state

    def store_books(self) -> None:
        """Store all changes of the books in one transaction.

        Raises: OutputError where they cannot be; then no job may be released that sets something aside.
        """
        if not self.unbooked:
            return
        names = sorted(self.unbooked)
        rows = [{"name": name, "state": self.books[name]} for name in names if name in self.books]
        try:
            with self.engine.begin() as connection:
                connection.execute(delete(BUDGETS).where(BUDGETS.c.name == bindparam("of")), [{"of": n} for n in names])
                if rows:
                    connection.execute(insert(BUDGETS), rows)
        except SQLAlchemyError as error:
            self.problem = cause(error)
            raise OutputError(f"the state cannot be written: {self.problem}", where=self.engine.url.database) from error
        self.unbooked = set()

    def keep_ledger(self, state: str) -> None:
        """Store what an adaptive ledger has learned; where that fails, the next reading stores it."""
        self.ledger = state
        try:
            with self.engine.begin() as connection:
                connection.execute(delete(LEDGER))
                connection.execute(insert(LEDGER).values(name=ADAPTIVE, state=state))
        except SQLAlchemyError as error:
            self.problem = cause(error)

    def unplace(self, keys: Iterable[JobKey]) -> None:
        """Forget releases that did not happen, or whose jobs are held again."""
        keys = [key for key in keys if self.placed.pop(key, None) is not None]
        self._save(keys)

    def refuse(self, row: Refused) -> None:
        """Store a refusal; the job is no longer released."""
        self.placed.pop(row.key, None)
        self.refused[row.key] = row
        self._save([row.key])

    def requeued(self, key: JobKey, first_s: float) -> None:
        """Store the first submission of a job that was requeued with a new submit time."""
        if self.origin.get(key) != first_s:
            self.origin[key] = first_s
            self._save([key])

    def mark(self, keys: Iterable[JobKey], mark: str, *, present: bool = True) -> None:
        """Add a mark to jobs, or take it off them."""
        changed = [key for key in keys if (mark in self.marks.get(key, ())) != present]
        for key in changed:
            old = self.marks.pop(key, frozenset())
            new = old | {mark} if present else old - {mark}
            if new:
                self.marks[key] = new
        self._save(changed)

    def marked(self, key: JobKey, mark: str) -> bool:
        """Whether a job has this mark."""
        return mark in self.marks.get(key, ())

    def known(self) -> set[JobKey]:
        """Return the keys of all jobs that something is stored about."""
        return {*self.placed, *self.refused, *self.origin, *self.marks, *self.parked}

    def forget(self, keys: Iterable[JobKey]) -> None:
        """Forget jobs that no longer exist."""
        gone = [key for key in keys if any(key in kept for kept in self._kept())]
        for key in gone:
            for kept in self._kept():
                kept.pop(key, None)
        self._save(gone)

    def sync(self) -> None:
        """Begin a round: try again to store what could not be stored before."""
        self.problem = ""
        if self.unsaved:
            self._save(())

    def _kept(self) -> tuple[dict[JobKey, Any], ...]:
        return self.placed, self.refused, self.origin, self.marks, self.parked

    def _save(self, keys: Iterable[JobKey]) -> bool:
        """Store the rows of these keys and of the unsaved ones in one transaction; whether that succeeded."""
        keys = self.unsaved | set(keys)
        if not keys:
            return True
        try:
            with self.engine.begin() as connection:
                self._store(connection, sorted(keys))
        except SQLAlchemyError as error:
            self.unsaved, self.problem = keys, cause(error)
            return False
        self.unsaved = set()
        return True

    def _store(self, connection: Connection, keys: Sequence[JobKey]) -> None:
        """Bring the rows of keys in line with the dictionaries: one statement a table, for all of them."""
        named = [{"of_name": key.name, "of_submit_s": key.submit_s} for key in keys]
        for table in TABLES:
            mine = and_(table.c.name == bindparam("of_name"), table.c.submit_s == bindparam("of_submit_s"))
            connection.execute(delete(table).where(mine), named)
        kept: tuple[tuple[Table, dict[JobKey, dict[str, object]]], ...] = (
            (PLACED, {key: _rest(self.placed[key]) for key in keys if key in self.placed}),
            (REFUSED, {key: _rest(self.refused[key]) for key in keys if key in self.refused}),
            (PARKED, {key: _rest(self.parked[key]) for key in keys if key in self.parked}),
            (ORIGIN, {key: {"first_s": self.origin[key]} for key in keys if key in self.origin}),
            (MARKS, {key: {"marks": ",".join(sorted(self.marks[key]))} for key in keys if key in self.marks}),
        )
        for table, rows in kept:
            if rows:
                stored = [{"name": key.name, "submit_s": key.submit_s} | row for key, row in rows.items()]
                connection.execute(insert(table), stored)


def _key(row: RowMapping) -> JobKey:
    """Return the job that a row is about."""
    return JobKey(row["name"], row["submit_s"])


def _fields(row: RowMapping, kind: type[ReleasedJob | Refused | ParkedJob]) -> dict[str, Any]:
    """Return the values of a row by name, besides its key: the order of columns differs between old and new files."""
    return {name: row[name] for name in kind._fields if name != "key"}


def _rest(row: ReleasedJob | Refused | ParkedJob) -> dict[str, object]:
    """Return the columns of a row besides its key."""
    return {name: value for name, value in row._asdict().items() if name != "key"}
