"""Which rows of an imported trace a schedule can use: the limits of ``model.bounds``, applied in one place.

Readers of foreign traces leave out rows that cannot be used, with a reason, and go on; our own table refuses the
first one, since it was written by a program (``table``). Both use the same limits. Figures that a job can do without
(start, walltime, watts) become unknown, and the job stays usable.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.bounds import DURATION_S, TIME_S, UNIT_W, UNITS, Bound
from wattqueue.model.jobs import Floats

Mask = NDArray[np.bool_]
Rules = tuple[tuple[Mask, str], ...]


def size_and_time_rules(submit_s: Floats, runtime_s: Floats, nodes: Floats) -> Rules:
    """Return (which rows break it, reason) of each limit; NaN breaks none, its reader has a reason of its own."""
    return (
        (_outside(submit_s, TIME_S), f"submit time outside {TIME_S.text}"),
        (_outside(runtime_s, DURATION_S), f"run time outside {DURATION_S.text}"),
        (_outside(nodes, UNITS), f"size outside {UNITS.text} units"),
    )


def known(values: Floats, bound: Bound) -> Floats:
    """Return the values inside a limit, NaN for the others. Shape as ``values``.

    For figures that a job can do without; for those that it needs see ``size_and_time_rules``.
    """
    return np.where(bound.holds(values), values, np.nan)


def plausible_watts(mean_w: Floats, max_w: Floats) -> tuple[Floats, Floats, list[str]]:
    """Return mean and maximum watts of one unit, and remarks on what was changed. Shapes (n,).

    Watts outside the limit become unknown. A maximum below the mean takes the mean: it contradicts the energy of the
    job, and a cap that relied on it would be exceeded on average.
    """
    wild = _outside(mean_w, UNIT_W) | _outside(max_w, UNIT_W)
    mean_w, max_w = known(mean_w, UNIT_W), known(max_w, UNIT_W)
    with np.errstate(invalid="ignore"):
        low = max_w < mean_w
    notes = []
    if wild.any():
        notes.append(f"{int(wild.sum()):,} jobs have watts outside {UNIT_W.text} per unit: they count as unknown")
    if low.any():
        notes.append(f"{int(low.sum()):,} jobs have a maximum power below their mean power: the mean is taken for both")
    return mean_w, np.where(low, mean_w, max_w), notes


def _outside(values: Floats, bound: Bound) -> Mask:
    """Return whether values are known (not NaN) and outside a limit; infinity is outside. Shape as ``values``."""
    return ~np.isnan(values) & ~bound.holds(values)
