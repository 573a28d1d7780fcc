"""``bind`` for those who call kernels: an entry kernel with its tuples prepared, for many calls with the same ones."""

from __future__ import annotations

from collections.abc import Callable

from wattqueue.kernels._numba import bind
from wattqueue.kernels._numba.kept import cause_of

__all__ = ["bind", "bind_long"]


def bind_long(call: Callable[..., int], *tuples: object) -> Callable[[], int]:
    """Return the same for an entry that may run for long: an interrupt from the keyboard is raised as what it is, also
    while a part of the entry is compiled."""
    bound = bind(call, *tuples)

    def called() -> int:
        try:
            return bound()
        except SystemError as error:
            raise cause_of(error) from None

    return called
