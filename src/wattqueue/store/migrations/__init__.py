"""Alembic migrations of the application database, shipped with the package.

``upgrade`` runs each time a database is opened, so that a new version of WattQueue works on an old database without a
step by hand. It is cheap when there is nothing to do. The schema's version stands in a table of its own name, since
several applications may share a database of a server.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

from wattqueue.errors import InputError

VERSION_TABLE = "app_schema_version"
_LOCK = 7_227_551
"""Key of the advisory lock under which one process at a time migrates. Any number that no one else uses."""
_LOCK_S = 60
"""How long MariaDB lets a process wait for another one that migrates."""


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Upgrade the schema to ``revision``.

    Several processes may open a new database at the same moment. The first one takes a lock and migrates, the others
    wait and then find nothing to do.
    """
    with engine.connect() as connection:
        _lock(connection)
        command.upgrade(_config(connection), revision)
        connection.commit()
        if connection.dialect.name == "mariadb":  # the others release theirs with the transaction
            connection.execute(text("DO RELEASE_LOCK(:key)"), {"key": str(_LOCK)})


def _lock(connection: Connection) -> None:
    """Let no other process migrate until the connection's transaction (in MariaDB: the connection) ends.

    Raises: InputError where another process holds the lock of MariaDB for too long.
    """
    if connection.dialect.name == "sqlite":
        # Python's sqlite3 begins a transaction at the first write. The lock must be held before the version is
        # read, or two processes both find an old schema and both migrate it.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    else:
        # MariaDB commits with each statement that changes the schema, so the lock is one of the connection, and a
        # migration that is killed leaves some of its tables. Migrations therefore create what is not there yet.
        taken = connection.execute(text("SELECT GET_LOCK(:key, :wait)"), {"key": str(_LOCK), "wait": _LOCK_S}).scalar()
        if taken != 1:
            where = connection.engine.url.render_as_string(hide_password=True)
            raise InputError(f"another process has changed its schema for {_LOCK_S} s", where=where, hint="try again")


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
