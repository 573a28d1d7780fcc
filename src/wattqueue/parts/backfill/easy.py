"""EASY backfilling: the first entry that does not fit gets a reservation, which no other start may delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class Easy(CompiledPass):
    """Keep one reservation per partition, for the first entry there that does not fit.

    Later entries start if they end by the shadow time, or fit in the nodes and watts left over at it.

    Reference: rule 8 of docs/semantics.md; paper 4, section 5 (EASY+PC with a cap).
    """

    code: ClassVar[int] = codes.EASY
