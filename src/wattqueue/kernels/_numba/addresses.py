"""Named tuples of arrays as one small array of addresses, for calls of entry kernels.

numba's dispatcher looks at the type of every array in every nested tuple before each call, and unpacks all of them:
some 10 µs for a ``KernelView``, more than most kernels take. In fast mode an entry kernel gets one array of words
instead, made once for each tuple: the address and the shape of every array in it, tuples within the tuple in place.
``references.py`` reads this as a C struct.

The element type of that array is a numpy record whose only field is named after the layout of the tuple (class, types
and dimensions of its arrays). So numba compiles once for each layout, finds cached code by it, and refuses a tuple of
another layout, as it would with the tuple itself.

What callers must respect: an array that moves in memory (``numpy.ndarray.resize``) needs a new tuple, made with
``_replace``; addresses are taken at a tuple's first call. The tuple keeps its arrays alive during the call.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import EngineError
from wattqueue.kernels._numba.scalars import Scalars

T = TypeVar("T")
Layout = tuple[Any, ...]
"""(class, members): a member is the layout of a tuple, or (dtype, dimensions) of an array, or ``(type,)``: a number
or a record."""

LAYOUTS: dict[str, Layout] = {}
"""Layouts of this process, by the name of the record's field."""
_RECORDS: dict[tuple[Any, ...], np.dtype[Any]] = {}
"""Element types, by the class of a tuple and the kinds of its members."""


class Referenced:
    """A named tuple that entry kernels pass on by reference."""

    @cached_property
    def addresses(self) -> NDArray[Any]:
        """Return the tuple as words, one record. Shape (1,)."""
        return addresses_of(self)

    @cached_property
    def address(self) -> int:
        """Return where the words are in memory."""
        return int(self.addresses.ctypes.data)

    @cached_property
    def layout_name(self) -> str:
        """Return the name of the tuple's layout."""
        return str(self.addresses.dtype.names[0])  # type: ignore[index]

    def __getstate__(self) -> None:
        """Leave the addresses out of copies and pickles: their arrays are elsewhere."""


def referenced(named: type[T]) -> type[T]:
    """Mark a named tuple that entry kernels pass on by reference."""
    own = {"__module__": named.__module__, "__doc__": named.__doc__, "__qualname__": named.__qualname__}
    return type(named.__name__, (named, Referenced), own)


def addresses_of(value: Any) -> NDArray[Any]:
    """Return a named tuple as one record of 64-bit words. Shape (1,).

    An array may be read-only, as columns are that polars or a mapped file holds: kernels write only into arrays that
    were made for them, never into a table that they were given.

    Raises: EngineError for an array that is not contiguous: a kernel would compute wrong addresses.
    """
    words: list[int] = []
    kinds = [
        _append(member, type(value).__name__, name, words) for name, member in zip(value._fields, value, strict=True)
    ]
    key = (type(value), *kinds)
    record = _RECORDS.get(key)
    if record is None:
        layout = type(value), tuple(map(_layout, kinds))
        name = name_of(layout)
        LAYOUTS[name] = layout
        record = _RECORDS[key] = np.dtype([(name, np.int64, (len(words),))])
    return np.array(words, np.int64).view(record)


def _append(value: Any, named: str, member: str, words: list[int]) -> Any:
    """Append the words of a member of a tuple; return its kind.

    (dtype, dimensions) of an array, the record of a tuple, or the type of a number or ``Scalars``. A tuple within the
    tuple has its words already, if it stood in another one before: a buffer that is replaced costs little.
    """
    if isinstance(value, Scalars):
        words.append(value.data.__array_interface__["data"][0])
        return type(value)
    if isinstance(value, np.ndarray):
        flags = value.flags
        if not (flags.c_contiguous and flags.aligned):
            where = f"{named}.{member}"
            raise EngineError("an array of a kernel is not contiguous", where=where, hint="copy it (kernel_array)")
        words.append(value.__array_interface__["data"][0])
        words += value.shape
        return value.dtype, value.ndim
    if isinstance(value, tuple):
        inner = value.addresses if isinstance(value, Referenced) else addresses_of(value)
        words += inner.view(np.int64).tolist()
        return inner.dtype
    if isinstance(value, float):
        words.append(int(np.float64(value).view(np.int64)))
        return float
    words.append(int(value))
    return int


def _layout(kind: Any) -> Layout:
    """Return the layout of a member from its kind (``_append``)."""
    if isinstance(kind, tuple):
        return kind[0].str, kind[1]
    return (kind,) if isinstance(kind, type) else LAYOUTS[kind.names[0]]


def name_of(layout: Layout) -> str:
    """Return the name of the layout of a tuple: its class, and a hash of all its types; the same in every process."""
    return f"{layout[0].__name__}_{hashlib.sha256(_text(layout).encode()).hexdigest()[:12]}"


def _text(layout: Layout) -> str:
    """Return a layout as text."""
    if not isinstance(layout[0], type):
        return f"{layout[0]}{layout[1]}"
    if len(layout) > 1:
        return f"{layout[0].__name__}({', '.join(map(_text, layout[1]))})"
    return str(layout[0].layout.descr) if issubclass(layout[0], Scalars) else layout[0].__name__
