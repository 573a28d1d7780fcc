"""EASY backfilling that looks ahead to the next announced load target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.parts.backfill.easy import Easy


@dataclass(frozen=True)
class EasyAhead(Easy):
    """EASY; an entry that would still run when the next announced target begins starts only if it fits below it.

    What counts there are the idle watts of today, running jobs whose expected end is later, and what the pass has
    started. So a target is reached at its begin without slowing or parking jobs whose users do not consent, and no
    power above it is drawn by work that was started although the target was known. Entries that end before it start as
    in EASY: they fill what is kept free until then.

    Raises: PolicyError for ``slowed`` that is no truth value.
    Reference: rule 13 of docs/semantics.md; WattQueue's own, after the announced caps of paper 3 (section 4.1).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("targets",)
    slowed: bool = True
    """Whether jobs count at the last option of their windows when the target begins: to be used with a control that
    slows them then (``slow-consenting``). Otherwise they count as they run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.slowed, bool):
            raise PolicyError(f"slowed is {self.slowed!r}", where="easy-ahead", hint="true or false")

    @property
    def looks_ahead(self) -> int:
        """Return how the compiled pass counts jobs when the target begins (``kernels/codes.py``)."""
        return codes.AHEAD_SLOWED if self.slowed else codes.AHEAD_AS_RUN
