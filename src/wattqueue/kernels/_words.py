"""Instructions on several elements or bits at once for which numba has no name (docs/adr/0009).

``at_least``, ``at_most`` and ``least_of`` load a fixed number of neighbouring elements of a column as one vector and
compare or reduce it. They check no bounds, and read ``AT_LEAST_LANES`` or ``AT_MOST_LANES`` elements whatever the
caller needs: columns that are read so are made by ``kernels/allocate.py``, which pads them, and which checks the
padding of each view that is built. Callers mask the bits that lie beyond what they asked for.

Each intrinsic has an equivalent in plain Python, used with ``NUMBA_DISABLE_JIT=1``. The plain versions raise
IndexError where the compiled ones would read past the end, so that the run of the test suite without the compiler
also tests the padding.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_config: Any = numba.config  # its settings are made at run time, unseen by type checkers

AT_LEAST_LANES = 64
"""Elements that ``at_least`` reads from its place on."""

AT_MOST_LANES = 16
"""Elements that ``at_most`` and ``least_of`` read from their place on."""


def _count_zeros(_: Any, word: Any) -> Any:  # noqa: ARG001 - numba asks for it by name
    """Type and code of ``trailing_zeros``: the instruction ``cttz``, undefined for 0."""

    def generate(__: Any, builder: Any, ___: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def _count_zeros_plainly(word: Any) -> int:
    """``trailing_zeros`` in plain Python."""
    return (int(word) & -int(word)).bit_length() - 1


def _side_by_side(context: Any, builder: Any, column: Any, arguments: Any, lanes: int) -> Any:
    """Generate a load of ``lanes`` elements of array ``arguments[0]``, from element ``arguments[1]`` on.

    The alignment is that of one element: groups begin at multiples of 16 elements of their level, not of memory.
    """
    array = context.make_array(column)(context, builder, arguments[0])
    many = ir.VectorType(context.get_value_type(column.dtype), lanes)
    place = builder.bitcast(builder.gep(array.data, [arguments[1]]), many.as_pointer())
    return builder.load(place, align=context.get_abi_alignment(many.element))


def _comparing(sign: str, lanes: int) -> tuple[Any, Any]:
    """Return an intrinsic that compares ``lanes`` elements of a column with one number, and the same in plain Python.

    The result has one bit for each element, the lowest for the first, in an unsigned word of 64 bits. Comparisons of
    floats are *ordered*: NaN compares false.
    """

    def compare(_: Any, column: Any, at: Any, number: Any) -> Any:  # noqa: ARG001 - numba asks for them by name
        def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            found = _side_by_side(context, builder, column, arguments, lanes)
            many = found.type
            unknown, first = ir.Constant(many, ir.Undefined), ir.Constant(ir.IntType(32), 0)
            one = builder.insert_element(unknown, arguments[2], first)
            each = builder.shuffle_vector(one, unknown, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))
            ask = builder.fcmp_ordered if isinstance(column.dtype, types.Float) else builder.icmp_signed
            bits = builder.bitcast(ask(sign, found, each), ir.IntType(lanes))
            return bits if lanes == 64 else builder.zext(bits, ir.IntType(64))

        return types.uint64(column, types.int64, column.dtype), generate

    def compare_plainly(column: Any, at: int, number: Any) -> Any:
        part = _elements(column, at, lanes)
        found = part >= number if sign == ">=" else part <= number
        return np.uint64(np.packbits(found, bitorder="little").view(f"u{lanes // 8}")[0])

    return compare, compare_plainly


def _elements(column: Any, at: int, lanes: int) -> Any:
    """The elements that the compiled instruction would read. Raises: IndexError where it would leave the array."""
    part = column.reshape(-1)[at : at + lanes] if at >= 0 else column[:0]
    if len(part) != lanes:
        raise IndexError(f"elements {at} to {at + lanes - 1} of {column.size} are read: see kernels/allocate.py")
    return part


def _least(_: Any, column: Any, at: Any) -> Any:  # noqa: ARG001 - numba asks for them by name
    """Type and code of ``least_of``: LLVM's vector reduction for the element type; no element is NaN."""

    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        found = _side_by_side(context, builder, column, arguments, AT_MOST_LANES)
        many = found.type
        kind = ("fmin.v16f" if isinstance(column.dtype, types.Float) else "smin.v16i") + str(column.dtype.bitwidth)
        reduce_ = ir.FunctionType(many.element, [many])
        function = cgutils.get_or_insert_function(builder.module, reduce_, f"llvm.vector.reduce.{kind}")
        return builder.call(function, [found], fastmath=("nnan",) if kind.startswith("f") else ())

    return column.dtype(column, types.int64), generate


def _least_plainly(column: Any, at: int) -> Any:
    """``least_of`` in plain Python."""
    return _elements(column, at, AT_MOST_LANES).min()


def _compiled(pair: tuple[Any, Any]) -> Any:
    """Return the intrinsic of a pair, or its plain version where the compiler is off."""
    return pair[1] if _config.DISABLE_JIT else intrinsic(pair[0])


trailing_zeros: Any = _compiled((_count_zeros, _count_zeros_plainly))
"""Zero bits below the lowest set bit of an unsigned 64-bit word that is not 0: one instruction."""

at_least: Any = _compiled(_comparing(">=", AT_LEAST_LANES))
"""Which of the 64 numbers of ``column`` from element ``at`` on are at least ``number``: a bit each, the lowest for
the first. Rows of a column of several dimensions follow one another. Processors that compare several numbers at
once take a few instructions for it."""

at_most: Any = _compiled(_comparing("<=", AT_MOST_LANES))
"""The same of 16 numbers that are at most ``number``."""

least_of: Any = _compiled((_least, _least_plainly))
"""The least of the 16 numbers of ``column`` from element ``at`` on; none of them is NaN."""
