"""The marks where the compiler is off: kernels are plain Python functions, and a tuple is passed as it is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from wattqueue.kernels._numba.words import at_least, at_most, least_of, trailing_zeros

__all__ = ["at_least", "at_most", "bind", "entry", "inlined", "kernel", "least_of", "separate", "trailing_zeros"]

T = TypeVar("T")
R = TypeVar("R")


def kernel(function: T) -> T:
    """Return the function itself, as do the other marks."""
    return function


inlined = entry = separate = kernel


def bind(call: Callable[..., R], *tuples: object) -> Callable[..., R]:
    """Return an entry kernel bound to its tuples: a function of the remaining arguments."""
    return functools.partial(call, *tuples)
