"""Instructions on several elements at once for which numba has no name, written in LLVM's language (docs/adr/0009).

``at_least``, ``at_most`` and ``least_of`` load a fixed number of neighbouring elements of a column as one vector and
compare or reduce it. They check no bounds, and read ``AT_LEAST_LANES`` or ``AT_MOST_LANES`` elements whatever the
caller needs: columns that are read so are padded by the functions that make them (``tree.new_tree``,
``plan.new_plan``), and ``check_padding`` looks at each view that is built. Callers mask the bits that lie beyond what
they asked for. ``words.py`` says the same in plain Python.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from wattqueue.kernels._numba.words import AT_LEAST_LANES, AT_MOST_LANES


def _side_by_side(context: Any, builder: Any, column: Any, arguments: Any, lanes: int) -> Any:
    """Generate a load of ``lanes`` elements of array ``arguments[0]``, from element ``arguments[1]`` on.

    The alignment is that of one element: groups begin at multiples of 16 elements of their level, not of memory.
    """
    array = context.make_array(column)(context, builder, arguments[0])
    many = ir.VectorType(context.get_value_type(column.dtype), lanes)
    place = builder.bitcast(builder.gep(array.data, [arguments[1]]), many.as_pointer())
    return builder.load(place, align=context.get_abi_alignment(many.element))


def _comparing(sign: str, lanes: int) -> Any:
    """Return an intrinsic that compares ``lanes`` elements of a column with one number.

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

    return intrinsic(compare)


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


at_least: Any = _comparing(">=", AT_LEAST_LANES)
at_most: Any = _comparing("<=", AT_MOST_LANES)
least_of: Any = intrinsic(_least)
