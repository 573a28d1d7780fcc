"""Energy against mean turnaround: one point per name, those that no other dominates marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report import words
from wattqueue.report.compare.stats import Estimate
from wattqueue.report.figure import Axis, Figure


def figure(
    labels: Sequence[str],
    turnaround_s: Sequence[Estimate],
    energy_j: Sequence[Estimate],
    *,
    rows: str = "group",
    runs: Sequence[Sequence[object]] = (),
) -> Figure:
    """Return the points with half of their intervals (0 where there is none).

    Args:
        labels: Names of the points.
        turnaround_s: Mean turnaround of each.
        energy_j: Energy of the machine of each.
        rows: What the names are.
        runs: Single runs as [position in ``labels``, turnaround, energy].
    """
    x, y = (np.array([e.mean for e in found]) for found in (turnaround_s, energy_j))
    x_half, y_half = (np.array([e.half or 0.0 for e in found]) for found in (turnaround_s, energy_j))
    best = undominated(x, y)
    scale_x, unit_x = words.span_unit(float(x.max()))
    scale_y, prefix = words.prefix_of(float(y.max()) / 3_600)
    alike = all(np.ptp(values[best]) <= 1e-9 * abs(values[best]).max() for values in (x, y))
    return Figure(
        "pareto",
        "Energy against turnaround",
        says(labels, best, alike=alike),
        Axis("turnaround time, mean", unit_x, scale_x),
        Axis("energy of the machine", f"{prefix}Wh", scale_y * 3_600),
        {
            "group": np.array(labels, object),
            "turnaround_s": x,
            "turnaround_half_s": x_half,
            "machine_energy_j": y,
            "machine_energy_half_j": y_half,
            "undominated": best.astype(np.int32),
        },
        {"group": rows, "turnaround_s": "turnaround time, mean", "machine_energy_j": "energy of the machine"},
        {"runs": list(runs)},
    )


def undominated(x: Floats, y: Floats) -> np.ndarray:
    """Return the points that no other point dominates in both values. Shape (n,) bool.

    Point j dominates i if it is at most equal in both values and lower in one.
    """
    worse = (x[None, :] <= x[:, None]) & (y[None, :] <= y[:, None])
    strict = (x[None, :] < x[:, None]) | (y[None, :] < y[:, None])
    return np.asarray(~(worse & strict).any(axis=1))


def says(labels: Sequence[str], best: np.ndarray, *, alike: bool = False) -> str:
    """Return which groups are on the Pareto front; ``alike`` where all of them are at one point of it.

    Args:
        labels: Names of the groups.
        best: Whether each is undominated. Shape (n,).
        alike: Whether all undominated groups have the same two values, so that there is nothing to trade.
    """
    front = [label for label, on in zip(labels, best, strict=True) if on]
    if len(front) == 1:
        return f"Lower left is better. On average, {front[0]} needs the least energy and the least time."
    named = ", ".join(front[:-1]) + f" and {front[-1]}"
    if alike:
        return (
            f"Lower left is better. {named} need the same energy and time; no other configuration needs less of either."
        )
    rest = "none dominates another" if len(front) == len(labels) else "each of the others is dominated by one of these"
    return f"Lower left is better. {named} trade energy for time; {rest}."
