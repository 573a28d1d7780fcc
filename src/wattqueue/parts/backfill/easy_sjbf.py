"""EASY with shortest-first backfilling: the head of the queue keeps its place, the others are tried by planned time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class EasySjbf(CompiledPass):
    """Try entries in queue order up to each partition's reservation, then all others, the shortest planned time first.

    What may start beside a reservation is as in EASY; only the order of the tries behind it differs. A short job that
    arrived late may take the units that a longer one before it in the queue waits for, unless that one is the head.

    Reference: rule 8 of docs/semantics.md; Tsafrir, Etsion and Feitelson, Backfilling using system-generated
    predictions rather than user runtime estimates, IEEE TPDS 18(6), 2007 (SJBF).
    """

    code: ClassVar[int] = codes.SHORTEST
