"""The marks in documented numba: no private options, no extension of its types, no generated instructions.

Every kernel is a function of its own, with reference counting, and named tuples are passed by value. The results are
those of ``fast.py`` to the last bit; the run of the benchmarks' digests in this mode holds that
(tests/kernels/test_plain_mode.py). Compiling takes minutes, and runs many times as long.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba import from_dtype, njit
from numba.extending import typeof_impl

from wattqueue.kernels._numba import words
from wattqueue.kernels._numba.scalars import Scalars
from wattqueue.kernels.cache import CACHE_DIR

__all__ = ["at_least", "at_most", "bind", "entry", "inlined", "kernel", "least_of", "separate", "trailing_zeros"]

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def kernel(function: F) -> F:
    """Mark an inner kernel."""
    return cast("F", njit(error_model="numpy")(function))


inlined = separate = kernel


def entry(function: F) -> F:
    """Mark a kernel that Python calls, or let Python call an inner kernel.

    It releases the interpreter's lock; its machine code is cached on disk.
    """
    called: Any = function
    own = called if isinstance(called, FunctionType) else called.py_func
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_DIR)  # the setting of NUMBA_CACHE_DIR; other users of numba keep theirs
    try:
        return cast("F", njit(error_model="numpy", nogil=True, cache=True)(own))
    finally:
        config.CACHE_DIR = before


@typeof_impl.register(Scalars)  # type: ignore[untyped-decorator]
def _typeof_record(value: Scalars, _: Any) -> Any:
    """Return numba's type of a record. It finds the memory as it does for a record of numpy: the attribute ``data``."""
    return from_dtype(value.layout)


trailing_zeros = kernel(words.trailing_zeros)
at_least = kernel(words.at_least)
at_most = kernel(words.at_most)
least_of = kernel(words.least_of)


def bind(call: Callable[..., R], *tuples: object) -> Callable[..., R]:
    """Return an entry kernel bound to its tuples: a function of the remaining arguments."""
    return functools.partial(call, *tuples)
