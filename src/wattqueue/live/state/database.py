"""Open the database of a controller's state, with the tables of this version.

Tables have a version (``live_schema_version``) and migrations (``live.state.migrations``). A new database gets its
tables when it is opened. One of an earlier version is upgraded by who may write: the controller once it holds lock
and lease, ``live release`` and ``live uninstall`` once no controller is at work. An SQLite file is copied first.
Readers (``live audit``) upgrade nothing: what they read is the same in all versions. A database of a newer version is
refused by all of them.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, inspect

from wattqueue.store.database import open_database
from wattqueue.store.migrations import Schema, Upgrade, upgrade, version_of

STATE = Schema(Path(__file__).parent / "migrations", "live_schema_version")


def open_state(url: str | Path, *, make: bool = True, upgraded: bool = True) -> Engine:
    """Open the state; a new database gets its tables. With ``upgraded`` an older one is upgraded.

    Without both ``make`` and ``upgraded`` nothing is created or changed.

    Raises: InputError for a database that cannot be opened, or of a newer version; OutputError where an SQLite file
    cannot be copied before it is upgraded.
    """
    engine = open_database(url, make=make)
    try:
        with engine.connect() as connection:
            version_of(connection, STATE)
            new = make and not inspect(connection).get_table_names()
        if new or upgraded:
            upgrade_state(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def upgrade_state(engine: Engine) -> Upgrade | None:
    """Upgrade the tables; return what was done, None for nothing. Raises as ``open_state`` does."""
    return upgrade(engine, schema=STATE)
