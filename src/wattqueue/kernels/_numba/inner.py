"""Compile inner kernels to LLVM code only, for the entries that call them (docs/adr/0006).

By itself numba optimizes each function together with everything that it calls, and makes machine code of it,
whether or not Python ever calls it. Of some 170 kernels that call one another, most would be compiled dozens of times.
Here an inner kernel stays in LLVM's intermediate language until an entry is optimized as a whole; the entry links it.

The classes override methods of numba that are not documented (docs/adr/0009).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir.instructions import ICMPInstr, Instruction, SelectInstr
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

_RETURNED = 2
"""Arguments of a compiled function, before its own, through which it returns its result and its error."""


class _UnoptimizedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that waits to be linked into the library of an entry. It is neither optimized nor loaded."""

    def add_ir_module(self, module: Any) -> None:
        """Add a kernel's code, with two things that LLVM does not see by itself.

        The struct of a tuple that a kernel gets by reference never changes during its call: else the addresses of
        arrays would be read again after each store into one of them, in every loop. And no index is negative: numba
        writes a test and an addition for each, though kernels never count from the end of an array (checked mode finds
        one that does).
        """
        for function in module.functions:
            for argument in function.args[_RETURNED:]:
                kind = argument.type
                if isinstance(kind, ir.PointerType) and isinstance(kind.pointee, ir.LiteralStructType):
                    argument.add_attribute("noalias")
            for block in function.blocks:
                for instruction in block.instructions:
                    if _counts_from_end(instruction):
                        never = ir.Constant(ir.IntType(1), 0)
                        instruction.replace_usage(instruction.operands[0], never)
        super().add_ir_module(module)

    def _optimize_final_module(self) -> None:
        """Do nothing: the entry that links this code optimizes it with its own."""

    def _finalize_final_module(self) -> None:
        """Mark the library as complete without handing it to the machine-code engine."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, by which numba means that the library holds no such loaded symbol."""
        self._ensure_finalized()
        return 0  # numba's word for: no such symbol here

    @property
    def codegen(self) -> Any:
        """Itself, since its functions need no environment: they never go back to Python."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        pass


def _counts_from_end(instruction: Any) -> bool:
    """Return whether an instruction is what numba writes for each index: ``i + length if i < 0 else i``."""
    if not isinstance(instruction, SelectInstr):
        return False
    negative, wrapped, index = instruction.operands
    return (
        isinstance(negative, ICMPInstr)
        and negative.op == "slt"
        and negative.operands[0] is index
        and isinstance(wrapped, Instruction)
        and wrapped.opname == "add"
        and wrapped.operands[0] is index
    )


class InnerCompiler(Compiler):  # type: ignore[misc]
    """The compiler pipeline of numba, writing into an ``_UnoptimizedLibrary``."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        """Take the library that is handed in (an entry's), or make one that stays unoptimized."""
        super().__init__(typing, target, library or _UnoptimizedLibrary(target.codegen(), "inner"), *rest)
