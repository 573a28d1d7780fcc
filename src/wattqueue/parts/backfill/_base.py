"""Settings that all compiled passes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.model import bounds


@dataclass(frozen=True)
class CompiledPass:
    """Base of the parts that name a compiled pass.

    Raises: PolicyError for a depth below 1 or a negative interval. Reference: rule 10 of docs/semantics.md.
    """

    queue_depth: int = codes.ANY_NEED
    """Entries that one pass tries, in queue order, 1 or more; by default all."""
    pass_interval_s: float = 0.0
    """Shortest time between two passes; 0 means a pass at every instant with an event."""

    def __post_init__(self) -> None:
        depth: Any = self.queue_depth  # a TOML file may hold anything
        interval = self.pass_interval_s
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise PolicyError(f"is {depth!r}", where="queue_depth", hint="use a number from 1, or leave it out for all")
        if not 0 <= interval <= bounds.DURATION_S.high:
            raise PolicyError(f"is {interval!r}", where="pass_interval_s", hint="use seconds, 0 or more")
