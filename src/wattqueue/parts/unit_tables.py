"""Tables of watts by application and unit, as the units of a machine: shared by estimators and placements (paper 2)."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats

if TYPE_CHECKING:
    from wattqueue.model.unit_table import UnitTable

By = Literal["watts", "time"]
"""By what a placement ranks units."""
_NUMBER = re.compile(r"([0-9]+)$")


def checked_by(value: Any) -> By:
    """Return by what a placement ranks. Raises: PolicyError for anything else."""
    if value not in get_args(By):
        raise PolicyError(f"is {value!r}", where="by", hint=f"use {' or '.join(get_args(By))}")
    found: By = value
    return found


def factors_on(table: UnitTable, machine: Machine, column: Floats | None = None) -> Floats:
    """Return the factors on the units of a machine, by their numbers. Shape (applications of the table, U).

    ``column`` is another one of the table: ``time_factor``.

    Units of a table are named by number (``17``, ``socket17``), counted over the whole machine from 0.

    Raises: PolicyError for a name without a number, two units of one number, and a unit that the table lacks.
    """
    found = {number: place for place, number in enumerate(unit_numbers(table).values())}
    lacking = next((unit for unit in range(machine.units) if unit not in found), None)
    if lacking is not None:
        raise PolicyError(
            f"unit {lacking} of {machine.units} is missing", where="unit factors", hint="measure it, or leave it out"
        )
    factor = table.factor if column is None else column
    return factor[:, [found[unit] for unit in range(machine.units)]]


def unit_numbers(table: UnitTable) -> dict[str, int]:
    """Return the number of each unit of a table by its name, in their order.

    Raises: PolicyError for a name without a number, and two units of one number.
    """
    found: dict[str, int] = {}
    seen = set[int]()
    for name in table.units:
        number = _NUMBER.search(name)
        if number is None or int(number[0]) in seen:
            raise PolicyError(
                f"unit {name!r} has no number of its own", where="unit factors", hint="name units 0, 1, ... or socket0"
            )
        found[name] = int(number[0])
        seen.add(found[name])
    return found


def relative_factors(table: UnitTable, column: Floats, apps: tuple[str, ...], machine: Machine) -> Floats:
    """Return a column of a table for some applications, of mean 1 on each partition. Shape (A, U).

    Rows of applications that the table lacks are NaN. Raises: PolicyError as ``factors_on``, and for an application
    that was measured on a part of the units.
    """
    row = rows_of(table, apps)
    factor = np.full((len(apps), machine.units), np.nan)
    factor[row >= 0] = factors_on(table, machine, column)[row[row >= 0]]
    gap = np.argwhere(np.isnan(factor) & (row >= 0)[:, np.newaxis])
    if len(gap):
        raise PolicyError(
            f"application {apps[gap[0][0]]} has no figure on unit {gap[0][1]}",
            where="unit factors",
            hint=f"measure it on all {machine.units} units, or leave it out",
        )
    to_mean_one(factor, machine)
    return factor


def to_mean_one(factor: Floats, machine: Machine) -> None:
    """Divide factors (A, U) by their mean over the units of each partition, in place."""
    for first, end in pairwise(machine.unit_start.tolist()):
        factor[:, first:end] /= factor[:, first:end].mean(axis=1, keepdims=True)


def greatest_factors(factor: Floats, machine: Machine) -> Floats:
    """Return the greatest factor of a unit in the partition of each option. Shapes (A, U), (A, O)."""
    return np.maximum.reduceat(factor, machine.unit_start[:-1], axis=1)[:, machine.option_partition]


def rows_of(table: UnitTable | None, names: tuple[str, ...]) -> NDArray[np.intp]:
    """Return the row of each application in a table, -1 for those that it lacks. Shape (names,)."""
    at = {} if table is None else {name: k for k, name in enumerate(table.apps)}
    return np.array([at.get(name, -1) for name in names], np.intp)
