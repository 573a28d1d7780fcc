"""What the command line says beside its results: progress, jobs that never ran, lines of a service's log.

Progress goes to stderr: on a terminal a bar with the time left; otherwise nothing for a single run (its output may be a
log) and one line per tenth for many runs, so that a batch job's log shows that it is alive.

stdout stays free for results, so that a verb can be piped while its progress is visible. Every context manager first
prints a line if kernels must be compiled, because the bar would stand still for that time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from wattqueue.model.comparability import WorkDone

SHOW_FROM_JOBS = 200_000
"""Jobs from which a run takes seconds; below, a bar would only flicker."""


@contextmanager
def running(
    jobs: int, what: str, steps: int | None = None, unit: str = "jobs"
) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a progress callback (done, total) for a long run on a terminal, else None.

    ``jobs`` are simulated in all; the bar counts them, or ``steps`` of another ``unit``.

    ``what`` is the text before the bar. The total is known here, so the bar has its full length from the beginning.
    """
    errors = _stderr()
    say_if_compiling(errors)
    if jobs < SHOW_FROM_JOBS or not sys.stderr.isatty():
        yield None
        return
    with _bar(errors, what, unit, jobs if steps is None else steps) as told:
        yield told


@contextmanager
def counting(what: str, unit: str = "runs") -> Iterator[Callable[[int, int], None]]:
    """Yield a callback (finished, total): a bar with the time left, or one line per tenth without a terminal.

    The callback is always there, whatever the number of runs: each of them may take minutes.
    """
    errors = _stderr()
    say_if_compiling(errors)
    # A bar in a log file would be one long line of control characters.
    if not sys.stderr.isatty():
        yield _Lines(what, unit)
        return
    with _bar(errors, what, unit, None) as told:
        yield told


@contextmanager
def _bar(console: Console, what: str, unit: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """Yield a bar with the time left, which is erased when it is done.

    ``total`` is None where it becomes known with the first call. Each call (done, total) sets both.
    """
    # Imported here: most runs show no bar.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _Lines:
    """Progress for a log: one line whenever a further tenth is finished, with the time left."""

    def __init__(self, what: str, unit: str) -> None:
        """``what`` is being done, in units named ``unit``."""
        self.what, self.unit = what, unit
        self.began: tuple[float, int] | None = None
        self.tenth = 0

    def __call__(self, done: int, total: int) -> None:
        """Print a line if a further tenth is finished; the estimate assumes a constant rate since the first call."""
        now_s = time.monotonic()
        if self.began is None:  # reading and compiling come before the first call and would spoil the estimate
            self.began, self.tenth = (now_s, done), 10 * done // total
        if 10 * done // total <= self.tenth:
            return
        self.tenth = 10 * done // total
        left_s = (now_s - self.began[0]) / (done - self.began[1]) * (total - done)
        print(f"{self.what}: {done:,} of {total:,} {self.unit}, {left_s:,.0f} s left", file=sys.stderr, flush=True)


def say_if_compiling(console: Console) -> None:
    """Print one line if kernels are about to be compiled, which the first run of a version does for 40 seconds."""
    from wattqueue.kernels.cache import compiled_before

    warn_of_cache(console)
    if not compiled_before():
        console.print("Compiling kernels, once for this version (about 40 seconds) ...")


def warn_of_cache(console: Console) -> None:
    """Print one line if the cache of compiled kernels cannot be written: every run would compile again."""
    from wattqueue.kernels.cache import CACHE_PROBLEM

    if CACHE_PROBLEM:
        console.print(
            f"Warning: {CACHE_PROBLEM} (set WATTQUEUE_CACHE_DIR to a folder that you can write)",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip


def _stderr() -> Console:
    """Return a console on stderr."""
    from rich.console import Console

    return Console(stderr=True)


def say_never_ran(runs: Iterable[tuple[str, WorkDone]]) -> None:
    """Print ``22,016 of 28,481 jobs never ran (still queued at the end)`` for each run of which that is true.

    ``runs`` are (name, work); a single run may have an empty name.
    """
    for name, work in runs:
        if work.text:
            print(f"{name}: {work.text}" if name else work.text, file=sys.stderr, flush=True)


def say(line: str) -> None:
    """Print a line with the time in UTC; flushed, since the journal reads a pipe.

    A reader that has gone, or a full disk, does not end a service: the line is lost.
    """
    with suppress(OSError, ValueError):
        print(f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}Z {line}", flush=True)
