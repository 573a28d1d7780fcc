"""Parked jobs and drained nodes have the end of the load target, not only its begin.

For rows of an older version the end is not known. They get the time at which they were parked or drained: the target
then counts as over, so that ``live release`` and ``live uninstall`` take them back. A controller at work asks its own
source of targets, whatever stands here.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column to parked jobs, replace it for drained nodes; do nothing where it is there already."""
    if "until_s" not in _columns("live_parked"):
        with op.batch_alter_table("live_parked") as parked:
            parked.add_column(sa.Column("until_s", sa.Float))
        op.execute("UPDATE live_parked SET until_s = since_s")
        with op.batch_alter_table("live_parked") as parked:
            parked.alter_column("until_s", existing_type=sa.Float, nullable=False)
    if "until_s" not in _columns("live_drained"):
        with op.batch_alter_table("live_drained") as drained:
            drained.alter_column("since_s", new_column_name="until_s", existing_type=sa.Float, existing_nullable=False)


def _columns(table: str) -> set[str]:
    return {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
