"""The first schema: means by application, executables, misnamed jobs.

A migration repeats its columns instead of importing ``store.tables``: it must create the schema of its own version,
whatever later versions add. Released migrations are never edited. (Types by database and IF NOT EXISTS came with
MariaDB, where a migration that is killed leaves some of its tables; on the other databases nothing changed by them.)
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from wattqueue.store.tables import key_text, number, text, word

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the three tables and the index on users."""
    op.create_table(
        "app_entry",
        sa.Column("app", key_text(), primary_key=True),
        sa.Column("hardware", key_text(), primary_key=True),
        sa.Column("frequency_hz", number(), nullable=False),
        sa.Column("time_s", number(), nullable=False),
        sa.Column("power_w", number(), nullable=False),
        sa.Column("cpi", number(), nullable=False),
        sa.Column("tpi", number(), nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "app_binary",
        sa.Column("app", key_text(), primary_key=True),
        sa.Column("hardware", key_text(), primary_key=True),
        sa.Column("path", text(), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "app_misfit",
        sa.Column("job_id", word(64), primary_key=True),
        sa.Column("user", key_text(), nullable=False),
        sa.Column("time_s", number(), nullable=False),
        sa.Column("claimed", text(), nullable=False),
        sa.Column("found", text(), nullable=False),
        sa.Column("distance", number(), nullable=False),
        if_not_exists=True,
    )
    op.create_index("ix_app_misfit_user", "app_misfit", ["user"], if_not_exists=True)


def downgrade() -> None:
    """Drop the three tables."""
    for name in ("app_misfit", "app_binary", "app_entry"):
        op.drop_table(name)
