"""Named scalars that kernels change: ``view.now.available_uw -= net`` (docs/adr/0021).

A tuple of arrays cannot be changed, only the elements of its arrays. ``Scalars`` are such an array with a name for
each element: 64 bits a field, ``int`` (int64) or ``float`` (float64). Kernels see a record of numba, Python an object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

_KINDS = {"int": np.int64, "float": np.float64}


class _Named(type):
    """Makes a property of each field, and leaves no room for an attribute that is none."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _Named:
        """Make a class. Raises: KeyError for a field that is neither ``int`` nor ``float``."""
        if not bases:
            return super().__new__(cls, name, bases, body)
        kinds = {field: _KINDS[kind] for field, kind in body["__annotations__"].items()}
        fields = {
            field: _element("_ints" if kind is np.int64 else "_floats", place)
            for place, (field, kind) in enumerate(kinds.items())
        }
        own = {"__slots__": (), "layout": np.dtype(list(kinds.items())), **fields}
        return super().__new__(cls, name, bases, body | own)


class Scalars(metaclass=_Named):
    """Scalars with names in memory that kernels share; a subclass lists them with the annotation ``int`` or ``float``.

    Python reads numbers of Python, without numpy's scalars between: as fast as an element of an array.
    """

    __slots__ = ("_floats", "_ints", "data")
    layout: ClassVar[np.dtype[Any]]
    """The fields as numpy describes them."""

    def __init__(self, data: NDArray[np.int64] | None = None) -> None:
        """Make a record of zeros, or one in the memory of ``data``, a word for each field."""
        self.data = np.zeros(self.layout.itemsize // 8, np.int64) if data is None else data
        self._ints, self._floats = memoryview(self.data), memoryview(self.data.view(np.float64))  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[type[Self], tuple[NDArray[np.int64]]]:
        """Copy and pickle with memory of its own."""
        return type(self), (self.data,)

    def __repr__(self) -> str:
        """Return the fields with their values."""
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.layout.names or ())
        return f"{type(self).__name__}({values})"


def _element(memory: str, place: int) -> property:
    """Return a property that is one element of a record's memory. Written out as source: it is hot."""
    at = f"record.{memory}[{place}]"
    scope: dict[str, Callable[..., Any]] = {}
    exec(f"def read(record): return {at}\ndef write(record, value): {at} = value", scope)  # noqa: S102  our own text
    return property(scope["read"], scope["write"])
