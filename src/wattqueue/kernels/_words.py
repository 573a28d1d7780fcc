"""Instructions on words of 64 bits that numba has no name for; plain Python without a compiler."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_config: Any = numba.config  # its settings are made at run time, unseen by type checkers
BITS = 64


def _count_zeros(_: Any, word: Any) -> Any:  # noqa: ARG001 - numba asks for it by name
    def generate(__: Any, builder: Any, ___: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def _count_zeros_plainly(word: Any) -> int:
    return (int(word) & -int(word)).bit_length() - 1


def _compare(_: Any, column: Any, at: Any, least: Any) -> Any:  # noqa: ARG001 - numba asks for them by name
    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        many = ir.VectorType(word, BITS)
        array = context.make_array(column)(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), many.as_pointer())
        one = builder.insert_element(ir.Constant(many, ir.Undefined), arguments[2], ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), BITS), [0] * BITS)
        each = builder.shuffle_vector(one, ir.Constant(many, ir.Undefined), lanes)
        return builder.bitcast(builder.icmp_signed(">=", builder.load(place, align=8), each), word)

    return types.uint64(column, types.int64, types.int64), generate


def _compare_plainly(column: Any, at: int, least: int) -> Any:
    found = column.reshape(-1)[at : at + BITS] >= least
    return np.packbits(found, bitorder="little").view(np.uint64)[0]


trailing_zeros: Any = _count_zeros_plainly if _config.DISABLE_JIT else intrinsic(_count_zeros)
"""Zero bits below the lowest set bit of an unsigned 64-bit word that is not 0: one instruction."""

at_least: Any = _compare_plainly if _config.DISABLE_JIT else intrinsic(_compare)
"""Which of the 64 int64 numbers of ``column`` from element ``at`` on are at least ``least``: a bit each, the lowest
for the first. Rows of a column of several dimensions follow one another. A few instructions, where the processor
compares several numbers at once."""
