"""Columns that kernels take: contiguous and writable arrays, some of which are lengthened while a run goes on."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels.state import Held, Log, ReservationPlan

Part = TypeVar("Part", Held, Log, ReservationPlan)


def kernel_array(column: NDArray[Any], dtype: type[Any]) -> NDArray[Any]:
    """Return ``column`` contiguous and writable, copied only if needed: numba compiles again for a read-only array."""
    return np.require(column, dtype, ["C", "W"])


def microwatts_of(cap_w: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return limits as int64 microwatts. Shape as given.

    No cap (infinity) becomes ``NO_CAP``, which no machine reaches; so does any cap beyond it.
    """
    high = cap_w * codes.MICRO >= codes.NO_CAP
    return np.where(high, codes.NO_CAP, np.rint(np.where(high, 0.0, cap_w) * codes.MICRO)).astype(np.int64)


def lengthened(part: Part, rows: int, *columns: str, in_place: bool = True) -> Part:
    """Return a tuple of which the named columns have ``rows`` more, in place: do not use the former tuple any more.

    The operating system moves the pages of a large column; a copy would touch as much memory again. The tuple is a new
    one because its arrays have moved (``_numba/addresses.py``). Not ``in_place``: the former columns stay where they
    are, for whoever was shown their memory.
    """
    if not in_place:
        former = {name: getattr(part, name) for name in columns}
        return part._replace(**{k: np.concatenate((c, np.zeros(rows, c.dtype))) for k, c in former.items()})
    for name in columns:
        column = getattr(part, name)
        column.resize(len(column) + rows, refcheck=False)
    return part._replace()
