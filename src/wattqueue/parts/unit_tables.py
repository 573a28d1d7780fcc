"""Tables of watts by application and unit, as the units of a machine: shared by estimators and placements (paper 2)."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.machine import Machine
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Floats

_NUMBER = re.compile(r"([0-9]+)$")


def factors_on(table: UnitTable, machine: Machine) -> Floats:
    """Return the factors on the units of a machine, by their numbers. Shape (applications of the table, U).

    Units of a table are named by number (``17``, ``socket17``), counted over the whole machine from 0.

    Raises: PolicyError for a name without a number, two units of one number, and a unit that the table lacks.
    """
    found: dict[int, int] = {}
    for column, name in enumerate(table.units):
        number = _NUMBER.search(name)
        if number is None or int(number[0]) in found:
            raise PolicyError(
                f"unit {name!r} has no number of its own", where="unit factors", hint="name units 0, 1, ... or socket0"
            )
        found[int(number[0])] = column
    lacking = next((unit for unit in range(machine.units) if unit not in found), None)
    if lacking is not None:
        raise PolicyError(
            f"unit {lacking} of {machine.units} is missing", where="unit factors", hint="measure it, or leave it out"
        )
    return table.factor[:, [found[unit] for unit in range(machine.units)]]


def rows_of(table: UnitTable | None, names: tuple[str, ...]) -> NDArray[np.intp]:
    """Return the row of each application in a table, -1 for those that it lacks. Shape (names,)."""
    at = {} if table is None else {name: k for k, name in enumerate(table.apps)}
    return np.array([at.get(name, -1) for name in names], np.intp)
