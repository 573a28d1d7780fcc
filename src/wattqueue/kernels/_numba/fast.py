"""The marks with every undocumented point of numba that makes kernels fast (docs/adr/0009 lists them).

* No reference counting: kernels get every array from outside. With it, nested named tuples of arrays cost 13-18 times
  the run time (docs/adr/0001).
* Tuples are one pointer, between kernels and from Python (``references.py``, ``addresses.py``).
* Inner kernels become machine code only within the entries that call them (``inner.py``).
* The cache on disk is looked into before numba loads its compiler.
* Comparisons of several elements are one instruction (``intrinsics.py``).

In checked mode an index outside its array raises IndexError, instead of reading or writing what lies there. The
instructions of the last point look at no array's length: their twins in ``words.py`` stand for them there.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeVar, cast

import numba
from numba import njit, types
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import typeof_impl

from wattqueue.kernels._numba import intrinsics, words
from wattqueue.kernels._numba.addresses import Referenced
from wattqueue.kernels._numba.inner import InnerCompiler
from wattqueue.kernels._numba.kept import cause_of
from wattqueue.kernels._numba.references import by_reference
from wattqueue.kernels._numba.slots import Slot, called_by_slot
from wattqueue.kernels.cache import CACHE_DIR
from wattqueue.kernels.mode import MODE

__all__ = ["at_least", "at_most", "bind", "entry", "inlined", "kernel", "least_of", "separate", "trailing_zeros"]

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
_CHECKS = MODE == "checked"
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy", "boundscheck": _CHECKS}
_ALONE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {**_ALONE, "pipeline_class": InnerCompiler}
_ENTRY: dict[str, Any] = {"no_cfunc_wrapper": True, "nogil": True}
_MOST_REFERENCED = 4
_NUMBERS: dict[str, Any] = {"int": types.int64, "float": types.float64}
"""numba's types of the numbers that a bound entry takes, by their annotation."""


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


def _cached(function: Callable[..., Any], compiled: Any) -> Any:
    """Return a dispatcher that keeps the machine code of ``function`` on disk."""
    config: Any = numba.config  # its settings are made at run time, unseen by type checkers
    before = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_DIR)  # read here, once; other users of numba keep theirs
    try:
        compiled._cache = _Cache(function)  # noqa: SLF001  what njit(cache=True) does
    finally:
        config.CACHE_DIR = before
    return compiled


def kernel(function: F) -> F:
    """Mark an inner kernel: a function that only kernels call.

    LLVM decides whether it becomes part of a caller. The option is given, since numba hands that of a caller on to what
    it calls: every kernel below one that is ``inlined`` would be written out at each place that calls it.
    """
    return cast("F", _compile(function, **_INNER, forceinline=False))


def inlined(function: F) -> F:
    """Mark an inner kernel that becomes part of its callers: one on the path of every job (docs/adr/0002)."""
    return cast("F", _compile(function, **_INNER, forceinline=True))


def separate(function: F) -> F:
    """Mark an inner kernel that is compiled by itself, when a run comes there first: one that most runs do without.

    It takes tuples marked ``referenced``, and numbers.
    """
    passing = _passing_on(function, kernel(function), 0)
    return cast("F", called_by_slot(function, _cached(function, _compile(passing, **_ALONE))))


at_least: Any = kernel(words.at_least) if _CHECKS else intrinsics.at_least
at_most: Any = kernel(words.at_most) if _CHECKS else intrinsics.at_most
least_of: Any = kernel(words.least_of) if _CHECKS else intrinsics.least_of


class EntryKernel:
    """A kernel that Python calls, and kernels too: they call its inner twin."""

    def __init__(self, function: Callable[..., Any], inner: Any) -> None:
        """Compile the twin that Python calls, and find its machine code on disk."""
        functools.update_wrapper(self, function)
        self.inner = inner
        count = _count_referenced(function)
        self.dispatcher = _cached(function, _compile(_passing_on(function, inner, count), **_ENTRY))
        self.call = _with_addresses(self.dispatcher, count)
        self.points: dict[Any, Any] = {}
        """What ``bind`` has found, by the layouts of the tuples."""

    def __reduce__(self) -> str:
        """Pickle as a function: by its name in its module."""
        return cast("str", self.__qualname__)  # type: ignore[attr-defined]

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code."""
        try:
            return self.call(*arguments)
        except SystemError as error:
            raise cause_of(error) from None


@typeof_impl.register(EntryKernel)  # type: ignore[untyped-decorator]
def _typeof_entry(value: EntryKernel, _: Any) -> Any:
    """Return numba's type of an entry that a kernel calls: that of its inner twin."""
    return numba.typeof(value.inner)


def compile_for_library(function: Callable[..., Any], inner: Any, kinds: list[Any]) -> Any:
    """Return what numba makes of an entry for these argument types, for a library that Python calls without numba:
    no function that takes Python objects (``tools/kernels``)."""
    return _alone(_passing_on(function, inner, _count_referenced(function)), kinds)


