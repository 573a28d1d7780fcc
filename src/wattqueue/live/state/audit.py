"""Keep an append-only log of every write to Slurm: who, why, before and after, in a hash chain.

Each row's hash covers all its columns and the hash of the row before it, so that a row that was
changed, inserted or removed breaks the chain at that row (``verify``). With a secret key the hash is
an HMAC: who can write the database but does not have the key cannot reseal it. The *head* file names
the last row outside the database, so that rows cut off the end are noticed too.

Old rows are removed (``Audit.prune``); the table of the begin then names the last of them, sealed like a row, and the
chain starts there. A log that lacks rows which the head names was deleted or cut off: the next controller reports it,
keeps the old head in a file of its own, and notes it in the first row that it writes (``Audit.lost``).

Order of writing: the row first, then the head; the rows of writes that are carried out together are written at once.
A controller killed in between leaves a head that is behind by so many rows (``TOGETHER``), which ``verify`` accepts if
it names its row rightly; a head further behind, or ahead, is reported.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, delete, func, insert, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from wattqueue.errors import InputError, OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.apply import TOGETHER
from wattqueue.live.cluster import Write
from wattqueue.live.state.database import AUDIT, AUDIT_BEGIN, open_state
from wattqueue.model.plain_numbers import is_whole
from wattqueue.store.failures import cause

START = "0" * 64
"""What the first row names as the hash of the row before it."""
SEALED = ("number", "time_us", "who", "event", "about", "kind", "target", "before", "after", "why", "previous")


class ChainCheck(NamedTuple):
    """Result of ``verify``."""

    rows: int
    """Rows read."""
    broken: int = 0
    """Number of the first row that breaks the chain; 0 for none."""
    reason: str = ""


@dataclass
class Audit:
    """The log, open for appending. One writer at a time: the controller, or ``live release``."""

    engine: Engine
    """A database of ``live.state.database.open_state``."""
    who: str
    """Written on each row, for example ``controller/easy/1234``."""
    clock: Callable[[], float]
    """Gives seconds since the epoch."""
    key: bytes = b""
    """Secret of the HMAC; empty for plain SHA-256."""
    head: Path | None = None
    """File that names the last row; None to keep none."""
    problem: str = ""
    """Why the last row could not be written; empty where it was."""
    lost: str = ""
    """What the log lacked when it was opened; empty where it was whole."""
    _last: tuple[int, str] = field(default=(0, START))

    def __post_init__(self) -> None:
        with self.engine.connect() as connection:
            row = connection.execute(select(AUDIT).order_by(AUDIT.c.number.desc()).limit(1)).first()
            self._last = begin_of(connection, self.key)[:2] if row is None else (row.number, row.hash)
        self._look_for_losses()

    def _look_for_losses(self) -> None:
        """Compare the last row with the head: rows that the head names and the log lacks were removed."""
        head = read_head(self.head) if self.head is not None else None
        if self.head is None or head is None:
            return
        if head[0] <= self._last[0]:
            for kept in sorted(self.head.parent.glob(f"{self.head.name}.*")):
                if is_whole(kept.suffix[1:]):
                    self.lost = (
                        f"rows of the audit log were deleted earlier: {kept} names the last of them; remove it then"
                    )
            return
        kept = self.head.with_name(f"{self.head.name}.{round(self.clock())}")
        self.lost = f"the audit log ends at row {self._last[0]}, and row {head[0]} was written: rows were deleted"
        try:
            atomic_text(kept, f"{head[0]} {head[1]}\n", mode=0o600, sync=False)
        except OutputError:
            return  # the full disk is reported by whatever is written next
        self.note("lost", f"{self.lost}; the head that names it is kept as {kept.name}")

    def prune(self, days: float) -> int:
        """Remove rows older than so many days; return their number. The last row always stays.

        Raises: SQLAlchemyError where the database fails; nothing is removed then.
        """
        before_us = round((self.clock() - days * 86400.0) * 1e6)
        with self.engine.begin() as connection:
            first_kept = select(func.min(AUDIT.c.number)).where(AUDIT.c.time_us >= before_us)
            kept = connection.execute(first_kept).scalar()
            number = min((self._last[0] if kept is None else kept) - 1, self._last[0] - 1)
            row = connection.execute(select(AUDIT).where(AUDIT.c.number == number)).first()
            if row is None:
                return 0
            connection.execute(delete(AUDIT_BEGIN))
            mark = seal_begin(row.number, row.hash, self.key)
            connection.execute(insert(AUDIT_BEGIN).values(number=row.number, hash=row.hash, seal=mark))
            return connection.execute(delete(AUDIT).where(AUDIT.c.number <= number)).rowcount

    def intend(self, writes: Sequence[Write]) -> list[int]:
        """Record writes that are about to be done, and return the numbers of their rows.

        Raises: OutputError where they cannot be recorded; then none of them is.
        """
        return self._append([("intend", 0, w.kind, w.target, w.before, w.after, w.why) for w in writes])

    def record_outcomes(self, outcomes: Sequence[tuple[int, str]]) -> None:
        """Record outcomes, each with the number of the row of its write."""
        self._append([("settle", number, "", "", "", outcome, "") for number, outcome in outcomes])

    def note(self, event: str, why: str) -> None:
        """Record an event that is no write: the controller started, stopped, took over another cap.

        A note that cannot be written is left out: nothing depends on it.
        """
        with contextlib.suppress(OutputError):
            self._append([("note", 0, event[:16], "", "", "", why)])

    def _append(self, values: Sequence[tuple[Any, ...]]) -> list[int]:
        """Append rows in one transaction, then move the head; return their numbers.

        Raises: OutputError where either cannot be written (full disk, damaged database). The next row follows the
        last one that was stored, so the chain stays whole.
        """
        time_us, (number, previous) = round(self.clock() * 1e6), self._last
        names = ("event", "about", "kind", "target", "before", "after", "why")
        rows = []
        for one in values:
            number += 1
            row = dict(zip(names, one, strict=True))
            row |= {"number": number, "time_us": time_us, "who": self.who, "previous": previous}
            previous = row["hash"] = seal(row, self.key)
            rows.append(row)
        if not rows:
            return []
        try:
            with self.engine.begin() as connection:
                connection.execute(insert(AUDIT), rows)
            self._last = (number, previous)
            if self.head is not None:
                atomic_text(self.head, f"{number} {previous}\n", mode=0o600, sync=False)
        except SQLAlchemyError as error:
            self.problem = f"the audit log cannot be written: {cause(error)}"
            raise OutputError(self.problem, where=self.engine.url.database) from error
        except OutputError as error:
            self.problem = str(error)
            raise
        self.problem = ""
        return [row["number"] for row in rows]


def seal(row: Mapping[str, Any], key: bytes) -> str:
    """Return the hash of a row: of every column and of the row before it, an HMAC where there is a key."""
    text = json.dumps([row[name] for name in SEALED], ensure_ascii=True, separators=(",", ":")).encode()
    return hmac.new(key, text, hashlib.sha256).hexdigest() if key else hashlib.sha256(text).hexdigest()


def seal_begin(number: int, last: str, key: bytes) -> str:
    """Return the seal of the last row that was removed."""
    text = f"begin {number} {last}".encode()
    return hmac.new(key, text, hashlib.sha256).hexdigest() if key else hashlib.sha256(text).hexdigest()


def begin_of(connection: Connection, key: bytes) -> tuple[int, str, bool]:
    """Return the number and the hash of the row that the log follows, and whether their seal is right."""
    if not inspect(connection).has_table(AUDIT_BEGIN.name):
        return 0, START, True
    row = connection.execute(select(AUDIT_BEGIN)).first()
    if row is None:
        return 0, START, True
    return row.number, row.hash, hmac.compare_digest(seal_begin(row.number, row.hash, key), row.seal)


def read_head(path: Path) -> tuple[int, str] | None:
    """Return number and hash of the row that a head names; None where there is none that can be read."""
    try:
        number, _, tip = path.read_text().strip().partition(" ")
        return int(number), tip
    except (OSError, ValueError):
        return None


def open_log(url: str) -> Engine:
    """Open the database that holds a log, and change nothing. Raises: InputError where there is none."""
    engine = open_state(url, make=False, upgraded=False)
    if not inspect(engine).has_table(AUDIT.name):
        raise InputError("holds no audit log", where=url, hint="has the controller run with this configuration?")
    return engine


def rows_of(engine: Engine, *, target: str | None = None, last: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield rows in order: all, those about one job or node (``target``), or the last so many.

    ``settle`` rows name no target, so they are found through the row that they settle.
    """
    query = select(AUDIT).order_by(AUDIT.c.number)
    if target is not None:
        mine = select(AUDIT.c.number).where(AUDIT.c.target == target)
        query = query.where(AUDIT.c.number.in_(mine) | AUDIT.c.about.in_(mine))
    with engine.connect() as connection:
        if last:
            newest = connection.execute(select(func.max(AUDIT.c.number))).scalar() or 0
            query = query.where(AUDIT.c.number > newest - last)
        yield from _rows(connection, query)


