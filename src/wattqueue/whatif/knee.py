"""Find the knee of mean wait over the cap: below it waits rise steeply, above it a higher cap gains little.

Reference: Satopaa, Albrecht, Irwin, Raghavan, Finding a "Kneedle" in a Haystack: Detecting Knee Points in System
Behavior, ICDCS Workshops 2011, sections III and IV, for a falling convex curve, offline, without smoothing.
Smoothing is left out because every point is a whole simulation: there is no noise between neighbours to remove.
"""

from __future__ import annotations

import numpy as np

from wattqueue.model.jobs import Floats

SENSITIVITY = 1.0
"""Kneedle's S: how many mean steps the curve must come back from its farthest point."""
LEAST_RISE = 0.05
"""Waits that rise by less than this share of the least wait make a flat curve."""
LEAST_RISE_S = 60.0
"""Nor does a rise of less than this."""
LEAST_POINTS = 4
"""Curves with fewer caps have no knee: it must lie inside, with a neighbour on each side."""


def knee(cap_w: Floats, wait_s: Floats) -> int | None:
    """Return the row of the knee of a falling curve; None where it is flat, straight, or has no knee inside.

    Both axes are scaled to 0..1. With d = (1 - x) - y, the distance below the line from the lowest to the highest
    cap, the knee is where d is greatest, provided that d falls from there by S mean steps of x before it ends
    (Kneedle's threshold), so that a straight line has none. Shapes (k,); caps must be in rising order.
    """
    if len(cap_w) < LEAST_POINTS or not np.isfinite(wait_s).all():
        return None
    low, high = float(wait_s.min()), float(wait_s.max())
    if high - low < max(LEAST_RISE_S, LEAST_RISE * low):
        return None
    x = (cap_w - cap_w[0]) / (cap_w[-1] - cap_w[0])
    distance = (1.0 - x) - (wait_s - low) / (high - low)
    at = int(np.argmax(distance))
    threshold = distance[at] - SENSITIVITY * float(np.mean(np.diff(x)))
    fell = bool((distance[at:] < threshold).any())
    return at if distance[at] > 0 and fell and 0 < at < len(x) - 1 else None
