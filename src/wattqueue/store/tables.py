"""Tables of the application database (paper 1, section 3.2).

Migrations create the schema; these definitions are what queries are built from. A change here needs a new migration,
which a test compares with this module.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, Integer, MetaData, String, Table, Text

METADATA = MetaData()

ENTRY = Table(
    "app_entry",
    METADATA,
    Column("app", Text, primary_key=True),
    Column("hardware", Text, primary_key=True),
    Column("frequency_hz", Float, nullable=False),
    Column("time_s", Float, nullable=False),
    Column("power_w", Float, nullable=False),
    Column("cpi", Float, nullable=False),
    Column("tpi", Float, nullable=False),
    Column("runs", Integer, nullable=False),
)
"""Means over ``runs`` runs of an application on a hardware configuration, at one frequency. Seconds, watts of one
node, hertz; cpi and tpi have no unit."""

BINARY = Table(
    "app_binary",
    METADATA,
    Column("app", Text, primary_key=True),
    Column("hardware", Text, primary_key=True),
    Column("path", Text, nullable=False),
)
"""Executables by hardware configuration. An application with at least one row is offered only on the configurations
that have one; an application without rows is offered everywhere."""

MISFIT = Table(
    "app_misfit",
    METADATA,
    Column("job_id", String(64), primary_key=True),
    Column("user", Text, nullable=False, index=True),
    Column("time_s", Float, nullable=False),
    Column("claimed", Text, nullable=False),
    Column("found", Text, nullable=False),
    Column("distance", Float, nullable=False),
)
"""Jobs whose measured metrics did not fit the application that their user named. The primary key is the job, so a job
counts once. The index on the user serves the check before each prediction."""
