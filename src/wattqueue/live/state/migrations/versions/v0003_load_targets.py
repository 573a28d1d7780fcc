"""Parked jobs, drained nodes, running jobs; the lease of several hosts; the begin of the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the five tables."""
    op.create_table(
        "live_lease",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("renewed_s", sa.Float, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "live_audit_begin",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("seal", sa.String(64), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "live_parked",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("submit_s", sa.Float, primary_key=True),
        sa.Column("since_s", sa.Float, nullable=False),
        sa.Column("watts", sa.Integer, nullable=False),
        sa.Column("limit_s", sa.Float, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "live_drained",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("since_s", sa.Float, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "live_running",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("submit_s", sa.Float, primary_key=True),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("partition", sa.Text, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("walltime_s", sa.Float, nullable=False),
        sa.Column("predicted_node_w", sa.Float),
        sa.Column("hardware", sa.Text, nullable=False),
        sa.Column("frequency_hz", sa.Float),
        if_not_exists=True,
    )
