"""Whoever fits starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class FirstFit(CompiledPass):
    """Every entry that fits now starts; nobody is promised anything."""

    code: ClassVar[int] = codes.FIRST_FIT
