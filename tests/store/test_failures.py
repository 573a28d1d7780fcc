"""What is said about an error of a database fits the error."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from wattqueue.cli._app import explain
from wattqueue.errors import InputError
from wattqueue.store.applications import ApplicationDatabase
from wattqueue.store.backup import copies_of
from wattqueue.store.database import open_database
from wattqueue.store.failures import hint_of
from wattqueue.store.migrations import upgrade


def missing_column(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("SELECT until_s FROM t"))


def full(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("PRAGMA max_page_count = 3"))
        connection.execute(text("INSERT INTO t VALUES (zeroblob(1000000))"))


def read_only(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("PRAGMA query_only = 1"))
        connection.execute(text("INSERT INTO t VALUES (1)"))


def held(engine: Engine) -> None:
    other = sqlite3.connect(str(engine.url.database))
    try:
        other.execute("BEGIN EXCLUSIVE")
        with engine.begin() as connection:
            connection.execute(text("PRAGMA busy_timeout = 1"))
            connection.execute(text("INSERT INTO t VALUES (1)"))
    finally:
        other.close()


@pytest.mark.parametrize(
    ("fail", "about"),
    [(missing_column, "tables"), (full, "space"), (read_only, "permissions"), (held, "another process")],
)
def test_the_hint_is_about_the_error(tmp_path: Path, fail: Callable[[Engine], None], about: str) -> None:
    engine = open_database(tmp_path / "a.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (a)"))
    with pytest.raises(DBAPIError) as caught:
        fail(engine)
    line = explain(caught.value)
    assert line is not None
    assert line.endswith(f"({hint_of(caught.value)})")
    topics = {
        topic for topic in ("tables", "space", "permissions", "another process") if topic in hint_of(caught.value)
    }
    assert topics == {about}


def test_a_file_that_is_no_database_is_not_about_space(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("no database, " * 500)
    with pytest.raises(InputError) as caught:
        open_database(tmp_path / "a.db")
    assert "copy" in str(caught.value.hint)
    assert "space" not in str(caught.value)


@pytest.mark.parametrize(("number", "about"), [(errno.ENOSPC, "space"), (errno.EACCES, "permissions")])
def test_the_hint_of_the_operating_system(number: int, about: str) -> None:
    assert about in hint_of(OSError(number, os.strerror(number)))


def test_an_application_database_of_a_later_version_is_refused_and_of_an_earlier_one_copied(tmp_path: Path) -> None:
    path = tmp_path / "apps.db"
    engine = open_database(path)
    assert upgrade(engine, "0001") is None, "a new database is not copied"
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO app_binary VALUES ('a', 'h', '/bin/a')"))
    engine.dispose()
    database = ApplicationDatabase.open(path)
    (copy,) = copies_of(database.engine)
    with open_database(copy).connect() as connection:
        assert connection.execute(text("SELECT version_num FROM app_schema_version")).scalar() == "0001"
        assert connection.execute(text("SELECT path FROM app_binary")).scalar() == "/bin/a"
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE app_schema_version SET version_num = '9999'"))
    database.engine.dispose()
    with pytest.raises(InputError, match="9999") as caught:
        ApplicationDatabase.open(path)
    assert str(caught.value.where) == str(path)
    assert "newer" in str(caught.value.hint)