def _rows(connection: Connection, query: Select[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a query as they come, in constant memory."""
    for row in connection.execution_options(stream_results=True).execute(query).mappings():
        yield {str(name): value for name, value in row.items()}


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees the database as it is now, whatever is written or removed meanwhile."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN")  # sqlite3 begins none for reading
        else:
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        yield connection
        connection.rollback()


def verify(engine: Engine, key: bytes = b"", head: Path | None = None) -> ChainCheck:
    """Read the whole log and check each row's hash, its number, and the row it follows.

    A controller may be at work: rows are those of one moment, and the head is read before and after it. All rows that
    the first head names were there then, and no more than ``TOGETHER`` of them can lie behind the second.

    Raises: InputError where the head's file cannot be read.
    """
    first = _stated_head(head)
    with _snapshot(engine) as connection:
        found = _verify_rows(connection, key, first)
    if found.broken or first is None:
        return found
    # rows cut off the end leave a chain that is whole: only the head, which lies elsewhere, shows it
    last = _stated_head(head) or first
    if first[0] > found.rows or last[0] < found.rows - TOGETHER:
        reason = f"the log ends at row {found.rows}, its head names row {first[0]}"
        return ChainCheck(found.rows, found.rows, reason)
    return found


def _verify_rows(connection: Connection, key: bytes, head: tuple[int, str] | None) -> ChainCheck:
    """Check the chain of rows, and that it has the row that a head names."""
    number, previous, sealed = begin_of(connection, key)
    if not sealed:
        return ChainCheck(0, number + 1, "the begin of the log, after rows that were removed, does not fit its seal")
    # rows are streamed in order of their numbers, so a log of any length is checked in constant memory
    for row in chain((None,), _rows(connection, select(AUDIT).order_by(AUDIT.c.number))):
        if row is not None:
            number += 1
            # numbers have no gaps, so a removed row shows even if its neighbours were resealed without the key
            if row["number"] != number:
                return ChainCheck(number, number, f"row {number} is missing")
            if row["previous"] != previous:
                return ChainCheck(number, number, "it does not follow the row before it")
            if not hmac.compare_digest(seal(row, key), row["hash"]):
                return ChainCheck(number, number, "its content does not fit its hash")
            previous = row["hash"]
        if head is not None and head[0] == number and head[1] != previous:
            return ChainCheck(number, number, "the head names another row with this number")
    return ChainCheck(number)


def _stated_head(path: Path | None) -> tuple[int, str] | None:
    """Return what a head names; None where there is none. Raises: InputError for a file that is no head."""
    if path is None or not path.exists():
        return None
    found = read_head(path)
    if found is None:
        raise InputError("cannot be read: it must name a row of the audit log", where=path)
    return found
