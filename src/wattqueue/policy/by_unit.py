"""Turn factors of units that differ into the tables that kernels work on (rule 12 of docs/semantics.md).

``Prediction.unit_factor`` has a row for each application that the job table names, and a column for each unit of the
machine. Kernels get one row more, of ones: that of jobs whose application has no factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.kernels import state
from wattqueue.kernels.arrays import kernel_array
from wattqueue.model import bounds
from wattqueue.model.jobs import Labels
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Prediction
from wattqueue.parts.scale import Scale


def check_unit_factor(app: Labels, machine: Machine, prediction: Prediction) -> None:
    """Check the factors of a prediction; a row that is NaN throughout is that of an application without factors.

    Raises: PolicyError for a table of another shape, a unit without a factor, factors that are not above 0 and
    finite, or watts beyond what a unit can draw.
    """
    for factor, name in ((prediction.unit_factor, "unit_factor"), (prediction.unit_time_factor, "unit_time_factor")):
        if factor is not None:
            _check_table(app, machine, factor, name)
    if prediction.unit_factor is None:
        return
    power = prediction.power_w[np.isfinite(prediction.power_w)].max(initial=0.0)
    if not np.fmax.reduce(prediction.unit_factor, axis=None, initial=0.0) * power <= bounds.UNIT_W.high:
        raise PolicyError(f"factors give a unit more than {bounds.UNIT_W.text}", hint=bounds.UNIT_W.reason)


def _check_table(app: Labels, machine: Machine, factor: Floats, name: str) -> None:
    """Raise PolicyError for factors of another shape, and for one that is not above 0 and finite."""
    expected = (len(app.names), machine.units)
    if factor.shape != expected:
        raise PolicyError(
            f"{name} has shape {factor.shape}, expected {expected}",
            where=machine.name,
            hint="one row for each application that the jobs name, one column for each unit of the machine",
        )
    bad = ~(np.isfinite(factor) & (factor > 0)) & ~unprofiled(factor)[:, np.newaxis]
    if bad.any():
        row, unit = (int(k[0]) for k in np.nonzero(bad))
        missing = np.isnan(factor[row, unit])
        raise PolicyError(
            "a unit has no factor" if missing else f"a factor is {factor[row, unit]!s}",
            where=f"application {app.names[row]}, unit {unit}",
            hint="factors are above 0 and finite; a row that is nan throughout is an application without factors",
        )


def unprofiled(factor: Floats) -> NDArray[np.bool_]:
    """Return which applications have no factors. Shape (A,)."""
    found: NDArray[np.bool_] = np.logical_and.reduce(np.isnan(factor), axis=1)
    return found


def without_factors(app: Labels, prediction: Prediction) -> NDArray[np.bool_]:
    """Return which jobs name no application, or one without factors. Shape (n,); none where units are equal.

    Also none where the table has another number of rows than there are applications: ``check_unit_factor`` refuses it.
    """
    if prediction.unit_factor is None or len(prediction.unit_factor) != len(app.names):
        return np.zeros(len(app), np.bool_)
    known = np.append(~unprofiled(prediction.unit_factor), False)
    return ~known[app.codes]


def with_worst_case(app: Labels, machine: Machine, prediction: Prediction) -> Prediction:
    """Return the prediction in which jobs without factors draw the stated maximum of a unit, whatever their units.

    An estimator that is asked again at submissions replaces it with its own figures, for a unit of factor 1.

    Raises: PolicyError where the machine states no maximum.
    """
    unknown = without_factors(app, prediction)
    if not unknown.any():
        return prediction
    most = Scale.of(machine).apply(np.full(1, np.nan))[0]
    if np.isnan(most).any():
        raise PolicyError(
            f"{int(unknown.sum())} jobs have an application without factors, and a unit's maximum is not known",
            where=machine.name,
            hint="give max_w in the machine file, or factors for every application",
        )
    own = prediction.take(np.arange(len(app), dtype=np.int32))
    power = own.power_w if len(own.power_w) == len(app) else np.repeat(own.power_w, len(app), axis=0)
    return replace(own, power_w=np.where(unknown[:, np.newaxis], most, power))


def unit_factors(app: Labels, factor: Floats | None) -> state.UnitFactorTable:
    """Return factors (A, U) as kernels take them; empty where units are equal (None)."""
    if factor is None:
        return equal_units()
    table = np.ones((len(app.names) + 1, factor.shape[1]))
    table[:-1] = np.where(np.isnan(factor), 1.0, factor)
    return state.UnitFactorTable(application_rows(app), table)


def equal_units() -> state.UnitFactorTable:
    """Return the factors of a machine whose units are equal: none."""
    return state.UnitFactorTable(np.empty(0, np.int32), np.empty((0, 0)))


def application_rows(app: Labels) -> NDArray[np.int32]:
    """Return the row of each job in tables by application; the last one for jobs without one. Shape (n,)."""
    return kernel_array(np.where(app.codes < 0, len(app.names), app.codes), np.int32)


def new_by_unit(
    app: Labels, machine: Machine, prediction: Prediction, rank: Floats | None, entries: int, words: int
) -> state.ByUnit:
    """Return what a pass knows of units that differ, or are taken by rank.

    ``rank`` (A, U) is a placement's, None for the lowest numbers; ``entries`` and ``words`` are lengths of the entry
    table and of the bitmap of free units.

    Raises: PolicyError for ranks of another shape, or NaN.
    """
    factors = unit_factors(app, prediction.unit_factor)
    table = factors.table
    rising = table.copy()
    for first, end in bounds_of_partitions(machine):
        rising[:, first:end].sort(axis=1)
    order = np.empty((0, 0), np.int32)
    if rank is not None or len(table):
        order = placement_order(app, machine, np.zeros((0, machine.units)) if rank is None else np.asarray(rank))
    row = np.empty(0, np.int32)
    if len(order):
        row = factors.row if len(table) else application_rows(app)
    differ = bool(len(table))
    return state.ByUnit(
        factors,
        rising,
        row,
        order,
        np.zeros(entries * differ, np.int64),
        np.zeros(len(app) * differ, np.int8),
        np.empty(machine.units if len(order) else 0, np.int32),
        np.zeros(words if len(order) else 0, np.uint64),
    )


def bounds_of_partitions(machine: Machine) -> Iterator[tuple[int, int]]:
    """Yield the first unit of each partition, and the one behind its last."""
    return pairwise(machine.unit_start.tolist())


def placement_order(app: Labels, machine: Machine, rank: Floats) -> NDArray[np.int32]:
    """Return the units of each partition in the order of (rank, number), by application. Shape (A + 1, U) or (1, U).

    Jobs without an application take units by their mean rank, or by that in row A where ``rank`` has one. Rows that
    are all the same become one.

    Raises: PolicyError for ranks of another shape, or NaN.
    """
    names, expected = len(app.names), (len(app.names), machine.units)
    if rank.shape not in (expected, (names + 1, machine.units), (0, machine.units)) or np.isnan(rank).any():
        raise PolicyError(
            f"a placement gives ranks of shape {rank.shape}, or NaN, expected {expected}",
            hint="one row for each application that the jobs name, one column for each unit of the machine",
        )
    rows = rank if len(rank) else np.zeros((1, machine.units))
    if (rows == rows[0]).all():
        rows = rows[:1]
    elif len(rows) == names:
        rows = np.vstack((rows, rows.mean(axis=0)))
    order = np.empty(rows.shape, np.int32)
    for first, end in bounds_of_partitions(machine):
        order[:, first:end] = np.argsort(rows[:, first:end], axis=1, kind="stable") + first
    return order


def factors_of(view: state.KernelView) -> Floats | None:
    """Return the predicted factors of a view as ``Prediction.unit_factor`` has them; None where units are equal."""
    table = view.by_unit.factors.table
    return table[:-1] if len(table) else None


def rank_of(view: state.KernelView, applications: int) -> Floats | None:
    """Return ranks that give the orders of placement of a view; None where the lowest numbers are. Shape (A + 1, U)."""
    order = view.by_unit.order
    if not len(order):
        return None
    rank = np.empty(order.shape)
    np.put_along_axis(rank, order, np.arange(order.shape[1], dtype=np.float64)[np.newaxis], axis=1)
    return rank if len(rank) > 1 else np.repeat(rank, applications + 1, axis=0)
