"""What becomes part of its callers is what says so: numba hands the option of a caller on to all that it calls."""

from __future__ import annotations

from typing import Any, cast

import pytest

from wattqueue.kernels._numba import inlined, kernel
from wattqueue.kernels.mode import UNDOCUMENTED

pytestmark = [pytest.mark.compiled, pytest.mark.skipif(not UNDOCUMENTED, reason="other modes leave it to LLVM")]


@kernel
def below(number: int) -> int:
    """Return the number of halvings that leave nothing."""
    count = 0
    while number > 0:
        number //= 2
        count += 1
    return count


@inlined
def above(number: int) -> int:
    """Return the same."""
    return below(number) + 0


def marks(function: object) -> list[bool]:
    """Whether each compiled form of a kernel is to be written out in its callers."""
    return [form.fndesc.inline for form in cast("Any", function).overloads.values()]


def test_a_kernel_below_an_inlined_one_stays_a_function() -> None:
    cast("Any", above).compile("int64(int64)")
    assert marks(above) == [True]
    assert marks(below) == [False]
