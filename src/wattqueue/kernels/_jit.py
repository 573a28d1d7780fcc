"""Compile kernels: the only place where numba's ``njit`` is called.

Four decorators mark what a function is for:

============  =======================================================================================
``kernel``    an inner kernel, called by kernels only; a function of its own in the machine code
``inlined``   an inner kernel that becomes part of each caller, as those on the path of every job (docs/adr/0002)
``entry``     a kernel that Python calls
``direct``    an entry that Python calls often, always with the same types
============  =======================================================================================

Entries hand their named tuples to inner kernels with ``by_reference``, as one pointer each (docs/adr/0006). Kernels
do not allocate: they get every array from outside (``kernels/allocate.py``), so that reference counting can be
switched off. With it, nested named tuples of arrays cost 13-18 times the run time (docs/adr/0001).

Only entries become machine code, and only they are cached on disk (``kernels/cache.py``).

With ``NUMBA_DISABLE_JIT=1`` all four decorators return the plain Python function. The test suite runs in both ways.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
from numba import njit
from numba.core.caching import FunctionCache

from wattqueue.kernels._by_reference import by_reference
from wattqueue.kernels._inner import InnerCompiler
from wattqueue.kernels._words import at_least, at_most, least_of, trailing_zeros
from wattqueue.kernels.cache import CACHE_DIR

__all__ = [
    "as_int64",
    "at_least",
    "at_most",
    "by_reference",
    "direct",
    "entry",
    "inlined",
    "kernel",
    "least_of",
    "trailing_zeros",
]

_config: Any = numba.config  # its settings are made at run time, unseen by type checkers
F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": InnerCompiler}
_ENTRY: dict[str, Any] = {"no_cfunc_wrapper": True, "nogil": True}


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache of machine code, without loading all that numba knows to compile, before a look into it:
    that takes a third of a second, of which a run with warm caches has no use."""

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Load compiled code from the cache, and nothing else."""
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, target)

    def save_overload(self, signature: Any, data: Any) -> None:
        """Save compiled code; a full or read-only disk costs a compilation in the next run, not this run."""
        with suppress(OSError):
            super().save_overload(signature, data)


def _compile(function: Callable[..., Any], **more: Any) -> Any:
    """Compile ``function`` with the options that all kernels share."""
    return njit(**_OPTIONS, **more)(function)


def kernel(function: F) -> F:
    """Mark an inner kernel: a function that only kernels call."""
    return cast("F", _compile(function, **_INNER))


def inlined(function: F) -> F:
    """Mark an inner kernel that becomes part of its callers: one on the path of every job (docs/adr/0002)."""
    return cast("F", _compile(function, **_INNER, forceinline=True))


def entry(function: F) -> F:
    """Mark a kernel that Python calls.

    It releases the interpreter's lock, so that simulations can run in threads. Its machine code is cached on disk.
    """
    compiled = _compile(function, **_ENTRY)
    if not _config.DISABLE_JIT:
        before = _config.CACHE_DIR
        _config.CACHE_DIR = str(CACHE_DIR)  # read here, once; other users of numba keep theirs
        try:
            compiled._cache = _Cache(function)  # noqa: SLF001  what njit(cache=True) does
        finally:
            _config.CACHE_DIR = before
    return cast("F", compiled)


def direct(function: F) -> F:
    """Mark an entry whose argument types never change, and call it past numba's dispatcher.

    The dispatcher inspects the type of every array in every nested tuple before each call: some 8 µs for a
    ``KernelView``, of which the call itself takes half a microsecond. The first call goes through the dispatcher, and
    compiles or loads the code; the next ones go straight to the function that it found.

    The price: from the second call on, nothing checks types. The arrays of every call must have the element types and
    the layout of the first one, as those of ``kernels/allocate.py`` have, and numbers their kind (an int where there
    was an int). A violation is not reported; memory is then read wrongly.
    """
    compiled: Any = entry(function)
    if _config.DISABLE_JIT:
        return cast("F", compiled)
    point: Any = None

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal point
        if point is not None:
            return point(*arguments)
        result = compiled(*arguments)
        # The C function that the dispatcher would call; it takes Python objects and unpacks them itself.
        point = next(iter(compiled.overloads.values())).entry_point
        return result

    call.dispatcher = compiled  # type: ignore[attr-defined]
    return cast("F", call)


@inlined
def as_int64(number: int) -> int:
    """Return ``number`` as int64.

    Ids stand in arrays as int16 or int32. Passed on as they are, they would make numba compile every kernel below once
    for each width.
    """
    return number + 0
