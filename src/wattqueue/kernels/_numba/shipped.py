"""The marks where a wheel's library holds the machine code: entries call it, and numba is never imported.

An entry finds its C function by the types of its arguments (``tools/kernels/shim.py`` has the convention): a named
tuple by the name of its layout, an array by its element type and dimensions, a number by its annotation. Inner kernels
stay plain Python functions, which nothing calls: the library has them within its entries.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from functools import cache
from typing import Any, Self, TypeVar, cast

import numpy as np

from wattqueue.errors import EngineError
from wattqueue.kernels._numba.words import at_least, at_most, least_of, trailing_zeros
from wattqueue.kernels.mode import LIBRARY

__all__ = ["at_least", "at_most", "bind", "entry", "inlined", "kernel", "least_of", "separate", "trailing_zeros"]

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
T = TypeVar("T")
_PREFIX = "wattqueue.kernels."
_NUMBERS: dict[str, Any] = {"int": ctypes.c_int64, "float": ctypes.c_double, "bool": ctypes.c_uint8}
"""C types of numbers, by their annotation."""
_FAILED = -(2**63)
"""What a C function returns where its entry reported an error."""
_ADVICE = "set WATTQUEUE_SHIPPED=0: numba compiles the kernels then (pip install 'wattqueue[parts]')"


def kernel(function: T) -> T:
    """Return the function itself: the library has it within the entries that call it."""
    return function


inlined = separate = kernel


@cache
def _loaded() -> tuple[ctypes.CDLL, dict[str, dict[tuple[str, ...], dict[str, Any]]]]:
    """Return the library, and its entries by name and argument types."""
    if LIBRARY is None:
        raise EngineError("shipped mode without a library")
    by_name: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {}
    for row in LIBRARY.entries:
        by_name.setdefault(row["name"], {})[tuple(row["kinds"])] = row
    return ctypes.CDLL(str(LIBRARY.file)), by_name


class _Calls(dict[tuple[Any, ...], Callable[..., Any]]):
    """What calls the C functions of an entry with addresses, lengths and numbers, by the types of its arguments.

    Of an array the key has element type and dimensions, of a tuple the name of its layout, of a number its annotation.
    """

    def __init__(self, name: str) -> None:
        """Find the rows of an entry in the manifest.

        Raises: EngineError for an entry that the library lacks, as a kernel of a user's own.
        """
        super().__init__()
        self.name = name
        self.rows = _loaded()[1].get(name, {})
        if not self.rows:
            raise EngineError("the library of compiled kernels lacks this one", where=name, hint=_ADVICE)

    def __missing__(self, key: tuple[Any, ...]) -> Callable[..., Any]:
        """Find the C function for these types.

        Raises: EngineError for types that the library was not made for.
        """
        left = iter(key)
        kinds = tuple(one if isinstance(one, str) else f"{one.str}:{next(left)}" for one in left)
        if kinds not in self.rows:
            given = ", ".join(kinds)
            raise EngineError(f"the library has no machine code for ({given})", where=self.name, hint=_ADVICE)
        self[key] = _c_function(self.rows[kinds])
        return self[key]


class ShippedEntry:
    """A kernel that Python calls, as machine code of the library."""

    def __init__(self, name: str, home: str) -> None:
        """Find the C functions of an entry by its name, ``module.function``; ``home`` is the module that has it.

        Raises: EngineError for an entry that the library lacks.
        """
        self.name, self.__module__ = name, home
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self.calls = _Calls(name)
        # Several rows differ in the types of arrays alone.
        self.kinds = ["Array" if ":" in kind else kind for kind in next(iter(self.calls.rows))]
        self.call = _written_out(self.calls, self.kinds)

    def __reduce__(self) -> str:
        """Pickle as a function: by its name in its module."""
        return self.__qualname__

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code.

        Raises: EngineError for arguments of types that the library was not made for.
        """
        return self.call(*arguments)


_Nothing = ctypes.c_char * 0
"""What is laid over an array's elements to have their address, in a sixth of the time that numpy takes to tell it."""


def _written_out(calls: _Calls, kinds: list[str]) -> Callable[..., Any]:
    """Return what calls an entry with tuples, arrays and numbers; written out, as it is hot."""
    names = [f"a{k}" for k in range(len(kinds))]
    keys, words, slow = list[str](), list[str](), list[str]()
    for name, kind in zip(names, kinds, strict=True):
        if kind == "Array":
            keys.append(f"{name}.dtype, {name}.ndim")
            words.append(f"address(over({name})), *{name}.shape")
            slow.append(f"slow_address({name}), *{name}.shape")
        else:
            keys.append(repr(kind) if kind in _NUMBERS else f"{name}.layout_name")
            words.append(name if kind in _NUMBERS else f"{name}.address")
            slow.append(words[-1])
    fast_call, slow_call = (f"return calls[({', '.join(keys)},)]({', '.join(given)})" for given in (words, slow))
    lines = [f"def call({', '.join(names)}):"]
    if "Array" in kinds:  # read-only, or not contiguous: the second way takes the one and refuses the other
        lines += [f" try: {fast_call}", f" except TypeError: {slow_call}"]
    else:
        lines.append(f" {fast_call}")
    scope: dict[str, Any] = {
        "calls": calls, "over": _Nothing.from_buffer, "address": ctypes.addressof, "slow_address": _address,
    }  # fmt: skip
    exec("\n".join(lines), scope)  # noqa: S102  our own text
    return cast("Callable[..., Any]", scope["call"])


