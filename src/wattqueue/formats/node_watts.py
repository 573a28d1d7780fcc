"""A node's watts as people write them: ``95:190.7``, idle and maximum."""

from __future__ import annotations

import math

from wattqueue.errors import InputError


def parse_node_watts(text: str) -> tuple[float, float]:
    """Idle and maximum watts of a node, 0 <= idle <= maximum. Raises: InputError."""
    idle, _, most = text.partition(":")
    try:
        watts = float(idle), float(most)
    except ValueError:
        watts = math.nan, math.nan
    if not 0 <= watts[0] <= watts[1] < math.inf:
        raise InputError(
            f"{text!r} is not IDLE:MAX in watts", where="--node-watts", mend="for example 95:190.7, idle first"
        )
    return watts
