"""The pass of cwm-simulator, with which paper 2 was evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class Cwm(CompiledPass):
    """Try the first ten entries; behind one that does not fit, start those that end no later than the last running job.

    Nothing is reserved for the entry that does not fit: it may wait for ever while others are started.

    Reference: paper 2, the published simulator (Scheduler._run); rules 8 and 10 of docs/semantics.md.
    """

    queue_depth: int = 10
    pass_interval_s: float = 60.0
    pass_at_completion: bool = True
    """Whether passes come at completions, and at whole intervals after the last one; else at events, not too often."""
    code: ClassVar[int] = codes.LAST_END
