"""Run migrations as those of the application database are run. Alembic finds this file by its name and executes it."""

from __future__ import annotations

from wattqueue.store.migrations.env import run

if not __name__.startswith("wattqueue."):  # imported as a module it only documents itself
    run()
