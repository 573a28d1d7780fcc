"""Settings that all compiled passes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wattqueue.errors import PolicyError, one_of
from wattqueue.kernels import codes
from wattqueue.model import bounds

AHEAD = ("nothing", "target", "limits")


@dataclass(frozen=True)
class CompiledPass:
    """Base of the parts that name a compiled pass.

    Raises: PolicyError for a depth below 1 or a negative interval. Reference: rule 10 of docs/semantics.md.
    """

    queue_depth: int = codes.ANY_NEED
    """Entries that one pass tries, in queue order, 1 or more; by default all."""
    pass_interval_s: float = 0.0
    """Shortest time between two passes; 0 means a pass at every instant with an event."""

    ahead: str = "nothing"
    """Announced limits that an entry must fit which would still run when they begin (rule 13 of docs/semantics.md):
    ``nothing``, ``target`` (the next load target alone), or ``limits`` (caps and load targets)."""
    slowed: bool = False
    """Whether jobs count within a load target at the last option to which their users consent: for a policy with a
    control that slows them then (``slow-consenting``). Otherwise they count as they run."""

    acts_by: ClassVar[str] = "the look-ahead"
    """What of the pass ``acts_on`` is about: without it, it starts jobs all the same."""

    @property
    def acts_on(self) -> tuple[str, ...]:
        """Return what the pass needs to look ahead to (``policy/effects.py``)."""
        return {"nothing": (), "target": ("targets",), "limits": ("announcements",)}[self.ahead]

    @property
    def looks_ahead(self) -> int:
        """Return how the compiled pass counts jobs when announced limits begin (``kernels/codes.py``); 0: not."""
        if self.ahead == "nothing":
            return 0
        return codes.AHEAD_SLOWED if self.slowed else codes.AHEAD_AS_RUN

    def __post_init__(self) -> None:
        depth: Any = self.queue_depth  # a TOML file may hold anything
        interval = self.pass_interval_s
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise PolicyError(f"is {depth!r}", where="queue_depth", hint="use a number from 1, or leave it out for all")
        if not 0 <= interval <= bounds.DURATION_S.high:
            raise PolicyError(f"is {interval!r}", where="pass_interval_s", hint="use seconds, 0 or more")
        if self.ahead not in AHEAD:
            raise PolicyError(f"is {self.ahead!r}", where="ahead", hint=one_of(str(self.ahead), AHEAD))
        if not isinstance(self.slowed, bool):
            raise PolicyError(f"is {self.slowed!r}", where="slowed", hint="true or false")
