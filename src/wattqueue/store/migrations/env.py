"""Run migrations on the connection that ``upgrade`` passes in. Alembic finds this file by its name and executes it."""

from __future__ import annotations

from alembic import context


def run() -> None:
    """Migrate within the caller's transaction, so that schema and version change together or not at all.

    ``transactional_ddl=False`` keeps alembic from opening transactions of its own inside it.
    """
    attributes = context.config.attributes
    context.configure(
        connection=attributes["connection"], version_table=attributes["version_table"], transactional_ddl=False
    )
    context.run_migrations()


if not __name__.startswith("wattqueue."):  # imported as a module it only documents itself
    run()
