"""Define the tables of the controller's own state, in one metadata object.

Jobs are keyed by (name, submit time): Slurm gives job ids out again after a crash. Nothing here is
needed to hold the cap, since Slurm's licences do that; the tables keep the order and the back-off
across restarts, and the audit log.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, String, Table, Text

METADATA = MetaData()


def job_table(name: str, *columns: Column[Any]) -> Table:
    """Return a table with one row per job."""
    key = Column("name", Text, primary_key=True), Column("submit_s", Float, primary_key=True)
    return Table(name, METADATA, *key, *columns)


AUDIT = Table(
    "live_audit",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("time_us", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("event", String(16), nullable=False),
    Column("about", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("target", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("why", Text, nullable=False),
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
    Column("token", Text, nullable=False),
    Column("renewed_s", Float, nullable=False),
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
    Column("since_s", Float, nullable=False),
    Column("partition", Text, nullable=False),
    Column("option", Integer, nullable=False),
    Column("watts", Integer, nullable=False),
    Column("predicted_w", Float, nullable=False),
    Column("limit_s", Float, nullable=False),
    Column("nodes", Text, nullable=False),
)
"""Jobs that the controller released, with the watts that it counted for them, until they are gone."""

REFUSED = job_table(
    "live_refused",
    Column("until_s", Float, nullable=False),
    Column("times", Integer, nullable=False),
    Column("reason", Text, nullable=False),
)
"""Starts that Slurm refused or did not carry out in time, how often, and when they are tried again."""

PARKED = job_table(
    "live_parked",
    Column("since_s", Float, nullable=False),
    Column("watts", Integer, nullable=False),
    Column("limit_s", Float, nullable=False),
    Column("why", Text, nullable=False),
)
"""Jobs that the controller stopped, with the watts and the time limit that they had: it continues no others."""

DRAINED = Table(
    "live_drained",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("since_s", Float, nullable=False),
)
"""Nodes that the controller drained: it brings no others back."""

LEDGER = Table(
    "live_ledger",
    METADATA,
    Column("name", String(16), primary_key=True),
    Column("state", Text, nullable=False),
)
"""What an adaptive ledger has learned of the machine's meter, and the time above the cap that it counts."""

ORIGIN = job_table("live_origin", Column("first_s", Float, nullable=False))
"""First submission of a requeued job: Slurm resets its submit time, but it keeps its place in the queue."""

MARKS = job_table("live_marks", Column("marks", Text, nullable=False))
"""Marks of jobs, separated by commas. They stand here and not in Slurm's AdminComment alone: that belongs to the site,
and a change of it must not change what the controller does with a job."""
