"""The ledger of incentives: rewards per job and user, settled event by event.

An event is settled in one transaction: its row and the rows of all its jobs become visible together or not at all,
also if the process is killed in between. Settling the same event with the same entries again changes nothing, so that
whoever is not sure whether a settlement was completed repeats it. Other entries for a settled event are refused: a
correction is an event with an id of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, select
from sqlalchemy.exc import IntegrityError

from wattqueue.errors import InputError
from wattqueue.store.database import open_database
from wattqueue.store.migrations import upgrade
from wattqueue.store.tables import INCENTIVE_ENTRY as ENTRY
from wattqueue.store.tables import SETTLED_EVENT as SETTLED

ROWS_AT_ONCE = 1_000
"""Entries of one INSERT statement; all of an event's statements are one transaction."""


@dataclass(frozen=True, slots=True, order=True)
class RewardEntry:
    """What one job got for one event. Quantities as in ``incentives.rewards.JobQuantities``, money in micro-units."""

    job_id: str
    user_name: str
    added_wait: int
    added_run: int
    power_freed: int
    energy_freed: int
    fee: int
    reward: int


@dataclass(frozen=True, slots=True)
class SettledEvent:
    """A settled event as the ledger keeps it."""

    event_id: str
    begin_s: int
    end_s: int
    model: str
    model_sha256: str
    currency: str
    basis: str
    jobs: int = 0
    reward: int = 0


@dataclass(frozen=True, slots=True)
class UserTotal:
    """Sums of one user in one currency."""

    user_name: str
    currency: str
    jobs: int
    fee: int
    reward: int


class IncentiveLedger:
    """Rewards in SQLite, PostgreSQL or MariaDB. The engine is the caller's; ``open`` creates one, schema included."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: str | Path, *, make: bool = True) -> IncentiveLedger:
        """Open the ledger of a URL or an SQLite file. ``make`` creates a file that does not exist.

        Raises: InputError for a database that WattQueue cannot use.
        """
        engine = open_database(url, make=make, mariadb=True)
        upgrade(engine)
        return cls(engine)

    def settle(self, event: SettledEvent, entries: Iterable[RewardEntry]) -> bool:
        """Settle an event; return False if it is settled with the same entries already.

        Raises: InputError for an event that is settled with other entries, two entries of one job, or a reward that is
        negative or above the fee.
        """
        rows = sorted(entries)
        _require_sound(event, rows)
        digest = _digest(event, rows)
        try:
            with self.engine.begin() as connection:
                known = self._known(connection, event.event_id)
                if known is None:
                    self._write(connection, event, rows, digest)
                    return True
        except IntegrityError:
            # Another process settled the event between the look and the write.
            with self.engine.connect() as connection:
                known = self._known(connection, event.event_id)
        if known != digest:
            raise InputError(
                "is settled already, with other entries", where=f"event {event.event_id}",
                hint="settle a correction under an id of its own",
            )  # fmt: skip
        return False

    def events(self) -> list[SettledEvent]:
        """Return all settled events, by begin and id."""
        columns = [SETTLED.c[name] for name in SettledEvent.__slots__]
        with self.engine.connect() as connection:
            rows = connection.execute(select(*columns).order_by(SETTLED.c.begin_s, SETTLED.c.event_id))
            return [SettledEvent(*row) for row in rows]

    def entries(self, user: str | None = None) -> list[tuple[SettledEvent, RewardEntry]]:
        """Return entries with their events, of one user or of all, by event and job."""
        events = {event.event_id: event for event in self.events()}
        query = select(ENTRY.c.event_id, *(ENTRY.c[name] for name in RewardEntry.__slots__))
        if user is not None:
            query = query.where(ENTRY.c.user_name == user)
        with self.engine.connect() as connection:
            found = [(events[row[0]], RewardEntry(*row[1:])) for row in connection.execute(query)]
        return sorted(found, key=lambda one: (one[0].begin_s, one[0].event_id, one[1]))

    def totals(self) -> list[UserTotal]:
        """Return the sums of each user and currency, by name."""
        query = (
            select(ENTRY.c.user_name, SETTLED.c.currency, func.count(), func.sum(ENTRY.c.fee), func.sum(ENTRY.c.reward))
            .join(SETTLED, SETTLED.c.event_id == ENTRY.c.event_id)
            .group_by(ENTRY.c.user_name, SETTLED.c.currency)
            .order_by(ENTRY.c.user_name, SETTLED.c.currency)
        )
        with self.engine.connect() as connection:
            return [UserTotal(row[0], row[1], *(int(v) for v in row[2:])) for row in connection.execute(query)]

    @staticmethod
    def _known(connection: Connection, event_id: str) -> str | None:
        """Return the digest of a settled event, None for one that is not settled."""
        found: str | None = connection.execute(select(SETTLED.c.digest).where(SETTLED.c.event_id == event_id)).scalar()
        return found

    @staticmethod
    def _write(connection: Connection, event: SettledEvent, rows: Sequence[RewardEntry], digest: str) -> None:
        """Insert the event and its entries."""
        names = ("event_id", "begin_s", "end_s", "model", "model_sha256", "currency", "basis")
        stated: dict[str, Any] = {name: getattr(event, name) for name in names}
        total = sum(row.reward for row in rows)
        connection.execute(insert(SETTLED).values(**stated, jobs=len(rows), reward=total, digest=digest))
        for first in range(0, len(rows), ROWS_AT_ONCE):
            values = [
                {"event_id": event.event_id, **dict(zip(RewardEntry.__slots__, astuple(row), strict=True))}
                for row in rows[first : first + ROWS_AT_ONCE]
            ]
            connection.execute(insert(ENTRY), values)


def _require_sound(event: SettledEvent, rows: Sequence[RewardEntry]) -> None:
    """Raise InputError for entries that no settlement can have."""
    where = f"event {event.event_id}"
    seen = set[str]()
    for row in rows:
        if row.job_id in seen:
            raise InputError(f"two entries of job {row.job_id}", where=where)
        seen.add(row.job_id)
        if not 0 <= row.reward <= row.fee:
            raise InputError(
                f"the reward of job {row.job_id} is {row.reward} micro-units, its fee {row.fee}", where=where,
                hint="a reward reduces the fee, at most to 0",
            )  # fmt: skip


def _digest(event: SettledEvent, rows: Sequence[RewardEntry]) -> str:
    """Return a hash of what was settled; the text of the model counts by its own hash."""
    stated = (event.event_id, event.begin_s, event.end_s, event.model_sha256, event.currency)
    text = repr((stated, [astuple(row) for row in rows]))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
