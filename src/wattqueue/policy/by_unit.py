"""Turn factors of units that differ into the tables that kernels work on (rule 12 of docs/semantics.md).

``Prediction.unit_factor`` has a row for each application that the job table names, and a column for each unit of the
machine. Kernels get one row more, of ones: that of jobs whose application has no factors.
"""

from __future__ import annotations

from dataclasses import replace

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
    factor = prediction.unit_factor
    if factor is None:
        return
    expected = (len(app.names), machine.units)
    if factor.shape != expected:
        raise PolicyError(
            f"unit_factor has shape {factor.shape}, expected {expected}",
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
    power = prediction.power_w[np.isfinite(prediction.power_w)].max(initial=0.0)
    if not np.fmax.reduce(factor, axis=None, initial=0.0) * power <= bounds.UNIT_W.high:
        raise PolicyError(f"factors give a unit more than {bounds.UNIT_W.text}", hint=bounds.UNIT_W.reason)


def unprofiled(factor: Floats) -> NDArray[np.bool_]:
    """Return which applications have no factors. Shape (A,)."""
    found: NDArray[np.bool_] = np.logical_and.reduce(np.isnan(factor), axis=1)
    return found


def without_factors(app: Labels, prediction: Prediction) -> NDArray[np.bool_]:
    """Return which jobs name no application, or one without factors. Shape (n,); none where units are equal."""
    if prediction.unit_factor is None:
        return np.zeros(len(app), np.bool_)
    known = np.append(~unprofiled(prediction.unit_factor), False)
    return ~known[app.codes]


def with_worst_case(app: Labels, machine: Machine, prediction: Prediction) -> Prediction:
    """Return the prediction in which jobs without factors draw the stated maximum of a unit, whatever their units.

    Raises: PolicyError where the machine states no maximum.
    """
    unknown = without_factors(app, prediction)
    if not unknown.any():
        return prediction
    most = Scale.of(machine).by_option(np.full(1, np.nan))[0]
    if np.isnan(most).any():
        raise PolicyError(
            f"{int(unknown.sum())} jobs have an application without factors, and a unit's maximum is not known",
            where=machine.name,
            hint="give max_w in the machine file, or factors for every application",
        )
    own = prediction.take(np.arange(len(app), dtype=np.int32))
    power = own.power_w if len(own.power_w) == len(app) else np.repeat(own.power_w, len(app), axis=0)
    return replace(own, power_w=np.where(unknown[:, np.newaxis], most, power))


def unit_factors(app: Labels, prediction: Prediction) -> state.UnitFactors:
    """Return the factors of a prediction as kernels take them; empty where units are equal."""
    if prediction.unit_factor is None:
        return equal_units()
    table = np.ones((len(app.names) + 1, prediction.unit_factor.shape[1]))
    table[:-1] = np.where(np.isnan(prediction.unit_factor), 1.0, prediction.unit_factor)
    return state.UnitFactors(application_rows(app), table)


def equal_units() -> state.UnitFactors:
    """Return the factors of a machine whose units are equal: none."""
    return state.UnitFactors(np.empty(0, np.int32), np.empty((0, 0)))


def application_rows(app: Labels) -> NDArray[np.int32]:
    """Return the row of each job in tables by application; the last one for jobs without one. Shape (n,)."""
    return kernel_array(np.where(app.codes < 0, len(app.names), app.codes), np.int32)
