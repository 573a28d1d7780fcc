"""No backfilling: jobs start in queue order only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class None_(CompiledPass):  # noqa: N801 - "None" is taken, and the file names the part
    """Start entries in queue order; the first that does not fit ends its partition's pass.

    Reference: rule 7 of docs/semantics.md.
    """

    code: ClassVar[int] = codes.NO_BACKFILL
