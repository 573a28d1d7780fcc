"""What the command line says beside its results: progress, jobs that never ran, lines of a service's log.

Progress goes to stderr: on a terminal a bar with the time left, as soon as the work has taken two seconds. In a file,
as the log of a batch job is, work of many runs writes one line per tenth, so that it is seen to be alive. A pipe gets
nothing, and ``--quiet`` shows none.

stdout stays free for results, so that a verb can be piped while its progress is visible. Every context manager first
prints a line if kernels must be compiled, because the bar would stand still for that time.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from wattqueue.model.comparability import WorkDone

SHOW_AFTER_S = 2.0
"""Seconds from which work shows a bar; before, one would only flicker."""
MOVED_S = 0.1
"""Seconds after which a bar is moved again."""
Progress = Callable[[int, int], None]


@contextmanager
def running(what: str, unit: str = "jobs", *, quiet: bool = False) -> Iterator[Progress | None]:
    """Yield a progress callback (done, total) on a terminal, else None.

    ``what`` is the text before the bar, which counts in ``unit``.
    """
    say_if_compiling()
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with _LateBar(what, unit) as told:
        yield told


@contextmanager
def counting(
    what: str, unit: str = "runs", *, quiet: bool = False, anywhere: bool = False
) -> Iterator[Progress | None]:
    """Yield what ``running`` does; in a file a callback that writes one line per tenth, with the time left.

    ``anywhere``: in a pipe and a notebook, too.
    """
    if quiet or sys.stderr.isatty() or not (anywhere or _is_file(sys.stderr)):
        with running(what, unit, quiet=quiet) as told:
            yield told
        return
    say_if_compiling()
    yield _Lines(what, unit)


def _is_file(stream: IO[str]) -> bool:
    """Return whether a stream is written to a file of a disk; a pipe and a terminal are none."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


class _LateBar(ExitStack):
    """A callback that shows a bar from the first call after ``SHOW_AFTER_S`` on."""

    def __init__(self, what: str, unit: str) -> None:
        super().__init__()
        self.about = what, unit
        self.due_s = time.monotonic() + SHOW_AFTER_S
        self.bar: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show or move the bar, at most each ``MOVED_S``: parts in Python call this in every pass."""
        now_s = time.monotonic()
        if now_s >= self.due_s:
            self.due_s = now_s + MOVED_S
            self.bar = self.bar or self.enter_context(_bar(*self.about))
            self.bar(done, total)


@contextmanager
def _bar(what: str, unit: str) -> Iterator[Progress]:
    """Yield a bar with the time left, which is erased when it is done. Each call (done, total) sets both."""
    # Imported here: most runs show no bar.
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn(what), rich.BarColumn(), rich.MofNCompleteColumn(), rich.TextColumn(unit),
        rich.TimeRemainingColumn(),
    )  # fmt: skip
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
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


def say_if_compiling() -> None:
    """Print one line if kernels are about to be compiled, which the first run of a version does for 40 seconds."""
    from wattqueue.kernels.mode import COMPILES

    warn_of_cache()
    if not COMPILES:
        return
    from wattqueue.kernels.cache import compiled_before

    if not compiled_before():
        print("Compiling kernels, once for this version (about 40 seconds) ...", file=sys.stderr)


def warn_of_cache() -> None:
    """Print a line if the cache of compiled kernels cannot be written: every run would compile again.

    And one if the library of a wheel is there and cannot be used.
    """
    from wattqueue.kernels.mode import COMPILES, LIBRARY_PROBLEM

    if LIBRARY_PROBLEM:
        instead = "numba compiles the kernels" if COMPILES else "kernels run as plain Python, which is slow"
        print(f"Warning: {LIBRARY_PROBLEM}; {instead}", file=sys.stderr)
    if not COMPILES:
        return
    from wattqueue.kernels.cache import CACHE_PROBLEM

    if CACHE_PROBLEM:
        print(f"Warning: {CACHE_PROBLEM} (set WATTQUEUE_CACHE_DIR to a folder that you can write)", file=sys.stderr)


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
