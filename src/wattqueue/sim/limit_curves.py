"""Run times of applications under limits on their units, as kernels take them (rule 21 of docs/semantics.md).

A table states watts and run time under several limits, at the highest clock of a partition. Of each figure counts what
share of the watts above idle is left, and how much longer the job runs for it. A job at a lower clock draws a share
of these watts anyhow: its curve begins there, and its run times are over that of its clock.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.errors import InputError, one_of
from wattqueue.kernels import state
from wattqueue.kernels.arrays import kernel_array
from wattqueue.kernels.fresh import no_curves
from wattqueue.model.jobs import Floats, Labels
from wattqueue.model.machine import Machine

if TYPE_CHECKING:
    from wattqueue.model.physics import LimitFigures

Curve = tuple[Floats, Floats]
"""Shares of the watts above idle, rising to 1, and run times over that at 1."""


def curves_of(figures: LimitFigures, machine: Machine) -> dict[tuple[str, int], Curve]:
    """Return the curve of each application and partition that figures state.

    Raises: InputError naming file and line for an unknown partition, a limit that is stated twice, a single limit, and
    watts that are not above idle or do not fall with the limit.
    """
    names = [p.name for p in machine.partitions]
    rows = defaultdict[tuple[str, int], list[int]](list)
    for k, name in enumerate(figures.partition):
        if name not in names:
            what = f"{machine.name} has no partition {name!r}"
            raise InputError(what, where=figures.where[k], hint=one_of(name, names))
        rows[figures.app[k], names.index(name)].append(k)
    return {key: _curve(figures, np.array(own), machine.partitions[key[1]].idle_w) for key, own in rows.items()}


def _curve(figures: LimitFigures, rows: np.ndarray[tuple[int], np.dtype[np.int64]], idle_w: float) -> Curve:
    """Return the curve of the figures of one application on one partition. Raises: InputError as ``curves_of``."""
    rows = rows[np.argsort(figures.limit_w[rows], kind="stable")]
    watts, app = figures.watts[rows], figures.app[rows[0]]
    last = figures.where[rows[-1]]
    if len(rows) < 2:
        raise InputError(f"{app} has one limit", where=last, hint="state a limit that holds nothing back, and others")
    same = np.flatnonzero(np.diff(figures.limit_w[rows]) == 0)
    if len(same):
        raise InputError(f"{app} has a limit twice", where=figures.where[rows[same[0] + 1]], hint="keep one of the two")
    low = np.flatnonzero(watts <= idle_w)
    if len(low):
        what, hint = f"{app} draws {watts[low[0]]:g} W, not above idle_w = {idle_w:g}", "correct one of the two"
        raise InputError(what, where=figures.where[rows[low[0]]], hint=hint)
    flat = np.flatnonzero(np.diff(watts) <= 0)
    if len(flat):
        what = f"{app} draws no less under the lower limit"
        raise InputError(what, where=figures.where[rows[flat[0]]], hint="leave out limits that hold nothing back")
    share: Floats = (watts - idle_w) / (watts[-1] - idle_w)
    return share, figures.time_s[rows] / figures.time_s[rows[-1]]


def at_clock(curve: Curve, dynamic: float) -> Curve:
    """Return a curve as a job sees it whose clock leaves a share ``dynamic`` of the watts above idle.

    Empty where the clock alone leaves less than any limit of the table.
    """
    share, slow = curve
    below = share < min(dynamic, 1.0)
    if not below.any():
        return np.zeros(0), np.zeros(0)
    here = float(np.interp(dynamic, share, slow))
    return np.append(share[below] / dynamic, 1.0), np.append(slow[below] / here, 1.0)


def limit_curves(figures: LimitFigures | None, app: Labels, machine: Machine) -> state.LimitCurves:
    """Return the curves of the applications that jobs name, by option. Raises: InputError as ``curves_of``."""
    if figures is None:
        return no_curves()
    found = curves_of(figures, machine)
    known = [name for name in app.names if any(name == key[0] for key in found)]
    own = np.array([*(known.index(name) if name in known else -1 for name in app.names), -1], np.int32)
    nothing = np.ones(1), np.ones(1)
    each = [
        at_clock(found.get((name, int(p)), nothing), float(dynamic))
        for name in known
        for p, dynamic in zip(machine.option_partition, machine.option_dynamic_factor, strict=True)
    ]
    start = np.concatenate(([0], np.cumsum([len(share) for share, _ in each]))).astype(np.int64)
    share, slow = (np.concatenate([np.zeros(0), *(curve[k] for curve in each)]) for k in range(2))
    return state.LimitCurves(kernel_array(own[app.codes], np.int32), start, share, slow)
