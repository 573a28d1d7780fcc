"""Compile inner kernels to LLVM code only, for the entries that call them (docs/adr/0006).

By itself numba optimizes each function together with everything that it calls, and makes machine code of it,
whether or not Python ever calls it. Of some 170 kernels that call one another, most would be compiled dozens of times.
Here an inner kernel stays in LLVM's intermediate language until an entry is optimized as a whole; the entry links it.

The classes override methods of numba that are not documented (docs/adr/0009).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

_RETURNED = 2
"""Arguments of a compiled function, before its own, through which it returns its result and its error."""


class _UnoptimizedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that waits to be linked into the library of an entry. It is neither optimized nor loaded."""

    def add_ir_module(self, module: Any) -> None:
        """Add a kernel's code, marked: the struct of a tuple that it gets by reference never changes during its call.

        LLVM sees that by itself only where the kernel becomes part of its entry. Elsewhere it would read the addresses
        of arrays again after each store into one of them, in every loop.
        """
        for function in module.functions:
            for argument in function.args[_RETURNED:]:
                kind = argument.type
                if isinstance(kind, ir.PointerType) and isinstance(kind.pointee, ir.LiteralStructType):
                    argument.add_attribute("noalias")
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


class InnerCompiler(Compiler):  # type: ignore[misc]
    """The compiler pipeline of numba, writing into an ``_UnoptimizedLibrary``."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        """Take the library that is handed in (an entry's), or make one that stays unoptimized."""
        super().__init__(typing, target, library or _UnoptimizedLibrary(target.codegen(), "inner"), *rest)
