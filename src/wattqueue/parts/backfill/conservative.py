"""Conservative backfilling: everybody is promised a start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class Conservative(CompiledPass):
    """A plan of all queued entries, rebuilt at every pass. Reference: SEMANTICS rule 9."""

    code: ClassVar[int] = codes.CONSERVATIVE
