"""The predicted ledger, rising after a load target at the target's ramp."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.parts.ledger.predicted import Predicted


class Ramped(Predicted):
    """As ``predicted``; after a load target that states a ramp, so many watts a second since the last rise.

    The limit after a target rises at its ramp anyway, from the target's watts on, whatever is drawn. This ledger also
    starts from what is drawn: it may rise above its highest figure since the target by the ramp's watts for each second
    since that figure was reached. So work that was held back returns step by step, also where little ran during the
    target. At t seconds after the target the ledger counts at most what it counted then, and t times the ramp.

    Reference: rule 13 of docs/semantics.md; WattQueue's own.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("ramps",)
    ramped: ClassVar[bool] = True
