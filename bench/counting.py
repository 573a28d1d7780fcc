"""Small kernels over nested tuples of arrays, as the engine's are, with and without reference counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

ROWS = 1_000
Mark = Callable[[Callable[..., Any]], Callable[..., Any]]


class Inner(NamedTuple):
    """Five columns."""

    a: Any
    b: Any
    c: Any
    d: Any
    e: Any


class Outer(NamedTuple):
    """Tuples in a tuple, as in the kernels' View."""

    first: Inner
    second: Inner
    third: Inner
    total: Any


def tables() -> Outer:
    """Columns 0, 1, 2 ... of int64."""
    first, second, third = (Inner(*(np.arange(ROWS) + k + i for k in range(5))) for i in range(3))
    return Outer(first, second, third, np.zeros(1, np.int64))


def build(*, counting: bool) -> Callable[..., int]:
    """The kernels, compiled for this process."""
    njit: Any = numba.njit  # its private flag is unknown to type checkers
    mark: Mark = njit(_nrt=counting, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    driven: Mark = njit(_nrt=counting)

    @mark
    def leaf(inner: Inner, i: int) -> int:
        return int(inner.a[i] + inner.b[i] - inner.c[i] + inner.d[i] - inner.e[i])

    @mark
    def row(outer: Outer, i: int) -> int:
        which = i % 3
        if which == 0:
            return int(leaf(outer.first, i))
        if which == 1:
            return int(leaf(outer.second, i))
        return int(leaf(outer.third, i))

    @mark
    def step(outer: Outer, i: int) -> None:
        outer.total[0] += row(outer, i % ROWS)

    @driven
    def drive(outer: Outer, rounds: int) -> int:
        outer.total[0] = 0
        for i in range(rounds):
            step(outer, i)
        return int(outer.total[0])

    kernel: Callable[..., int] = drive
    return kernel
