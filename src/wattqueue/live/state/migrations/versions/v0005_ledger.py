"""What an adaptive ledger has learned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "live_ledger",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        if_not_exists=True,
    )
