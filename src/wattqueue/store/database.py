"""Open a database by URL: SQLite (write-ahead log) by default, PostgreSQL where a site has one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from wattqueue.errors import InputError

SCHEMES = ("sqlite", "postgresql+psycopg")


def open_database(url: str | Path, *, make: bool = True) -> Engine:
    """An engine for a URL, or for the path of an SQLite file (made, for its owner alone, where there is none).

    SQLite runs in WAL mode, waits 10 s for a lock, and keeps foreign keys. ``postgresql://`` takes psycopg.

    Raises: InputError for a URL of another kind, or a file that cannot be made (or, without ``make``, is not there).
    """
    text = str(url)
    if "://" not in text:
        text = f"sqlite:///{text}"
    try:
        parsed = make_url(text)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.drivername not in SCHEMES:
            raise InputError(f"{parsed.drivername} is no database of ours", mend=f"one of {', '.join(SCHEMES)}")
        if parsed.drivername == "sqlite" and parsed.database not in (None, "", ":memory:"):
            file = Path(str(parsed.database))
            if not make and not file.exists():
                raise InputError("no such database", where=file, mend="check the path; nothing was written to it yet")
            _make_private(file)
        engine = create_engine(parsed, pool_pre_ping=parsed.drivername != "sqlite")
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError("not the URL of a database", mend="sqlite:///FILE or postgresql://USER@HOST/NAME") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    try:
        with engine.connect():
            pass
    except SQLAlchemyError as error:
        where = parsed.render_as_string(hide_password=True)
        raise InputError(f"cannot be opened: {getattr(error, 'orig', error)}", where=where) from error
    return engine


def _make_private(file: Path) -> None:
    """The file exists and belongs to its owner alone before anything is written to it."""
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", where=file) from error


def _prepare_sqlite(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    for line in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {line}")
    cursor.close()
