"""Alembic migrations of the application database, shipped with the package.

``upgrade`` runs each time a database is opened, so that a new version of WattQueue works on an old database without a
step by hand. It is cheap when there is nothing to do. The schema's version stands in a table of its own name, since
several applications may share a PostgreSQL database.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

VERSION_TABLE = "app_schema_version"
_LOCK = 7_227_551
"""Key of the PostgreSQL advisory lock under which one process at a time migrates. Any number that no one else uses."""


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Upgrade the schema to ``revision``.

    Several processes may open a new database at the same moment. The first one takes a lock and migrates, the others
    wait and then find nothing to do.
    """
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            # Python's sqlite3 begins a transaction at the first write. The lock must be held before the version is
            # read, or two processes both find an old schema and both migrate it.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        command.upgrade(_config(connection), revision)
        connection.commit()


def downgrade(engine: Engine, revision: str) -> None:
    """Downgrade the schema to ``revision``; ``base`` removes all tables. Used by tests and by hand only."""
    with engine.connect() as connection:
        command.downgrade(_config(connection), revision)
        connection.commit()


def _config(connection: object) -> Config:
    """Return an alembic configuration without a file, which carries the open connection to ``env.py``."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config
