"""How far numba is with the kernels of a first run, by its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import event

PLAIN_RUN = 212
"""Kernels that the first run of EASY compiles; others compile some more."""
_KIND = "numba:compile"


class _Counter(event.Listener):  # type: ignore[misc]
    """Counts what numba has compiled."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self.tell, self.done = tell, 0

    def on_start(self, event: Any) -> None:
        """Nothing is to be told yet."""

    def on_end(self, event: Any) -> None:
        """Tell how many are done, and of how many."""
        self.done += 1
        self.tell(self.done, max(self.done, PLAIN_RUN))


def watch(tell: Callable[[int, int], None]) -> Callable[[], None]:
    """Have ``tell`` called with (kernels compiled, kernels expected) after each one; return what ends that."""
    counter = _Counter(tell)
    event.register(_KIND, counter)
    return lambda: event.unregister(_KIND, counter)
