"""Tables of the ledger of incentives: settled events, and what each job got.

Amounts are whole micro-units of the currency (model.money), quantities whole base units; both in 64 bits. A change here
needs a new migration, which a test compares with this module.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table

from wattqueue.store.columns import text, word
from wattqueue.store.tables import METADATA

SETTLED = Table(
    "incentive_event",
    METADATA,
    Column("event_id", word(200), primary_key=True),
    Column("begin_s", BigInteger, nullable=False),
    Column("end_s", BigInteger, nullable=False),
    Column("model", text(), nullable=False),
    Column("model_sha256", word(64), nullable=False),
    Column("currency", word(12), nullable=False),
    Column("basis", text(), nullable=False),
    Column("jobs", Integer, nullable=False),
    Column("reward", BigInteger, nullable=False),
    Column("digest", word(64), nullable=False),
)
"""Events whose rewards are settled. ``digest`` is a hash of the event and all its entries: settling twice is
recognised, and settling differently is refused."""

ENTRY = Table(
    "incentive_entry",
    METADATA,
    Column("event_id", word(200), ForeignKey("incentive_event.event_id"), primary_key=True),
    Column("job_id", word(64), primary_key=True),
    Column("user_name", word(200), nullable=False),
    Column("added_wait", BigInteger, nullable=False),
    Column("added_run", BigInteger, nullable=False),
    Column("power_freed", BigInteger, nullable=False),
    Column("energy_freed", BigInteger, nullable=False),
    Column("fee", BigInteger, nullable=False),
    Column("reward", BigInteger, nullable=False),
    Index("ix_incentive_entry_user", "user_name"),
)
"""What one job got for one event: node-seconds, watts, joules, and micro-units of the event's currency."""
