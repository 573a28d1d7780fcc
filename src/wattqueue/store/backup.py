"""Copy an SQLite database before its tables are changed."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

from sqlalchemy import Engine

from wattqueue.errors import OutputError
from wattqueue.store.failures import hint_of


def file_of(engine: Engine) -> Path | None:
    """Return the file of an SQLite database; None for a server or a database in memory."""
    name = engine.url.database
    return Path(name) if engine.dialect.name == "sqlite" and name and name != ":memory:" else None


def copies_of(engine: Engine) -> list[Path]:
    """Return the copies that were made of a database's file before upgrades, the oldest first."""
    file = file_of(engine)
    found = [] if file is None else [path for path in file.parent.glob(f"{file.name}.before-*") if path.is_file()]
    return sorted(found, key=lambda path: (path.stat().st_mtime, path.name))


def copy_before(engine: Engine, version: str) -> Path | None:
    """Copy an SQLite file to ``FILE.before-VERSION``, which is never overwritten; None where it is no file.

    The caller holds the file's write lock and has changed nothing, so what is copied is its committed content, with
    what lies in the write-ahead log. The copy has the permissions and the owner of the file, and is on disk on return.

    Raises: OutputError where it cannot be written.
    """
    file = file_of(engine)
    if file is None:
        return None
    target = next(path for path in _names(file, version) if not path.exists())
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)
        temporary = Path(name)
        os.close(handle)
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(temporary)) as copy:
            source.backup(copy)
        old = file.stat()
        with suppress(OSError):  # not root, and the file is another account's
            os.chown(temporary, old.st_uid, old.st_gid)
        temporary.chmod(old.st_mode & 0o777)
        with temporary.open("rb") as done:
            os.fsync(done.fileno())
        temporary.replace(target)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        text = f"its tables have to be upgraded, and the copy that is made before could not be written: {reason}"
        raise OutputError(text, where=target, hint=f"nothing was changed; {hint_of(error)}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return target


def _names(file: Path, version: str) -> map[Path]:
    """Return the names for copies of a file, without end."""
    first = f"{file.name}.before-{version}"
    return map(lambda n: file.with_name(first if n == 1 else f"{first}.{n}"), count(1))  # noqa: C417 - endless
