"""Conformal correction of quantiles as it is defined: sort the scores again for every job."""

from __future__ import annotations

import math
from collections.abc import Sequence


def conformal_shift(
    own: Sequence[float], everybody: Sequence[float], quantile: float, room: int, room_of_all: int
) -> float:
    """Watts to add to a predicted quantile; scores in the order in which they came."""
    for scores, limit, last_resort in ((own, room, False), (everybody, room_of_all, True)):
        latest = sorted(scores[-limit:])
        rank = math.ceil((len(latest) + 1) * quantile - 1e-9)
        if latest and rank <= len(latest):
            return latest[rank - 1]
        if last_resort and latest:
            return latest[-1]
    return 0.0
