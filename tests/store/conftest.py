"""Databases that the stores are tested on: a file of SQLite, and real servers of PostgreSQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from tests.store import mariadb, postgres

NUMBERS = count(1)
DRIVERS = {"postgresql": "postgresql+psycopg", "mariadb": "mariadb+pymysql"}


@pytest.fixture(scope="module")
def postgresql_server() -> Iterator[str]:
    reason = postgres.missing()
    if reason is not None:
        pytest.skip(reason)
    with postgres.server() as url:
        yield url


@pytest.fixture(scope="module")
def mariadb_server() -> Iterator[str]:
    reason = mariadb.missing()
    if reason is not None:
        pytest.skip(reason)
    with mariadb.server() as url:
        yield url


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server = make_url(str(request.getfixturevalue(f"{request.param}_server")))
    name = f"t{next(NUMBERS)}"
    admin = create_engine(server.set(drivername=DRIVERS[request.param]), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    return server.set(database=name).render_as_string(hide_password=False)
