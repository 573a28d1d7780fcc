"""Run times of ended jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "live_ran",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("submit_s", sa.Float, primary_key=True),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("partition", sa.Text, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("walltime_s", sa.Float, nullable=False),
        sa.Column("end_s", sa.Float, nullable=False),
        sa.Column("run_s", sa.Float, nullable=False),
        if_not_exists=True,
    )
