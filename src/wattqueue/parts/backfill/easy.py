"""EASY backfilling: the first that does not fit is promised a start, and nothing may delay it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class Easy(CompiledPass):
    """One reservation a partition. Reference: SEMANTICS rule 8; paper 4, section 5 (EASY+PC with a cap)."""

    code: ClassVar[int] = codes.EASY
