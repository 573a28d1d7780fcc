"""First fit: every entry that fits starts, without reservations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class FirstFit(CompiledPass):
    """Start every entry that fits now, in queue order.

    Keeps nodes busy, but wide jobs can wait for ever while narrow ones keep arriving.

    Reference: rule 7 of docs/semantics.md.
    """

    code: ClassVar[int] = codes.FIRST_FIT
