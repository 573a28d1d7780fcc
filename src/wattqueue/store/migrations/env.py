"""Run migrations on the connection that ``upgrade`` passes in. Alembic finds this file by its name and executes it."""

from __future__ import annotations

from alembic import context

from wattqueue.store.migrations import VERSION_TABLE
from wattqueue.store.tables import METADATA


def run() -> None:
    """Migrate within the caller's transaction, so that schema and version change together or not at all.

    ``transactional_ddl=False`` keeps alembic from opening transactions of its own inside it.
    """
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=METADATA,
        version_table=VERSION_TABLE,
        transactional_ddl=False,
    )
    context.run_migrations()


if __name__ != "wattqueue.store.migrations.env":  # imported as a module it only documents itself
    run()
