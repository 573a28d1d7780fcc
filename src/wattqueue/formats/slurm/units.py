"""Figures in another unit than their column has: run times that Start and End contradict, energies that no node draws.

sacct counts ElapsedRaw in seconds and ConsumedEnergyRaw in joules. Dumps that were converted on the way, or come from
another program, may count minutes or watt-hours. Read as they stand, a job of an hour becomes one of a minute, and
its energy sixty times the watts: plausible enough to become a machine file.

Start, End and Elapsed determine one another up to suspended time, which Elapsed leaves out, and clock changes.
So run times *contradict* where they differ from End - Start by more than ``CLOSE_S`` and no clock change explains it.
A dump is refused where more than ``MOST`` of its jobs contradict and a unit explains most of these, or where run times
are longer than End - Start, which nothing explains. Shorter ones without a unit are suspended time, and a remark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    from wattqueue.formats.slurm.energy import Plausible

CLOSE_S = 60.0
"""Slurm rounds, and clocks of nodes differ by seconds."""
HOUR_S = 3_600.0
SHOWS_S = 600.0
"""Jobs shorter than this, by both figures, are not looked at: at a few minutes every unit is close."""
MOST = 0.05
"""Share of contradictions that is no accident any more."""
TIME_UNITS = {"minutes": 60.0, "hours": 3_600.0, "days": 86_400.0, "milliseconds": 1e-3, "microseconds": 1e-6}
"""Seconds of a unit in which run times are found."""
ENERGY_UNITS = {"kJ": 1e3, "Wh": 3.6e3, "kWh": 3.6e6, "mJ": 1e-3, "µJ": 1e-6}
"""Joules of a unit in which energies are found."""
EXPLAINS = 0.8
"""Share of the figures in doubt that a unit has to explain to be named."""


def contradiction(start_s: Floats, end_s: Floats, elapsed_s: Floats) -> str:
    """Return why the run times of jobs cannot be used, with the likely unit; empty where they can.

    Seconds, NaN where unknown. Shapes (n,).
    """
    with np.errstate(invalid="ignore"):
        span = end_s - start_s
        shows = (np.maximum(span, elapsed_s) >= SHOWS_S) & (span >= 0) & (elapsed_s > 0)
        span, elapsed = span[shows], elapsed_s[shows]
        wrong = differs(span - elapsed)
    if not len(span) or wrong.mean() <= MOST:
        return ""
    said = f"the run times of {int(wrong.sum()):,} of {len(span):,} jobs contradict End - Start"
    for unit, factor in TIME_UNITS.items():
        # a figure in whole units is rounded by up to one of them
        close = np.abs(elapsed[wrong] * factor - span[wrong]) <= max(factor, CLOSE_S)
        if close.mean() >= EXPLAINS:
            return f"{said}: Elapsed counts {unit}"
    longer = float((wrong & (elapsed > span)).mean())
    return f"{said}: most are longer, which suspended time cannot explain" if longer > MOST else ""


def differs(gap_s: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return where End - Start - Elapsed is neither close to 0 nor to the hour of a clock change. Shape as given."""
    with np.errstate(invalid="ignore"):
        found: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = (np.abs(gap_s) > CLOSE_S) & (
            np.abs(np.abs(gap_s) - HOUR_S) > CLOSE_S
        )
    return found


def energy_units(plausible: Plausible) -> str:
    """Return in which units most energies that are out of bounds would be plausible: "kJ (83 W a node)" and more.

    Empty where energies out of bounds are the smaller part, and where no unit explains them.
    """
    if plausible.count <= plausible.total / 2:
        return ""
    watts = np.concatenate(plausible.outside_w)
    found = []
    for unit, factor in ENERGY_UNITS.items():
        scaled = watts * factor
        if ((scaled >= plausible.low_w) & (scaled <= plausible.high_w)).mean() >= EXPLAINS:
            found.append(f"{unit} ({float(np.median(scaled)):.3g} W a node)")
    return " or ".join(found)
