"""Tables of the application database (paper 1, section 3.2). The schema is made by the migrations."""

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
"""Means over ``runs`` runs of an application on a hardware configuration, at one frequency."""

BINARY = Table(
    "app_binary",
    METADATA,
    Column("app", Text, primary_key=True),
    Column("hardware", Text, primary_key=True),
    Column("path", Text, nullable=False),
)
"""Which executable runs there; an application with any is offered only where it has one."""

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
"""Jobs whose measured metrics did not fit the application that their user named; once a job."""
