"""A node's watts as people write them: ``95:190.7``, idle and maximum.

The option ``--node-watts`` gives them to a plain machine (``--nodes 64 --node-watts 95:190.7``), and to the import
as bounds for energy counters. Both figures are of the whole node, as a meter at its plug would show them.

The order is fixed (idle first). A reversed pair is an error and is not swapped, since one of the figures may be
mistyped. No unit may stand behind a figure: both are watts.
"""

from __future__ import annotations

import math

from wattqueue.errors import InputError
from wattqueue.model.bounds import UNIT_W

WHERE = "--node-watts"
"""The place that errors name."""


def parse_node_watts(text: str) -> tuple[float, float]:
    """Return idle and maximum watts of a node, 0 <= idle <= maximum.

    Raises: InputError for other text, figures out of order, and watts outside ``bounds.UNIT_W``.
    """
    idle, _, most = text.partition(":")
    try:
        watts = float(idle), float(most)
    except ValueError:
        watts = math.nan, math.nan  # NaN fails every comparison below, as do infinity and a pair out of order
    if not 0 <= watts[0] <= watts[1] < math.inf:
        raise InputError(f"{text!r} is not IDLE:MAX in watts", where=WHERE, hint="for example 95:190.7, idle first")
    return UNIT_W.require(watts[0], "idle watts", where=WHERE), UNIT_W.require(watts[1], "maximum watts", where=WHERE)
