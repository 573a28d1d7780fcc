"""Nobody overtakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class None_(CompiledPass):  # noqa: N801 - "None" is taken, and the file names the part
    """Queue order until the first entry that does not fit; that ends its partition's pass."""

    code: ClassVar[int] = codes.NO_BACKFILL
