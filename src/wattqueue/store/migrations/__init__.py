"""Alembic's migrations of the application database, shipped with the package."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

VERSION_TABLE = "app_schema_version"
_LOCK = 7_227_551
"""Any number: PostgreSQL's advisory lock under which one process at a time migrates."""


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the schema to ``revision``; several processes may try at once."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            # Python's driver begins a transaction late; this one must hold from the first look on.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        command.upgrade(_config(connection), revision)
        connection.commit()


def downgrade(engine: Engine, revision: str) -> None:
    """Take the schema back to ``revision`` (``base``: nothing left)."""
    with engine.connect() as connection:
        command.downgrade(_config(connection), revision)
        connection.commit()


def _config(connection: object) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config
