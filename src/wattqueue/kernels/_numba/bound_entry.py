"""An entry kernel with its tuples prepared, for callers that call it again and again with the same ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self


class BoundEntry(functools.partial[Any]):
    """The machine code of an entry kernel with the words of its tuples: called with the remaining numbers.

    A copy is bound to copies of the tuples: words are addresses, and would lead to the arrays of the original.
    """

    entry: Callable[..., Any]
    tuples: tuple[Any, ...]

    @classmethod
    def to(cls, point: Callable[..., Any], words: list[Any], entry: Callable[..., Any], *tuples: Any) -> Self:
        """Bind machine code to the words of ``tuples``, which are kept alive with them."""
        bound = cls(point, *words)
        bound.entry, bound.tuples = entry, tuples
        return bound

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as the entry kernel and the tuples."""
        from wattqueue.kernels._numba import bind

        return bind, (self.entry, *self.tuples)
