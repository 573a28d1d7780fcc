"""What the compiled passes share: their knobs."""

from __future__ import annotations

from dataclasses import dataclass

from wattqueue.errors import PolicyError


@dataclass(frozen=True)
class CompiledPass:
    """``queue_depth`` entries tried a pass (0: all); ``pass_interval_s`` seconds between passes at least.

    Reference: SEMANTICS rule 10.
    """

    queue_depth: int = 0
    pass_interval_s: float = 0.0

    def __post_init__(self) -> None:
        if self.queue_depth < 0 or not self.pass_interval_s >= 0:
            raise PolicyError("queue_depth and pass_interval_s must be 0 or more")
