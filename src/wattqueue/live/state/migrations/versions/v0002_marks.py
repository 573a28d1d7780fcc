"""Marks of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "live_marks",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("submit_s", sa.Float, primary_key=True),
        sa.Column("marks", sa.Text, nullable=False),
        if_not_exists=True,
    )
