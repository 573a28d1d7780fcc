"""Run migrations on the connection that ``upgrade`` hands over (alembic imports this file by its name)."""

from __future__ import annotations

from alembic import context

from wattqueue.store.migrations import VERSION_TABLE
from wattqueue.store.tables import METADATA


def run() -> None:
    """Migrate within the caller's transaction, which then holds both schema and version."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=METADATA,
        version_table=VERSION_TABLE,
        transactional_ddl=False,
    )
    context.run_migrations()


if __name__ != "wattqueue.store.migrations.env":  # imported as a module it only documents itself
    run()
