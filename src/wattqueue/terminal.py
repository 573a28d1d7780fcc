"""What the command line says beside its results: progress, jobs that never ran, lines of a service's log.

Progress goes to stderr: on a terminal a bar, as soon as the work has taken two seconds: with the time left where runs,
jobs or steps are counted, else with the time that has passed (``working``, which every verb has until it prints its
result). In a file, as the log of a batch job is, work of many runs writes one line per tenth, so that it is seen to be
alive. A pipe gets nothing, and ``--quiet`` shows none.

stdout stays free for results, so that a verb can be piped while its progress is visible. Before work is counted a line
says if kernels must be compiled, and the bar counts them.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import RLock, Timer
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self, TypeVar

if TYPE_CHECKING:
    from wattqueue.model.comparability import WorkDone

SHOW_AFTER_S = 2.0
"""Seconds from which work shows a bar; before, one would only flicker."""
MOVED_S = 0.1
"""Seconds after which a bar is moved again."""
Progress = Callable[[int, int], None]
T = TypeVar("T")


@contextmanager
def working(*, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal how long a verb is at work, while nothing else shows progress, until ``stop_working``."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    with _LateBar("working", ""):
        yield


def stop_working() -> None:
    """End what ``working`` shows: from here on a verb prints."""
    for bar in _LateBar.open:
        bar.close()


@contextmanager
def running(what: str, unit: str = "jobs", *, quiet: bool = False) -> Iterator[Progress | None]:
    """Yield a progress callback (done, total) on a terminal, else None.

    ``what`` is the text before the bar, which counts in ``unit``.
    """
    compiling = say_if_compiling()
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with _LateBar(what, unit) as told:
        if compiling:
            told.count_compiled()
        yield told


def followed(what: str, items: Sequence[T], unit: str = "steps", *, quiet: bool = False) -> Iterator[T]:
    """Yield ``items``, and show on a terminal how many are done."""
    with running(what, unit, quiet=quiet) as tell:
        for done, item in enumerate(items):
            if tell:
                tell(done, len(items))
            yield item


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


class _LateBar:
    """A callback (done, total) with a bar that is shown from ``SHOW_AFTER_S`` on, and erased at the end.

    A thread shows it, so that work is seen before its first call. One bar is shown at a time: an inner one hides the
    outer one until it ends.
    """

    open: ClassVar[list[_LateBar]] = []
    """Those that have begun and not ended, outer ones first."""

    def __init__(self, what: str, unit: str) -> None:
        self.what, self.unit = what, unit
        self.lock, self.closed = RLock(), False
        self.counted: tuple[str, str, int, int | None] = what, unit, 0, None
        """What is done, in which unit, how much of it, and of how much."""
        self.shown: Any = None
        self.stop_counting: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        """Hide the bar around this one, and begin to wait."""
        self.open.append(self)  # first: from now on the timer of a bar around it shows nothing
        for bar in self.open[:-1]:
            bar.hide()
        self.wait()
        return self

    def __exit__(self, *error: object) -> None:
        """Erase the bar, and let the one around it wait."""
        self.close()
        self.open.remove(self)
        for bar in self.open[-1:]:
            bar.wait()

    def wait(self) -> None:
        """Show the bar in ``SHOW_AFTER_S``, unless it is hidden before."""
        if self.closed:
            return
        self.due_s = time.monotonic() + SHOW_AFTER_S
        self.timer = Timer(SHOW_AFTER_S, self.show)
        self.timer.daemon = True
        self.timer.start()

    def show(self) -> None:
        """Show the bar."""
        with self.lock:
            if self.open[-1:] == [self] and not self.closed and self.shown is None:
                self.shown = _new_bar()
                self._draw()
                self.shown.start()

    def hide(self) -> None:
        """Erase the bar."""
        with self.lock:
            self.timer.cancel()
            if self.shown is not None:
                self.shown.stop()
                self.shown = None

    def close(self) -> None:
        """Erase the bar for good."""
        with self.lock:
            self.stop_counting()
            self.stop_counting = lambda: None
            self.closed = True
            self.hide()

    def __call__(self, done: int, total: int) -> None:
        """Move the bar, at most each ``MOVED_S``: parts in Python call this in every pass."""
        self._move(self.what, self.unit, done, total)

    def _move(self, what: str, unit: str, done: int, total: int) -> None:
        """Take what has been done, and draw it where that is due."""
        self.counted = what, unit, done, total
        now_s = time.monotonic()
        if now_s >= self.due_s:
            self.due_s = now_s + MOVED_S
            self.show()
            with self.lock:
                if self.shown is not None:
                    self._draw()

    def _draw(self) -> None:
        """Bring what is shown up to date."""
        what, unit, done, total = self.counted
        self.shown.update(self.shown.task_ids[0], description=what, completed=done, total=total, unit=unit)

    def count_compiled(self) -> None:
        """Count kernels as they are compiled."""
        from wattqueue.kernels.cache import watch_compiler

        self.stop_counting = watch_compiler(partial(self._move, "compiling", "kernels"))


def _new_bar() -> Any:
    """Return a bar with one task, whose total may be unknown."""
    # Imported here: most runs show no bar.
    from rich import progress as rich
    from rich.console import Console
    from rich.text import Text

    class Counts(rich.TimeRemainingColumn):
        """How much is done, and the time left; the time that has passed where no total is known."""

        def render(self, task: rich.Task) -> Text:
            """Return the text."""
            if task.total is None:
                return Text(f"{task.elapsed or 0:.0f} s")
            left = super().render(task)
            return Text(f"{task.completed:.0f}/{task.total:.0f} {task.fields['unit']} ") + left

    bar = rich.Progress(
        rich.TextColumn("{task.description}"), rich.BarColumn(), Counts(), console=Console(stderr=True), transient=True,
        redirect_stdout=False,  # results may go to a file
    )  # fmt: skip
    bar.add_task("", total=None, unit="")
    return bar


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


def say_if_compiling() -> bool:
    """Return whether kernels are about to be compiled, which the first run of a version does; print a line then."""
    from wattqueue.kernels.mode import COMPILES

    warn_of_cache()
    if not COMPILES:
        return False
    from wattqueue.kernels.cache import compiled_before

    if compiled_before():
        return False
    print("Compiling kernels, once for this version (12 to 40 seconds) ...", file=sys.stderr)
    return True


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
