"""Compile every entry, and every kernel that is compiled by itself, for the types in ``tools/kernels/interface.json``:
``python -m tests.warm``, before the tests, of whose workers each would compile what it calls first.
"""

from __future__ import annotations

from typing import Any

from tools.kernels.build import numba_type
from tools.kernels.interface import entries, interface, layout_of
from wattqueue.kernels._numba.addresses import LAYOUTS
from wattqueue.kernels._numba.slots import Slot
from wattqueue.kernels.mode import MODE


def compile_all() -> None:
    """Compile what the cache on disk lacks."""
    known = entries()
    layouts = {name: layout_of(text) for name, text in interface()["layouts"].items()}
    LAYOUTS.update(layouts)
    found: set[Slot] = set()
    for name, lists in interface()["entries"].items():
        for kinds in lists:
            found |= _compiled(known[name].dispatcher, tuple(numba_type(kind, layouts) for kind in kinds))
    done: set[Slot] = set()
    while left := found - done:
        for slot in left:
            found = found | _compiled(slot.kernel.compiled, slot.kinds)
        done |= left


def _compiled(dispatcher: Any, kinds: tuple[Any, ...]) -> set[Slot]:
    """Compile a kernel for these types; returns the slots that it calls."""
    dispatcher.compile(kinds)
    return set(dispatcher.overloads[kinds].library._reload_init)


if __name__ == "__main__" and MODE == "fast":  # a wheel's library, or plain Python, needs nothing
    compile_all()