def compile_slot(slot: Slot) -> Any:
    """Return the same of the separate kernel that a slot of an entry's machine code points to."""
    return _alone(slot.kernel.compiled.py_func, slot.kinds)


def _alone(function: Callable[..., Any], kinds: Any) -> Any:
    """Return what numba makes of a function, without what calls it from Python."""
    made = _compile(function, **_ALONE)
    return made._compiler.compile(tuple(kinds), None)  # noqa: SLF001  a dispatcher would look for that function


def entry(function: F) -> F:
    """Mark a kernel that Python calls, or let Python call an inner kernel.

    It releases the interpreter's lock, so that simulations can run in threads. Its machine code is cached on disk. Of
    a tuple that is marked ``referenced`` the compiled function gets the addresses, and passes the tuple on by reference
    to an inner twin, which other kernels may call.
    """
    called: Any = function
    own, inner = (called.py_func, called) if isinstance(called, Dispatcher) else (called, kernel(called))
    return cast("F", EntryKernel(own, inner))


def _passing_on(function: Callable[..., Any], inner: Any, count: int) -> Callable[..., Any]:
    """Return a function of the same arguments that passes them on to ``inner``, the first ``count`` by reference."""
    names = list(inspect.signature(function).parameters)
    given = [f"by_reference({name})" if k < count else name for k, name in enumerate(names)]
    scope = {"by_reference": by_reference, "inner": inner, "__name__": function.__module__}
    exec(f"def {function.__name__}({', '.join(names)}): return inner({', '.join(given)})", scope)  # noqa: S102
    return cast("Callable[..., Any]", scope[function.__name__])


def _count_referenced(function: Callable[..., Any]) -> int:
    """Return how many of the first arguments are tuples marked ``referenced``, by their annotations.

    Raises: TypeError for more than four, or for one behind an argument that is none.
    """
    names = [str(function.__annotations__.get(name, "")) for name in inspect.signature(function).parameters]
    found = [isinstance(kind, type) and issubclass(kind, Referenced) for kind in map(function.__globals__.get, names)]
    count = sum(found)
    if not all(found[:count]) or count > _MOST_REFERENCED:
        raise TypeError(f"{function.__name__}: up to {_MOST_REFERENCED} referenced tuples, before all other arguments")
    return count


def _with_addresses(compiled: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return ``compiled`` called with the addresses of its first ``count`` arguments; written out, as it is hot."""
    if count == 0:
        return lambda *rest: compiled(*rest)  # noqa: PLW0108  a function, whose name and docstring can be set
    if count == 1:
        return lambda a, *rest: compiled(a.addresses, *rest)
    if count == 2:
        return lambda a, b, *rest: compiled(a.addresses, b.addresses, *rest)
    if count == 3:
        return lambda a, b, c, *rest: compiled(a.addresses, b.addresses, c.addresses, *rest)
    return lambda a, b, c, d, *rest: compiled(a.addresses, b.addresses, c.addresses, d.addresses, *rest)


class _BoundEntry(functools.partial[Any]):
    """The machine code of an entry kernel with the words of its tuples: called with the remaining numbers.

    A copy is bound to copies of the tuples: words are addresses, and would lead to the arrays of the original.
    """

    entry: Callable[..., Any]
    tuples: tuple[Any, ...]

    @classmethod
    def to(cls, point: Callable[..., Any], words: list[Any], entry: Callable[..., Any], *tuples: Any) -> Self:
        """Bind machine code to the words of ``tuples``, which are kept alive with them."""
        bound = cls(point, *words)
        bound.entry, bound.tuples = entry, tuples
        return bound

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as the entry kernel and the tuples."""
        return bind, (self.entry, *self.tuples)


def bind(call: Callable[..., R], *tuples: Any) -> Callable[..., R]:
    """Return an entry kernel bound to its tuples: a function of the remaining arguments, which are numbers.

    numba's dispatcher looks at every argument of every call, which costs more than most kernels. Tuples do not change,
    so one look at their layouts, here, is enough; numbers are converted as ``int`` and
    ``float`` convert, by the annotations. A tuple that is replaced needs a new binding.

    Raises: TypeError where an argument that remains is not a number.
    """
    words = [value.addresses for value in tuples]
    points = call.points  # type: ignore[attr-defined]
    layouts = tuple(array.dtype for array in words)
    point = points.get(layouts)
    if point is None:
        function = inspect.unwrap(call)
        rest = list(function.__annotations__.values())[len(tuples) : -1]
        if not set(rest) <= set(_NUMBERS):
            raise TypeError(f"{function.__name__}: only numbers may remain, not {rest}")
        kinds = (*map(numba.typeof, words), *(_NUMBERS[kind] for kind in rest))
        point = points[layouts] = call.dispatcher.compile(kinds)  # type: ignore[attr-defined]
    return _BoundEntry.to(point, words, call, *tuples)
