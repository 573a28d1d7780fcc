"""The first schema: means by application, executables, misnamed jobs.

A migration repeats its columns instead of importing ``store.tables``: it must create the schema of its own version,
whatever later versions add. Released migrations are never edited.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the three tables and the index on users."""
    op.create_table(
        "app_entry",
        sa.Column("app", sa.Text, primary_key=True),
        sa.Column("hardware", sa.Text, primary_key=True),
        sa.Column("frequency_hz", sa.Float, nullable=False),
        sa.Column("time_s", sa.Float, nullable=False),
        sa.Column("power_w", sa.Float, nullable=False),
        sa.Column("cpi", sa.Float, nullable=False),
        sa.Column("tpi", sa.Float, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
    )
    op.create_table(
        "app_binary",
        sa.Column("app", sa.Text, primary_key=True),
        sa.Column("hardware", sa.Text, primary_key=True),
        sa.Column("path", sa.Text, nullable=False),
    )
    op.create_table(
        "app_misfit",
        sa.Column("job_id", sa.String(64), primary_key=True),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("time_s", sa.Float, nullable=False),
        sa.Column("claimed", sa.Text, nullable=False),
        sa.Column("found", sa.Text, nullable=False),
        sa.Column("distance", sa.Float, nullable=False),
    )
    op.create_index("ix_app_misfit_user", "app_misfit", ["user"])


def downgrade() -> None:
    """Drop the three tables."""
    for name in ("app_misfit", "app_binary", "app_entry"):
        op.drop_table(name)
