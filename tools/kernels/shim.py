"""The C functions that Python calls, one for each compiled entry.

numba's calling convention flattens an array to seven arguments and more, and returns by a pointer. A shim takes the
address of each named tuple's words, the address and the lengths of each array, and numbers::

    int64_t wq_loop_run_0(void *view, void *truth, void *log, void *parts);

It returns the entry's integer (0 for an entry without result), ``INT64_MIN`` where the entry reported an error. An
entry that returns a float writes it to its first argument, a ``double *``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MATHS = {"exp": 1, "log": 1, "pow": 2}
"""Functions of the C library whose newest version is younger than glibc 2.28 (manylinux_2_28), and their arguments: the
older version is bound to, which computes the same."""
RESULTS = {"int64": "int64_t", "float64": "double", "bool": "uint8_t", "none": "void *"}
"""C type behind the pointer through which numba returns, by numba's name of the result."""


@dataclass(frozen=True)
class Entry:
    """An entry for one list of argument types.

    Attributes:
        name: ``module.function``, as ``interface.json`` has it.
        symbol: Name of its shim; the machine code has the same with ``_body``.
        kinds: Its arguments as ``interface.json`` has them.
        words: Number of 64-bit words of each named tuple, by the name of its layout.
        result: numba's name of what it returns.
    """

    name: str
    symbol: str
    kinds: tuple[str, ...]
    words: dict[str, int]
    result: str


def head() -> str:
    """Return what comes before the shims: includes, and the older versions of mathematical functions."""
    lines = ["#include <stdint.h>", "#include <stddef.h>"]
    for name, count in MATHS.items():
        declared, given = ", ".join(["double"] * count), ", ".join("xy"[:count])
        taken = ", ".join(f"double {x}" for x in "xy"[:count])
        lines += [
            f'__asm__(".symver older_{name}, {name}@GLIBC_2.2.5");',
            f"extern double older_{name}({declared});",
            f"double __wrap_{name}({taken}) {{ return older_{name}({given}); }}",
        ]
    return "\n".join(lines) + "\n"


def slot_of(symbol: str) -> str:
    """Return the slot of a separate kernel (``kernels/_numba/slots.py``), which points to its machine code for good."""
    return f"extern void {symbol}_body(void);\nvoid (*{symbol}[2])(void) = {{{symbol}_body, 0}};\n"


def shim(entry: Entry) -> str:
    """Return the C source of an entry's shim."""
    taken: list[str] = []
    passed: list[str] = []
    types: list[str] = []
    for k, kind in enumerate(entry.kinds):
        for kind_of, named, value in _argument(entry, kind, f"a{k}"):
            if named:
                taken.append(f"{kind_of} {named}")
            types.append(kind_of)
            passed.append(value)
    body = f"{entry.symbol}_body"
    of = RESULTS[entry.result]
    declared = ", ".join([f"{of} *", "void **", *types])
    call = ", ".join(["&result", "&error", *passed])
    start = f"{of} result = 0; void *error = NULL;"
    out, give = "", f"return {body}({call}) ? INT64_MIN : (int64_t)result;"
    if entry.result == "float64":
        out, give = "double *out", f"int32_t status = {body}({call}); *out = result; return status ? INT64_MIN : 0;"
    elif entry.result == "none":
        give = f"return {body}({call}) ? INT64_MIN : 0;"
    arguments = ", ".join([out, *taken] if out else taken)
    return (
        f'extern int32_t {body}({declared}) __attribute__((visibility("hidden")));\n'
        f"int64_t {entry.symbol}({arguments}) {{ {start} {give} }}\n"
    )


def _argument(entry: Entry, kind: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield the C types of an argument as numba flattens it, the shim's own parameter (or none), and what is passed."""
    if kind in ("int", "float", "bool"):
        c_type = {"int": "int64_t", "float": "double", "bool": "uint8_t"}[kind]
        yield c_type, name, name
        return
    yield "void *", "", "NULL"
    yield "void *", "", "NULL"
    if kind in entry.words:
        size = f"{8 * entry.words[kind]}"
        yield "int64_t", "", "1"
        yield "int64_t", "", size
        yield "void *", name, name
        yield "int64_t", "", "1"
        yield "int64_t", "", size
        return
    dtype, dimensions = kind.split(":")
    size, lengths = dtype[2:], [f"{name}_{d}" for d in range(int(dimensions))]
    yield "int64_t", "", " * ".join(lengths)
    yield "int64_t", "", size
    yield "void *", name, name
    for length in lengths:
        yield "int64_t", length, length
    for d in range(len(lengths)):
        yield "int64_t", "", " * ".join([size, *lengths[d + 1 :]])
