"""Run many cases in processes that are watched: one that hangs or dies fails its case, and the others go on.

An alarm inside a process cannot interrupt compiled code, and a crash takes its process along; so each worker tells the
process that watches it which case it has finished. A new process takes over after the case that it did not finish.
"""

from __future__ import annotations

import multiprocessing
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
"""Seconds that one input may take."""
START_S = 300
"""Seconds that a worker may take to import what it needs and to get ready."""
MEMORY_BYTES = 8 << 30
"""Address space of a worker: small inputs that want more than that are failures."""

Attempt = Callable[[int], str | None]
"""Run one case; return what went wrong, None where all is well."""


class TookTooLongError(Exception):
    """A case did not end in time."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TookTooLongError in the block after some seconds."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TookTooLongError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class _Worker:
    """A process, its pipe, the case it works on, and when that is overdue."""

    process: BaseProcess
    pipe: Connection
    case: int
    until_s: float


def watched(
    ready: Callable[..., Attempt], arguments: tuple[Any, ...], folder: Path, cases: int, workers: int
) -> dict[int, str]:
    """Return what went wrong by case, of the cases 0, 1 ... ``cases`` - 1.

    ``ready(*arguments, place)`` makes the attempt in each worker, which has the folder ``place`` to itself. Both go to
    new processes, so ``ready`` is a function of a module.
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
        busy.append(_Worker(process, here, case, time.monotonic() + START_S))

    def give_up(worker: _Worker, why: str) -> None:
        wrong[worker.case] = why
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
                    wrong[case] = text
                # Longer than the alarm inside, which says where the time went if it can.
                worker.case, worker.until_s = case + workers, time.monotonic() + 2 * LONGEST_S
            elif time.monotonic() > worker.until_s:
                give_up(worker, f"no answer within {2 * LONGEST_S} s, not even to an alarm")
    return wrong


def _serve(
    ready: Callable[..., Attempt], arguments: tuple[Any, ...], step: tuple[int, int, int], pipe: Connection
) -> None:
    """Run every ``step``-th case and send what went wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    warnings.simplefilter("error")
    attempt = ready(*arguments)
    for case in range(*step):
        try:
            text = attempt(case)
        except Exception:  # noqa: BLE001 - an error of the attempt itself is told as well
            text = traceback.format_exc()
        pipe.send((case, text))
    pipe.close()
