"""The ledger of incentives: settled events, and the entry of each job.

A migration repeats its columns instead of importing the tables, as ``v0001_applications`` explains.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from wattqueue.store.tables import text, word

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the two tables and the index on users."""
    op.create_table(
        "incentive_event",
        sa.Column("event_id", word(200), primary_key=True),
        sa.Column("begin_s", sa.BigInteger, nullable=False),
        sa.Column("end_s", sa.BigInteger, nullable=False),
        sa.Column("model", text(), nullable=False),
        sa.Column("model_sha256", word(64), nullable=False),
        sa.Column("currency", word(12), nullable=False),
        sa.Column("basis", text(), nullable=False),
        sa.Column("jobs", sa.Integer, nullable=False),
        sa.Column("reward", sa.BigInteger, nullable=False),
        sa.Column("digest", word(64), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "incentive_entry",
        sa.Column("event_id", word(200), sa.ForeignKey("incentive_event.event_id"), primary_key=True),
        sa.Column("job_id", word(64), primary_key=True),
        sa.Column("user_name", word(200), nullable=False),
        sa.Column("added_wait", sa.BigInteger, nullable=False),
        sa.Column("added_run", sa.BigInteger, nullable=False),
        sa.Column("power_freed", sa.BigInteger, nullable=False),
        sa.Column("energy_freed", sa.BigInteger, nullable=False),
        sa.Column("fee", sa.BigInteger, nullable=False),
        sa.Column("reward", sa.BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_index("ix_incentive_entry_user", "incentive_entry", ["user_name"], if_not_exists=True)


def downgrade() -> None:
    """Drop the two tables."""
    for name in ("incentive_entry", "incentive_event"):
        op.drop_table(name)
