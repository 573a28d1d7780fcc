"""Run many cases in processes that are watched: one that hangs or dies fails its case, and the others go on.

An alarm inside a process cannot interrupt compiled code, and a crash takes its process along; so each worker tells the
process that watches it which case it has finished. A new process takes over after the case that it did not finish.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

LONGEST_S = 20
"""Seconds of processor time that one input may take: on a busy machine the clock on the wall says little."""
ASLEEP_S = 300.0
"""Seconds by the clock after which a case that takes no processor time is given up."""
START_S = 1_800.0
"""Seconds by the clock that a worker may take to get ready: it imports everything, and may have kernels to compile."""
MEMORY_BYTES = 8 << 30
"""Address space of a worker: small inputs that want more than that are failures."""

Attempt = Callable[[int], str | None]
"""Run one case; return what went wrong, None where all is well."""


class TookTooLongError(Exception):
    """A case did not end in time."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TookTooLongError in the block after some seconds of processor time."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TookTooLongError(f"more than {seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass
class _Worker:
    """A process, its pipe, the case it works on, since when, and the processor time it had taken by then."""

    process: BaseProcess
    pipe: Connection
    case: int
    since_s: float
    used_s: float = 0.0
    ready: bool = False

    def overdue(self) -> bool:
        """Whether the case has had twice the time after which the alarm inside should have ended it."""
        if not self.ready:
            return time.monotonic() > self.since_s + START_S
        return time.monotonic() > self.since_s + ASLEEP_S or self.processor_s() > self.used_s + 2 * LONGEST_S

    def processor_s(self) -> float:
        """Processor time of the process, by /proc; what it had before, where it has ended."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return self.used_s
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def watched(
    ready: Callable[..., Attempt], arguments: tuple[Any, ...], folder: Path, cases: int, workers: int
) -> dict[int, str]:
    """Return what went wrong by case, of the cases 0, 1 ... ``cases`` - 1.

    ``ready(*arguments, place)`` makes the attempt in each worker, which has the folder ``place`` to itself. Both go to
    new processes, so ``ready`` is a function of a module. ``folder / "found.txt"`` lists failures as they are found.
    """
    context = multiprocessing.get_context("spawn")
    wrong: dict[int, str] = {}
    busy: list[_Worker] = []

    def begin(case: int) -> None:
        if case >= cases:
            return
        here, there = context.Pipe(duplex=False)
        place = folder / f"from {case}"
        place.mkdir()
        step = (case, cases, workers)
        process = context.Process(target=_serve, args=(ready, (*arguments, place), step, there), daemon=True)
        process.start()
        there.close()
        busy.append(_Worker(process, here, case, time.monotonic()))

    def note(case: int, why: str) -> None:
        wrong[case] = why
        with (folder / "found.txt").open("a") as found:
            found.write(f"case {case}: {why}\n\n")

    def give_up(worker: _Worker, why: str) -> None:
        note(worker.case, why)
        worker.process.kill()
        worker.process.join()
        busy.remove(worker)
        begin(worker.case + workers)

    for k in range(workers):
        begin(k)
    while busy:
        heard = wait([worker.pipe for worker in busy], timeout=1.0)
        for worker in list(busy):
            if worker.pipe in heard:
                try:
                    case, text = worker.pipe.recv()
                except EOFError:
                    worker.process.join()
                    if worker.case >= cases and worker.process.exitcode == 0:
                        busy.remove(worker)
                    else:
                        give_up(worker, f"the process ended with {worker.process.exitcode}")
                    continue
                if text is not None:
                    note(case, text)
                worker.case, worker.ready = case + workers, True
                worker.since_s, worker.used_s = time.monotonic(), worker.processor_s()
            elif worker.overdue():
                give_up(worker, f"took {2 * LONGEST_S} s of processor time, or {ASLEEP_S:g} s asleep")
    return wrong


def _serve(
    ready: Callable[..., Attempt], arguments: tuple[Any, ...], step: tuple[int, int, int], pipe: Connection
) -> None:
    """Run every ``step``-th case and send what went wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    warnings.simplefilter("error")
    attempt = ready(*arguments)
    pipe.send((step[0] - step[2], None))  # ready for the first case
    for case in range(*step):
        try:
            text = attempt(case)
        except Exception:  # noqa: BLE001 - an error of the attempt itself is told as well
            text = traceback.format_exc()
        pipe.send((case, text))
    pipe.close()
