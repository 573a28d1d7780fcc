"""How inner kernels are compiled: not to machine code, but to be taken in by the kernels that Python calls.

By itself numba optimizes each function, with all that it calls, and makes machine code of it, whether or not
anybody calls it from Python: of some 130 kernels that call one another, most are then compiled dozens of
times over. Here an inner kernel stays in LLVM's language until an entry is optimized as a whole (docs/adr/0008).
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _Shelved(JITCodeLibrary):  # type: ignore[misc]
    """Code that waits to be linked into an entry's; it is neither optimized nor loaded."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # numba's word for: no such symbol here

    @property
    def codegen(self) -> Any:
        """Itself, since its functions need no environment: they never go back to Python."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        pass


class InnerCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, with a shelf for what it makes."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, library or _Shelved(target.codegen(), "inner"), *rest)
