"""A progress bar on long runs, and one line while kernels compile."""

from __future__ import annotations

import sys
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
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(what, total=jobs if steps is None else steps)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def counting(what: str, unit: str = "runs") -> Iterator[Callable[[int, int], None] | None]:
    """Give a progress callback (done, total) for many runs, where somebody is looking."""
    errors = Console(stderr=True)
    say_if_compiling(errors)
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def say_if_compiling(console: Console) -> None:
    """The first run of a version compiles its kernels: say so, it takes some seconds."""
    from wattqueue.kernels._jit import compiled_before

    if not compiled_before():
        console.print("Compiling kernels, once for this version (about 20 seconds) ...")
