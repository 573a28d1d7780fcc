"""Measured jobs have the nodes, the partition and the frequency at which they ran.

Estimators whose nodes differ learn from them what a job would have drawn on an equal node. Of jobs that an earlier
version measured this is not known: they teach what they drew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, empty for jobs that are there already."""
    with op.batch_alter_table("live_learned") as learned:
        learned.add_column(sa.Column("hardware", sa.Text))
        learned.add_column(sa.Column("frequency_hz", sa.Float))
        learned.add_column(sa.Column("node_names", sa.Text))
    with op.batch_alter_table("live_running") as running:
        running.add_column(sa.Column("node_names", sa.Text))
