"""Open the database of a controller's state, with the tables of this version.

Jobs are keyed by (name, submit time): Slurm gives job ids out again after a crash. Nothing here is needed to hold the
cap, since Slurm's licences do that; the tables keep the order and the back-off across restarts, and the audit log.

Tables have a version (``live_schema_version``) and migrations (``live.state.migrations``). A new database gets its
tables when it is opened. One of an earlier version is upgraded by who may write: the controller once it holds lock
and lease, ``live release`` and ``live uninstall`` once no controller is at work. An SQLite file is copied first.
Readers (``live audit``) upgrade nothing: what they read is the same in all versions. A database of a newer version is
refused by all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Column, Engine, Float, Integer, MetaData, String, Table, Text, inspect
from sqlalchemy.types import TypeEngine

from wattqueue.store.database import open_database
from wattqueue.store.migrations import Schema, Upgrade, upgrade, version_of

METADATA = MetaData()


def given(name: str, kind: type[TypeEngine[Any]]) -> Column[Any]:
    """Return a column that every row fills."""
    return Column(name, kind, nullable=False)


def job_table(name: str, *columns: Column[Any]) -> Table:
    """Return a table with one row per job."""
    key = Column("name", Text, primary_key=True), Column("submit_s", Float, primary_key=True)
    return Table(name, METADATA, *key, *columns)


AUDIT = Table(
    "live_audit",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    given("time_us", BigInteger),
    given("who", Text),
    Column("event", String(16), nullable=False),
    given("about", Integer),
    Column("kind", String(16), nullable=False),
    given("target", Text),
    given("before", Text),
    given("after", Text),
    given("why", Text),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)
"""The audit log. Each write to Slurm is two rows: ``intend`` before it, and ``settle`` with its outcome.

``about`` of a ``settle`` row is the number of its ``intend`` row; ``previous`` and ``hash`` chain the
rows (``live.state.audit``). An ``intend`` without a ``settle`` is a write during which the controller
was killed.
"""

HOLDER = Table(
    "live_lease",
    METADATA,
    Column("name", String(16), primary_key=True),
    given("token", Text),
    given("renewed_s", Float),
)
"""The controller at work, of those that share this database (``live.state.shared_lease``)."""

AUDIT_BEGIN = Table(
    "live_audit_begin",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("hash", String(64), nullable=False),
    Column("seal", String(64), nullable=False),
)
"""The last row of the audit log that was removed because of its age: the chain goes on from there."""

PLACED = job_table(
    "live_placed",
    given("since_s", Float),
    given("partition", Text),
    given("option", Integer),
    given("watts", Integer),
    given("predicted_w", Float),
    given("limit_s", Float),
    given("nodes", Text),
)
"""Jobs that the controller released, with the watts that it counted for them, until they are gone."""

REFUSED = job_table(
    "live_refused",
    given("until_s", Float),
    given("times", Integer),
    given("reason", Text),
)
"""Starts that Slurm refused or did not carry out in time, how often, and when they are tried again."""

PARKED = job_table(
    "live_parked",
    given("since_s", Float),
    given("watts", Integer),
    given("limit_s", Float),
    given("why", Text),
    given("until_s", Float),
)
"""Jobs that the controller stopped, with the watts and the time limit that they had: it continues no others."""

DRAINED = Table(
    "live_drained",
    METADATA,
    Column("name", Text, primary_key=True),
    given("until_s", Float),
)
"""Nodes that the controller drained: it brings no others back."""

LEDGER = Table(
    "live_ledger",
    METADATA,
    Column("name", String(16), primary_key=True),
    given("state", Text),
)
"""What an adaptive ledger has learned of the machine's meter, and the time above the cap that it counts."""

BUDGETS = Table(
    "live_budgets",
    METADATA,
    Column("name", String(250), primary_key=True),
    given("state", Text),
)
"""The books of energy budgets: what is set aside for each job, and what was used (``live.features.budgets``)."""

ORIGIN = job_table("live_origin", given("first_s", Float))
"""First submission of a requeued job: Slurm resets its submit time, but it keeps its place in the queue."""

MARKS = job_table("live_marks", given("marks", Text))
"""Marks of jobs, separated by commas. They stand here and not in Slurm's AdminComment alone: that belongs to the site,
and a change of it must not change what the controller does with a job."""

STATE = Schema(Path(__file__).parent / "migrations", "live_schema_version")


def open_state(url: str | Path, *, make: bool = True, upgraded: bool = True) -> Engine:
    """Open the state; a new database gets its tables. With ``upgraded`` an older one is upgraded.

    Without both ``make`` and ``upgraded`` nothing is created or changed.

    Raises: InputError for a database that cannot be opened, or of a newer version; OutputError where an SQLite file
    cannot be copied before it is upgraded.
    """
    engine = open_database(url, make=make)
    try:
        with engine.connect() as connection:
            version_of(connection, STATE)
            new = make and not inspect(connection).get_table_names()
        if new or upgraded:
            upgrade_state(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def upgrade_state(engine: Engine) -> Upgrade | None:
    """Upgrade the tables; return what was done, None for nothing. Raises as ``open_state`` does."""
    return upgrade(engine, schema=STATE)
