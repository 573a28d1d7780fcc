"""The books of energy budgets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "live_budgets",
        sa.Column("name", sa.String(250), primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        if_not_exists=True,
    )