def _address(array: np.ndarray[Any, Any]) -> int:
    """Return where an array's elements are.

    Raises: EngineError for an array that is not contiguous.
    """
    if not array.flags.c_contiguous:
        raise EngineError("an array of a kernel is not contiguous", hint="copy it (numpy.ascontiguousarray)")
    return int(array.ctypes.data)


def _c_function(row: dict[str, Any]) -> Callable[..., Any]:
    """Return a Python function of addresses, lengths and numbers that calls a C function of the library."""
    found = _loaded()[0][row["symbol"]]
    types: list[Any] = []
    for kind in row["kinds"]:
        if kind in _NUMBERS:
            types.append(_NUMBERS[kind])
        elif kind in row["words"]:
            types.append(ctypes.c_void_p)
        else:
            types += [ctypes.c_void_p, *[ctypes.c_int64] * int(kind.split(":")[1])]
    found.restype = ctypes.c_int64
    if row["result"] == "float64":
        found.argtypes = [ctypes.POINTER(ctypes.c_double), *types]
        return functools.partial(_float_of, found, row["symbol"])
    found.argtypes = types
    return functools.partial(_RESULTS[row["result"]], found, row["symbol"])


def _int_of(found: Any, symbol: str, *words: Any) -> int:
    """Call a C function that returns an integer."""
    try:
        result: int = found(*words)
    except ctypes.ArgumentError:  # ctypes takes Python's integers alone; looking at each one costs more than the call
        result = found(*(word.item() if isinstance(word, np.generic) else word for word in words))
    return result if result != _FAILED else _fail(symbol)


def _bool_of(found: Any, symbol: str, *words: Any) -> bool:
    """Call a C function that returns a truth value."""
    return bool(_int_of(found, symbol, *words))


def _none_of(found: Any, symbol: str, *words: Any) -> None:
    """Call a C function without a result."""
    _int_of(found, symbol, *words)


def _float_of(found: Any, symbol: str, *words: Any) -> float:
    """Call a C function that writes a float to its first argument."""
    out = ctypes.c_double()
    if found(ctypes.byref(out), *words) == _FAILED:
        _fail(symbol)
    return out.value


_RESULTS: dict[str, Callable[..., Any]] = {"int64": _int_of, "bool": _bool_of, "none": _none_of}


def _fail(symbol: str) -> Any:
    """Raise the error of an entry that reported one: none does, unless its code is wrong."""
    raise EngineError("machine code reported an error", where=symbol)


def entry(function: F) -> F:
    """Mark a kernel that Python calls. It releases the interpreter's lock, as every call of ctypes does."""
    name = f"{function.__module__.removeprefix(_PREFIX)}.{function.__name__}"
    return cast("F", functools.update_wrapper(ShippedEntry(name, function.__module__), function))


class _BoundEntry(functools.partial[Any]):
    """An entry with the addresses of its tuples: called with the remaining numbers.

    A copy is bound to copies of the tuples: addresses would lead to the arrays of the original.
    """

    entry: Callable[..., Any]
    tuples: tuple[Any, ...]

    @classmethod
    def to(cls, call: functools.partial[Any], entry: Callable[..., Any], *tuples: Any) -> Self:
        """Bind a C function to the addresses of ``tuples``, which are kept alive with them."""
        bound = cls(call, *(value.address for value in tuples))
        bound.entry, bound.tuples = entry, tuples
        return bound

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as the entry kernel and the tuples."""
        return bind, (self.entry, *self.tuples)


def bind(call: Callable[..., R], *tuples: Any) -> Callable[..., R]:
    """Return an entry kernel bound to its tuples: a function of the remaining arguments, which are numbers.

    Raises: TypeError where an argument that remains is not a number.
    """
    rest = call.kinds[len(tuples) :]  # type: ignore[attr-defined]
    if not set(rest) <= set(_NUMBERS):
        raise TypeError(f"{call.name}: only numbers may remain")  # type: ignore[attr-defined]
    kinds = (*(value.layout_name for value in tuples), *rest)
    return _BoundEntry.to(call.calls[kinds], call, *tuples)  # type: ignore[attr-defined]
