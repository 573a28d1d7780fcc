"""EASY backfilling that looks ahead to the next announced load target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.parts.backfill.easy import Easy


@dataclass(frozen=True)
class EasyAhead(Easy):
    """EASY; an entry that would still run when the next announced target begins starts only if it fits below it.

    ``easy`` with ``ahead = "target"`` and ``slowed``. What counts there are the idle watts of today, running jobs whose
    expected end is later, and what the pass has started. So a target is reached at its begin without slowing or parking
    jobs whose users do not consent, and no power above it is drawn by work that was started although the target was
    known. Entries that end before it start as in EASY: they fill what is kept free until then.

    Reference: rule 13 of docs/semantics.md; WattQueue's own, after the announced caps of paper 3 (section 4.1).
    """

    acts_by: ClassVar[str] = ""  # it differs from ``easy`` by nothing else
    ahead: str = "target"
    slowed: bool = True
