"""What the controller has placed and what was refused: written before Slurm is, read back after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import ColumnElement, Engine, Table, and_, delete, insert, select

from wattqueue.live.slurm.snapshot import JobKey
from wattqueue.live.state.tables import METADATA, ORIGIN, PLACED, REFUSED


class Placed(NamedTuple):
    """A job that the controller released: when, where, at which option, and what was counted for it.

    ``watts`` is the count of our licence, ``predicted_w`` watts of the whole job as predicted.
    """

    key: JobKey
    since_s: float
    partition: str
    option: int
    watts: int
    predicted_w: float
    limit_s: float
    nodes: str = ""


class Refused(NamedTuple):
    """A start that Slurm did not carry out, how often, and when it may be tried again."""

    key: JobKey
    until_s: float
    times: int
    reason: str


@dataclass
class Memory:
    """Tables held in memory and written through. A second writer is not expected: one controller a state."""

    engine: Engine
    placed: dict[JobKey, Placed] = field(default_factory=dict)
    refused: dict[JobKey, Refused] = field(default_factory=dict)
    origin: dict[JobKey, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        METADATA.create_all(self.engine, tables=[PLACED, REFUSED, ORIGIN])
        with self.engine.connect() as connection:
            for row in connection.execute(select(PLACED)):
                key = JobKey(row.name, row.submit_s)
                self.placed[key] = Placed(key, *row[2:])
            for row in connection.execute(select(REFUSED)):
                key = JobKey(row.name, row.submit_s)
                self.refused[key] = Refused(key, *row[2:])
            for row in connection.execute(select(ORIGIN)):
                self.origin[JobKey(row.name, row.submit_s)] = row.first_s

    def place(self, rows: Iterable[Placed]) -> None:
        """Remember what is about to be released; a refusal of the same job is kept for its count."""
        rows = [row for row in rows if self.placed.get(row.key) != row]
        if not rows:
            return
        values = [{"name": r.key.name, "submit_s": r.key.submit_s, **_rest(r)} for r in rows]
        with self.engine.begin() as connection:
            for row in rows:
                connection.execute(delete(PLACED).where(_mine(PLACED, row.key)))
            connection.execute(insert(PLACED), values)
        self.placed |= {row.key: row for row in rows}

    def unplace(self, keys: Iterable[JobKey]) -> None:
        """Jobs that are held again, or whose release never came."""
        keys = [key for key in keys if key in self.placed]
        if not keys:
            return
        with self.engine.begin() as connection:
            for key in keys:
                connection.execute(delete(PLACED).where(_mine(PLACED, key)))
        for key in keys:
            del self.placed[key]

    def refuse(self, row: Refused) -> None:
        """Remember a refusal; the job is no longer placed."""
        with self.engine.begin() as connection:
            for table in (PLACED, REFUSED):
                connection.execute(delete(table).where(_mine(table, row.key)))
            values = {"name": row.key.name, "submit_s": row.key.submit_s, **_rest(row)}
            connection.execute(insert(REFUSED).values(values))
        self.placed.pop(row.key, None)
        self.refused[row.key] = row

    def requeued(self, key: JobKey, first_s: float) -> None:
        """A job came back with a new submit time; it keeps its old place."""
        if self.origin.get(key) == first_s:
            return
        with self.engine.begin() as connection:
            connection.execute(delete(ORIGIN).where(_mine(ORIGIN, key)))
            connection.execute(insert(ORIGIN).values(name=key.name, submit_s=key.submit_s, first_s=first_s))
        self.origin[key] = first_s

    def forget(self, keys: Iterable[JobKey]) -> None:
        """Jobs that are gone."""
        gone = [k for k in keys if k in self.placed or k in self.refused or k in self.origin]
        if not gone:
            return
        with self.engine.begin() as connection:
            for key in gone:
                for table in (PLACED, REFUSED, ORIGIN):
                    connection.execute(delete(table).where(_mine(table, key)))
        for key in gone:
            self.placed.pop(key, None)
            self.refused.pop(key, None)
            self.origin.pop(key, None)


def _mine(table: Table, key: JobKey) -> ColumnElement[bool]:
    return and_(table.c.name == key.name, table.c.submit_s == key.submit_s)


def _rest(row: Placed | Refused) -> dict[str, object]:
    return {name: value for name, value in row._asdict().items() if name != "key"}
