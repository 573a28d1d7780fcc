"""Every write to Slurm with who, why, before and after; each row's hash covers the row before it."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Engine, func, insert, inspect, select

from wattqueue.errors import InputError
from wattqueue.live.slurm.goal import Write
from wattqueue.live.state.tables import AUDIT
from wattqueue.store.database import open_database

START = "0" * 64
SEALED = ("number", "time_us", "who", "event", "about", "kind", "target", "before", "after", "why", "previous")


class Verdict(NamedTuple):
    """Rows looked at, and the first that does not fit (0 and empty where all do)."""

    rows: int
    broken: int = 0
    reason: str = ""


@dataclass
class Audit:
    """An append-only log in a database. ``key`` (a secret) keeps who can write the database from resealing it.

    ``head`` is a file beside the database that names the last row, so that rows cut off the end are
    noticed too. ``clock`` gives seconds since the epoch.
    """

    engine: Engine
    who: str
    clock: Callable[[], float]
    key: bytes = b""
    head: Path | None = None
    _last: tuple[int, str] = field(default=(0, START))

    def __post_init__(self) -> None:
        AUDIT.metadata.create_all(self.engine, tables=[AUDIT])
        with self.engine.connect() as connection:
            row = connection.execute(select(AUDIT).order_by(AUDIT.c.number.desc()).limit(1)).first()
        if row is not None:
            self._last = (row.number, row.hash)

    def intend(self, write: Write) -> int:
        """Before a write: what is about to be done."""
        return self._append("intend", 0, write.kind, write.target, write.before, write.after, write.why)

    def settle(self, number: int, outcome: str) -> None:
        """After it: what came of it."""
        self._append("settle", number, "", "", "", outcome, "")

    def note(self, event: str, why: str) -> None:
        """Something that is no write: the controller started, stopped, changed its mode."""
        self._append("note", 0, event[:16], "", "", "", why)

    def _append(self, *values: Any) -> int:
        number, previous = self._last[0] + 1, self._last[1]
        names = ("event", "about", "kind", "target", "before", "after", "why")
        row = dict(zip(names, values, strict=True))
        row |= {"number": number, "time_us": round(self.clock() * 1e6), "who": self.who, "previous": previous}
        row["hash"] = seal(row, self.key)
        with self.engine.begin() as connection:
            connection.execute(insert(AUDIT).values(row))
        self._last = (number, row["hash"])
        if self.head is not None:
            aside = self.head.with_name(f".{self.head.name}.part")
            handle = os.open(aside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(f"{number} {row['hash']}\n")
            aside.replace(self.head)
        return number


def seal(row: Mapping[str, Any], key: bytes) -> str:
    """Hash of a row's every column and of the row before it; keyed where there is a key."""
    text = json.dumps([row[name] for name in SEALED], ensure_ascii=True, separators=(",", ":")).encode()
    return hmac.new(key, text, hashlib.sha256).hexdigest() if key else hashlib.sha256(text).hexdigest()


def open_log(url: str) -> Engine:
    """The database that holds a log. Raises: InputError where there is none."""
    engine = open_database(url, make=False)
    if not inspect(engine).has_table(AUDIT.name):
        raise InputError("holds no audit log", where=url, mend="has the controller run with this configuration?")
    return engine


def rows_of(engine: Engine, *, target: str | None = None, last: int = 0) -> Iterator[Mapping[str, Any]]:
    """Rows in order; of one job or node, or the last so many."""
    query = select(AUDIT).order_by(AUDIT.c.number)
    if target is not None:
        mine = select(AUDIT.c.number).where(AUDIT.c.target == target)
        query = query.where(AUDIT.c.number.in_(mine) | AUDIT.c.about.in_(mine))
    with engine.connect() as connection:
        if last:
            newest = connection.execute(select(func.max(AUDIT.c.number))).scalar() or 0
            query = query.where(AUDIT.c.number > newest - last)
        for row in connection.execution_options(stream_results=True).execute(query).mappings():
            yield {str(name): value for name, value in row.items()}


def verify(engine: Engine, key: bytes = b"", head: Path | None = None) -> Verdict:
    """Read the whole log and check each row's hash, its number, and the row it follows.

    Raises: InputError where the head's file cannot be read.
    """
    number, previous = 0, START
    for row in rows_of(engine):
        number += 1
        if row["number"] != number:
            return Verdict(number, number, f"row {number} is missing")
        if row["previous"] != previous:
            return Verdict(number, number, "it does not follow the row before it")
        if not hmac.compare_digest(seal(row, key), row["hash"]):
            return Verdict(number, number, "its content does not fit its hash")
        previous = row["hash"]
    if head is not None and head.exists():
        try:
            count, _, tip = head.read_text().strip().partition(" ")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read: {error}", where=head) from error
        if (count, tip) != (str(number), previous) and not _one_ahead(engine, count, tip, number):
            return Verdict(number, number, f"the log ends at row {number}, its head names row {count}")
    return Verdict(number)


def _one_ahead(engine: Engine, count: str, tip: str, number: int) -> bool:
    """Killed between the row and the head's file: the head names the row before the last."""
    if count != str(number - 1):
        return False
    with engine.connect() as connection:
        last = connection.execute(select(AUDIT.c.previous).where(AUDIT.c.number == number)).scalar()
    return bool(last == tip)
