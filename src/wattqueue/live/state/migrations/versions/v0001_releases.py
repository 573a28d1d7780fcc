"""The first schema: the audit log, releases, refusals, first submissions, measured jobs.

A migration repeats its columns instead of importing ``live.state.database``: it must create the schema of its own
version, whatever later versions add. Released migrations are never edited.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the five tables."""
    op.create_table(
        "live_audit",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("time_us", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("about", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.Column("after", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "live_placed",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("submit_s", sa.Float, primary_key=True),
        sa.Column("since_s", sa.Float, nullable=False),
        sa.Column("partition", sa.Text, nullable=False),
        sa.Column("option", sa.Integer, nullable=False),
        sa.Column("watts", sa.Integer, nullable=False),
        sa.Column("predicted_w", sa.Float, nullable=False),
        sa.Column("limit_s", sa.Float, nullable=False),
        sa.Column("nodes", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "live_refused",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("submit_s", sa.Float, primary_key=True),
        sa.Column("until_s", sa.Float, nullable=False),
        sa.Column("times", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "live_origin",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("submit_s", sa.Float, primary_key=True),
        sa.Column("first_s", sa.Float, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "live_learned",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("submit_s", sa.Float, primary_key=True),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("partition", sa.Text, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("walltime_s", sa.Float, nullable=False),
        sa.Column("start_s", sa.Float, nullable=False),
        sa.Column("end_s", sa.Float, nullable=False),
        sa.Column("mean_node_w", sa.Float, nullable=False),
        sa.Column("max_node_w", sa.Float),
        sa.Column("predicted_node_w", sa.Float),
        if_not_exists=True,
    )
