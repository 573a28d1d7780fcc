"""Tables of the application database (paper 1, section 3.2), and of the ledger of incentives.

Migrations create the schema; these definitions are what queries are built from. A change here needs a new migration,
which a test compares with this module.

Types of columns mean the same in SQLite, PostgreSQL and MariaDB. MariaDB needs a length for texts in keys, compares
texts without regard to case and trailing spaces unless it is given a collation, and takes a plain FLOAT for one of 32
bits.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, MetaData, String, Table, Text
from sqlalchemy.dialects import mysql

_EXACT: dict[str, Any] = {"charset": "utf8mb4", "collation": "utf8mb4_nopad_bin"}
KEY_LENGTH = 255
"""Characters of a text in a key in MariaDB: two of them must fit into the 3,072 bytes of an index."""


def number() -> Float[Any]:
    """Return a float of 64 bits."""
    return Float().with_variant(mysql.DOUBLE(asdecimal=False), "mariadb")


def text() -> Text:
    """Return a text of any length that is no part of a key."""
    return Text().with_variant(mysql.TEXT(**_EXACT), "mariadb")


def key_text() -> Text:
    """Return a text in a primary key or an index; in MariaDB of at most ``KEY_LENGTH`` characters."""
    return Text().with_variant(mysql.VARCHAR(KEY_LENGTH, **_EXACT), "mariadb")


def word(length: int) -> String:
    """Return a text of at most ``length`` characters, in a key or not."""
    return String(length).with_variant(mysql.VARCHAR(length, **_EXACT), "mariadb")


METADATA = MetaData()

ENTRY = Table(
    "app_entry",
    METADATA,
    Column("app", key_text(), primary_key=True),
    Column("hardware", key_text(), primary_key=True),
    Column("frequency_hz", number(), nullable=False),
    Column("time_s", number(), nullable=False),
    Column("power_w", number(), nullable=False),
    Column("cpi", number(), nullable=False),
    Column("tpi", number(), nullable=False),
    Column("runs", Integer, nullable=False),
)
"""Means over ``runs`` runs of an application on a hardware configuration, at one frequency. Seconds, watts of one
node, hertz; cpi and tpi have no unit."""

BINARY = Table(
    "app_binary",
    METADATA,
    Column("app", key_text(), primary_key=True),
    Column("hardware", key_text(), primary_key=True),
    Column("path", text(), nullable=False),
)
"""Executables by hardware configuration. An application with at least one row is offered only on the configurations
that have one; an application without rows is offered everywhere."""

MISFIT = Table(
    "app_misfit",
    METADATA,
    Column("job_id", word(64), primary_key=True),
    Column("user", key_text(), nullable=False, index=True),
    Column("time_s", number(), nullable=False),
    Column("claimed", text(), nullable=False),
    Column("found", text(), nullable=False),
    Column("distance", number(), nullable=False),
)
"""Jobs whose measured metrics did not fit the application that their user named. The primary key is the job, so a job
counts once. The index on the user serves the check before each prediction."""

SETTLED_EVENT = Table(
    "incentive_event",
    METADATA,
    Column("event_id", word(200), primary_key=True),
    Column("begin_s", BigInteger, nullable=False),
    Column("end_s", BigInteger, nullable=False),
    Column("model", text(), nullable=False),
    Column("model_sha256", word(64), nullable=False),
    Column("currency", word(12), nullable=False),
    Column("basis", text(), nullable=False),
    Column("jobs", Integer, nullable=False),
    Column("reward", BigInteger, nullable=False),
    Column("digest", word(64), nullable=False),
)
"""Events whose rewards are settled. ``digest`` is a hash of the event and all its entries: settling twice is
recognised, and settling differently is refused."""

INCENTIVE_ENTRY = Table(
    "incentive_entry",
    METADATA,
    Column("event_id", word(200), ForeignKey("incentive_event.event_id"), primary_key=True),
    Column("job_id", word(64), primary_key=True),
    Column("user_name", word(200), nullable=False),
    Column("added_wait", BigInteger, nullable=False),
    Column("added_run", BigInteger, nullable=False),
    Column("power_freed", BigInteger, nullable=False),
    Column("energy_freed", BigInteger, nullable=False),
    Column("fee", BigInteger, nullable=False),
    Column("reward", BigInteger, nullable=False),
    Index("ix_incentive_entry_user", "user_name"),
)
"""What one job got for one event: node-seconds, watts, joules, and micro-units of the event's currency."""
