"""Tables of the controller's own state."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, String, Table, Text

METADATA = MetaData()

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
"""Each write to Slurm is two rows: ``intend``, and ``settle`` with what came of it (``about`` names the first)."""

PLACED = Table(
    "live_placed",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("submit_s", Float, primary_key=True),
    Column("since_s", Float, nullable=False),
    Column("partition", Text, nullable=False),
    Column("option", Integer, nullable=False),
    Column("watts", Integer, nullable=False),
    Column("predicted_w", Float, nullable=False),
    Column("limit_s", Float, nullable=False),
    Column("nodes", Text, nullable=False),
)
"""Jobs that the controller released, with what it counted for them, until they are gone."""

REFUSED = Table(
    "live_refused",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("submit_s", Float, primary_key=True),
    Column("until_s", Float, nullable=False),
    Column("times", Integer, nullable=False),
    Column("reason", Text, nullable=False),
)
"""Starts that Slurm did not carry out in time, and when they are tried again."""

ORIGIN = Table(
    "live_origin",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("submit_s", Float, primary_key=True),
    Column("first_s", Float, nullable=False),
)
"""First submission of a requeued job: Slurm resets its submit time, its place in the queue stays."""
