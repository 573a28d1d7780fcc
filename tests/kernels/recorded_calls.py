"""Calls of entry kernels that ``recorder.py`` noted, made again: ``python -m tests.kernels.recorded_calls FILE``.

In any mode, from four threads at once. Prints the mode, and of each entry how many of how many calls gave, in all
threads, the result and the bytes in their arguments that plain Python gave.
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wattqueue.kernels import mode
from wattqueue.kernels._numba.scalars import Scalars

THREADS = 4


class Call(NamedTuple):
    """A call of an entry."""

    module: str
    """The module that has the entry."""
    name: str
    """The entry's name in it."""
    arguments: bytes
    """The arguments, pickled."""
    expected: str
    """``outcome`` of plain Python."""

    @property
    def entry(self) -> str:
        """The entry as ``interface.json`` names it."""
        return f"{self.module.removeprefix('wattqueue.kernels.')}.{self.name}"

    def outcome(self) -> str:
        """The outcome in this process, on a copy of the arguments."""
        arguments = pickle.loads(self.arguments)  # noqa: S301  our own
        return outcome(getattr(importlib.import_module(self.module), self.name)(*arguments), arguments)


def outcome(result: Any, arguments: tuple[Any, ...]) -> str:
    """A hash of what an entry returned, and of every byte in its arguments afterwards."""
    value = result.item() if isinstance(result, np.generic) else result
    exact = value.hex() if isinstance(value, float) else repr(int(value) if isinstance(value, bool) else value)
    digest = hashlib.sha256(exact.encode())
    for piece in _pieces(arguments):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    """The bytes of each array in nested tuples."""
    if isinstance(value, tuple):
        for member in value:
            yield from _pieces(member)
    elif isinstance(value, Scalars):
        yield value.data.tobytes()
    elif isinstance(value, np.ndarray):
        yield value.tobytes()


def repeat(calls: list[Call]) -> Iterator[tuple[str, int, int]]:
    """Of each entry its name, the calls that gave what was expected in each thread, and all its calls."""
    gate, found = threading.Barrier(THREADS), [[""] * len(calls) for _ in range(THREADS)]

    def work(thread: int) -> None:
        gate.wait()
        shift = thread % 2 * len(calls) // 2  # two threads are in the same entry, two in another one
        for number in range(len(calls)):
            place = (number + shift) % len(calls)
            found[thread][place] = calls[place].outcome()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = Counter(call.entry for call in calls)
    equal = Counter(call.entry for call, *given in zip(calls, *found, strict=True) if set(given) == {call.expected})
    for name in sorted(total):
        yield name, equal[name], total[name]


if __name__ == "__main__":
    rows: list[tuple[str, str, bytes, str]] = pickle.loads(Path(sys.argv[1]).read_bytes())  # noqa: S301  our own
    lines = [(mode.MODE, mode.LIBRARY.level if mode.LIBRARY else ""), *repeat([Call(*row) for row in rows])]
    sys.stdout.write("".join(f"{' '.join(map(str, line))}\n" for line in lines))
