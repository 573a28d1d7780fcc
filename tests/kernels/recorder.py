"""A plugin of pytest that notes calls of entry kernels: ``pytest -p tests.kernels.recorder``, kernels as plain Python.

It writes to the file ``WATTQUEUE_RECORDED_CALLS`` the arguments of each entry's first calls, and what plain Python
made of them.
"""

from __future__ import annotations

import functools
import os
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kernels.recorded_calls import outcome
from wattqueue.kernels import _numba as marks

MOST_CALLS = 5
"""Calls of one entry that are noted."""


class Recorder:
    """Stands for the mark ``entry``: what it marks notes its first calls from outside of kernels."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.calls: list[tuple[str, str, bytes, str]] = []
        self.inside = False

    def entry(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which notes its calls."""
        name = f"{function.__module__}.{function.__name__}"

        @functools.wraps(function)
        def called(*arguments: Any) -> Any:
            if self.inside or self.counts[name] >= MOST_CALLS:
                return function(*arguments)
            self.inside = True
            try:
                self.counts[name] += 1
                self._note(function, pickle.dumps(arguments))
                return function(*arguments)
            finally:
                self.inside = False

        return called

    def _note(self, function: Callable[..., Any], given: bytes) -> None:
        """Call the function on a copy: in a copy no two tuples share memory, as they may in the original."""
        copied = pickle.loads(given)  # noqa: S301  our own
        expected = outcome(function(*copied), copied)
        self.calls.append((function.__module__, function.__name__, given, expected))


RECORDER = Recorder()
marks.entry = RECORDER.entry  # type: ignore[assignment]


def pytest_sessionfinish() -> None:
    """Write what was noted."""
    Path(os.environ["WATTQUEUE_RECORDED_CALLS"]).write_bytes(pickle.dumps(RECORDER.calls))
