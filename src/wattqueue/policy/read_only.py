"""Arrays as parts see them: the driver's own memory, which cannot be written to.

numpy lets whoever holds a view of a writable array make the view writable again; an array over a read-only buffer
stays read-only. What nothing can prevent in one process: the way from the buffer back to its owner (``.base.obj``), or
through ``gc`` and ``ctypes``.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels.state import Scalars

T = TypeVar("T", bound=tuple[Any, ...])


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array on the same memory whose elements cannot be set, nor the array made writable."""
    return np.asarray(array.data.toreadonly())


def read_only_tuple(value: T) -> T:
    """Return a named tuple of the same class with all its arrays and records read-only, in tuples within it, too."""
    return type(value)._make(map(_member, value))  # type: ignore[attr-defined,no-any-return]


def _member(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return read_only(value)
    if isinstance(value, Scalars):
        return type(value)(read_only(value.data))
    return read_only_tuple(value) if isinstance(value, tuple) else value
