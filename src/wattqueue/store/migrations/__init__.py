"""Alembic migrations, shipped with the package: of the application database, and what other schemas share with it.

``upgrade`` runs each time a database is opened, so that a new version of WattQueue works on an old database without a
step by hand. It is cheap when there is nothing to do. The schema's version stands in a table of its own name, since
several applications may share a database of a server.

An SQLite file that holds tables is copied before it is upgraded (``FILE.before-VERSION``); on a server the upgrade is
one transaction (PostgreSQL), and copies are the server's business. A database that a newer version of WattQueue has
upgraded is refused, and not changed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, column, inspect, select, table, text
from sqlalchemy.exc import SQLAlchemyError

from wattqueue.errors import InputError
from wattqueue.store.backup import copies_of, copy_before

VERSION_TABLE = "app_schema_version"
_LOCK = 7_227_551
"""Key of the advisory lock under which one process at a time migrates. Any number that no one else uses."""
_LOCK_S = 60
"""How long MariaDB lets a process wait for another one that migrates."""


class Schema(NamedTuple):
    """The tables of one purpose, with their migrations."""

    folder: Path
    """Holds ``env.py`` and the migrations in ``versions``, as alembic expects it."""
    version_table: str
    """Name of the table that holds the version."""

    def config(self, connection: Connection | None = None) -> Config:
        """Return an alembic configuration without a file, which carries the open connection to ``env.py``."""
        config = Config()
        config.set_main_option("script_location", str(self.folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        config.attributes["version_table"] = self.version_table
        return config


APPLICATIONS = Schema(Path(__file__).parent, VERSION_TABLE)
"""The application database and the ledger of incentives."""


class Upgrade(NamedTuple):
    """What an upgrade did."""

    before: str
    """Version that was found; empty for tables of a time when they had none."""
    after: str
    copy: Path | None
    """The file as it was before; None on a server."""

    def __str__(self) -> str:
        """Return the sentence for logs."""
        before = f"version {self.before}" if self.before else "a version before they were numbered"
        copied = f"; {self.copy} is a copy from before" if self.copy is not None else ""
        return f"the tables were upgraded from {before} to version {self.after}{copied}"


@lru_cache
def versions(schema: Schema) -> tuple[str, ...]:
    """Return the versions that this WattQueue knows, the latest first."""
    return tuple(step.revision for step in ScriptDirectory.from_config(schema.config()).walk_revisions())


def version_of(connection: Connection, schema: Schema = APPLICATIONS) -> str:
    """Return the version of the tables of a database; empty where they have none.

    Raises: InputError where a newer WattQueue has upgraded them.
    """
    if not inspect(connection).has_table(schema.version_table):
        return ""
    found = str(
        connection.execute(select(column("version_num")).select_from(table(schema.version_table))).scalar() or ""
    )
    known = versions(schema)
    if not found or found in known:
        return found
    url, copies = connection.engine.url, copies_of(connection.engine)
    older = f", or put a copy from before its upgrade in its place ({', '.join(map(str, copies))})" if copies else ""
    raise InputError(
        f"its tables have version {found}, which this WattQueue does not know (the latest it knows is {known[0]})",
        where=url.render_as_string(hide_password=True) if url.host else url.database,
        hint=f"use the newer WattQueue that wrote it{older}; nothing was changed",
    )


def upgrade(engine: Engine, revision: str = "head", schema: Schema = APPLICATIONS) -> Upgrade | None:
    """Upgrade the schema to ``revision``; return what was done to tables that were there, None for nothing.

    Several processes may open a new database at the same moment. The first one takes a lock and migrates, the others
    wait and then find nothing to do.

    Raises: InputError where a newer WattQueue has upgraded it, OutputError where an SQLite file cannot be copied first.
    """
    target = versions(schema)[0] if revision == "head" else revision
    with engine.connect() as connection:
        if version_of(connection, schema) == target:
            return None
        connection.rollback()  # the lock must be taken by a transaction that has read nothing yet
        _lock(connection)
        try:
            return _upgrade(connection, revision, target, schema)
        finally:
            if connection.dialect.name == "mariadb":  # the others release theirs with the transaction
                with suppress(SQLAlchemyError):
                    connection.execute(text("DO RELEASE_LOCK(:key)"), {"key": str(_LOCK)})


def _upgrade(connection: Connection, revision: str, target: str, schema: Schema) -> Upgrade | None:
    """Upgrade under the lock, and commit."""
    before = version_of(connection, schema)
    if before == target:  # another process upgraded it meanwhile
        return None
    used = set(inspect(connection).get_table_names()) - {schema.version_table}
    copy = copy_before(connection.engine, target) if used else None
    try:
        command.upgrade(schema.config(connection), revision)
        connection.commit()
    except BaseException:
        connection.rollback()
        if copy is not None:  # nothing was changed, and each attempt would leave one more
            copy.unlink(missing_ok=True)
        raise
    return Upgrade(before, target, copy) if used else None


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
    """Downgrade the application database to ``revision``; ``base`` removes all tables. For tests, and by hand."""
    with engine.connect() as connection:
        command.downgrade(APPLICATIONS.config(connection), revision)
        connection.commit()
