"""Open a database by URL: SQLite by default, PostgreSQL or MariaDB where a site has one.

SQLite is set up for several processes on one host: write-ahead logging lets readers work while one process writes,
and a writer waits for a lock instead of failing at once. On a network file system write-ahead logging is not safe; a
site with controllers on several hosts uses PostgreSQL.

MariaDB, which sites have for Slurm's accounting, holds the application database and the ledger of incentives. The
controller's own state does not go there: it was not tested with MariaDB.

Passwords never appear in messages: URLs are printed with the password replaced.

``upsert`` inserts a row or changes the one that is there, as one statement of each of the three.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, case, create_engine, event, literal, true
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from wattqueue.errors import InputError
from wattqueue.store.failures import hint_of

SCHEMES = ("sqlite", "postgresql+psycopg")
"""Drivers that all statements of WattQueue were tested with."""
MARIADB = "mariadb+pymysql"
"""Driver that the statements of this package were tested with: MariaDB, not MySQL, which lacks INSERT ... RETURNING."""
_STRICT = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO"
"""What MariaDB would otherwise shorten or round in silence is an error, whatever the server's default is."""


def open_database(url: str | Path, *, make: bool = True, mariadb: bool = False) -> Engine:
    """Return an engine for a URL or for the path of an SQLite file, after a connection has succeeded.

    With ``make`` a missing SQLite file is created, readable by its owner only: it holds user names. The driver for
    ``postgresql://`` is psycopg, for ``mariadb://``, which the caller must allow, PyMySQL.

    Raises: InputError for a URL of another kind, a file that cannot be created (without ``make``: that does not
    exist), or a server that does not answer.
    """
    text = str(url)
    if "://" not in text:
        text = f"sqlite:///{text}"
    try:
        parsed = make_url(text)
        drivers = {driver.partition("+")[0]: driver for driver in (*SCHEMES, MARIADB)}
        parsed = parsed.set(drivername=drivers.get(parsed.drivername, parsed.drivername))
        allowed = (*SCHEMES, MARIADB) if mariadb else SCHEMES
        if parsed.drivername not in allowed:
            raise InputError(f"{parsed.drivername} cannot be used here", hint=f"one of {', '.join(allowed)}")
        if parsed.drivername == "sqlite" and parsed.database not in (None, "", ":memory:"):
            file = Path(str(parsed.database))
            if not make and not file.exists():
                raise InputError("no such database", where=file, hint="check the path; nothing was written to it yet")
            _make_private(file)
        # A server may close idle connections between two rounds of the controller: test each before use.
        engine = create_engine(parsed, pool_pre_ping=parsed.drivername != "sqlite", connect_args=_arguments(parsed))
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError("not the URL of a database", hint="sqlite:///FILE or postgresql://USER@HOST/NAME") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    try:
        with engine.connect():
            pass
    except SQLAlchemyError as error:
        where = parsed.render_as_string(hide_password=True)
        raise InputError(
            f"cannot be opened: {getattr(error, 'orig', error)}", where=where, hint=hint_of(error)
        ) from error
    return engine


def _arguments(parsed: URL) -> dict[str, Any]:
    """Return what the driver is given beside the URL: MariaDB must use an engine that has transactions."""
    if parsed.drivername != MARIADB:
        return {}
    return {"charset": "utf8mb4", "init_command": f"SET SESSION sql_mode='{_STRICT}', default_storage_engine=InnoDB"}


def _make_private(file: Path) -> None:
    """Create the file with mode 0600 before SQLite does, which would use the umask.

    Raises: InputError where the folder or file cannot be created.
    """
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", where=file) from error


def _prepare_sqlite(connection: Any, _: Any) -> None:
    """Set up each new SQLite connection; SQLAlchemy calls this for every connection of the pool.

    ``synchronous=NORMAL`` with write-ahead logging survives a crash of the process; a power failure may lose the last
    transactions, but never damages the file.
    """
    cursor = connection.cursor()
    for line in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {line}")
    cursor.close()


def upsert(
    connection: Connection,
    table: Table,
    values: Mapping[str, Any],
    changes: Mapping[str, Any],
    *,
    where: ColumnElement[bool] | None = None,
) -> bool:
    """Insert ``values``; if a row has their primary key, apply ``changes`` to it, provided that it meets ``where``.

    ``where`` and ``changes`` may name columns of the row that is there; ``where`` must hold for an inserted row, and be
    the same before and after the changes. Returns whether a row was inserted or met the condition.
    """
    condition = true() if where is None else where
    if connection.dialect.name == "mariadb":
        # No condition is possible here: each value is kept where the condition does not hold.
        kept = [(name, case((condition, value), else_=table.c[name])) for name, value in changes.items()]
        statement: Any = mysql.insert(table).values(**values).on_duplicate_key_update(kept)
    else:
        # excluded columns are not needed, since the caller knows the values
        statement = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name](table)
        keys = list(table.primary_key.columns)
        statement = statement.values(**values).on_conflict_do_update(
            index_elements=keys, set_=dict(changes), where=condition
        )
    # MariaDB returns the row in each case; the others none where the condition does not hold. The row count of the
    # driver would say the same, but not every driver reports it for this kind of statement.
    row = connection.execute(statement.returning(case((condition, literal(1)), else_=literal(0)))).first()
    return row is not None and bool(row[0])
