"""Insert a row or change the one that is there, as one statement of SQLite, PostgreSQL or MariaDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, case, literal, true
from sqlalchemy.dialects import mysql, postgresql, sqlite


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
