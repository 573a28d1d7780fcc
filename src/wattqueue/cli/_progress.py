"""A progress bar on long runs, and one line while kernels compile."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SHOW_FROM_JOBS = 200_000


@contextmanager
def running(
    jobs: int, what: str, steps: int | None = None, unit: str = "jobs"
) -> Iterator[Callable[[int, int], None] | None]:
    """Give a progress callback where a run is long enough and somebody is looking.

    ``jobs`` are simulated in all; the bar counts them, or ``steps`` of another ``unit``.
    """
    errors = Console(stderr=True)
    say_if_compiling(errors)
    if jobs < SHOW_FROM_JOBS or not sys.stderr.isatty():
        yield None
        return
    with _bar(errors, what, unit, jobs if steps is None else steps) as told:
        yield told


@contextmanager
def counting(what: str, unit: str = "runs") -> Iterator[Callable[[int, int], None]]:
    """Give a callback for (finished, all): a bar with the time left, or a line every tenth where nobody looks."""
    errors = Console(stderr=True)
    say_if_compiling(errors)
    if not sys.stderr.isatty():
        yield _Lines(what, unit)
        return
    with _bar(errors, what, unit, None) as told:
        yield told


@contextmanager
def _bar(console: Console, what: str, unit: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time left, which goes away when it is done."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _Lines:
    """Progress for a log: a line each time a further tenth is finished."""

    def __init__(self, what: str, unit: str) -> None:
        self.what, self.unit = what, unit
        self.began: tuple[float, int] | None = None
        self.tenth = 0

    def __call__(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if self.began is None:  # what went before (reading, compiling) says nothing of what is left
            self.began, self.tenth = (now_s, done), 10 * done // total
        if 10 * done // total <= self.tenth:
            return
        self.tenth = 10 * done // total
        left_s = (now_s - self.began[0]) / (done - self.began[1]) * (total - done)
        print(f"{self.what}: {done:,} of {total:,} {self.unit}, {left_s:,.0f} s left", file=sys.stderr, flush=True)


def say_if_compiling(console: Console) -> None:
    """The first run of a version compiles its kernels: say so, it takes some seconds."""
    from wattqueue.kernels._jit import compiled_before

    if not compiled_before():
        console.print("Compiling kernels, once for this version (about 20 seconds) ...")
