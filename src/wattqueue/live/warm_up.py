"""Compile the scheduling pass before the first round, in a thread, so that signals are answered meanwhile.

The first pass of a version compiles for some twenty seconds, within one call that no signal handler can interrupt. In
the first round it would delay the first status, the heartbeat and the answer to SIGTERM by that time, in silence.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import numpy as np

from wattqueue.kernels import codes
from wattqueue.live.notify import notify
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.build import PassSettings
from wattqueue.policy.decide import PolicySnapshot, RunningJobs, decide

PATIENCE_S = 1.0
"""A pass that is compiled already is loaded within this time; a longer wait is announced."""
LOOK_S = 0.1
WATCHDOG_S = 5.0
"""Time between two signs of life to systemd while the pass is compiled."""


def run_small_pass() -> int:
    """Run the pass on one waiting and one running job, so that its kernels are compiled; return the jobs it starts."""
    machine = Machine("small", (Partition("p", 2, idle_w=100.0, max_w=300.0),))
    jobs = KnownJobs.build([0.0, 0.0], [1, 1], [60.0, 60.0])
    one, first = np.ones(1, np.int32), np.zeros(1, np.int32)
    running = RunningJobs(
        one, np.zeros(1, np.int16), np.full(1, 60.0), np.full(1, 200_000_000), np.zeros(1, np.int64), one, first, first
    )
    snapshot = PolicySnapshot(
        0.0, jobs, machine, Prediction(np.full((1, 1), 300.0), np.ones((1, 1)), np.zeros(2, np.int32)),
        Entries(first, first, np.zeros(1)), (first, first), PassSettings(codes.EASY, 0, machine.cap_scope), running,
        cap_w=700.0,
    )  # fmt: skip
    return len(decide(snapshot))


def warm_up(stop: threading.Event, say: Callable[[str], None], work: Callable[[], object] = run_small_pass) -> bool:
    """Compile the pass; return False as soon as ``stop`` is set, although the thread still compiles.

    The process must then end without waiting for the thread: what it does cannot be interrupted. An error of the work
    is left to the first round, which meets it again.
    """
    done = threading.Event()

    def compile_it() -> None:
        with contextlib.suppress(Exception):
            work()
        done.set()

    threading.Thread(target=compile_it, name="compile", daemon=True).start()
    begin_s = told_s = time.monotonic()
    announced = False
    while not done.wait(LOOK_S):
        now_s = time.monotonic()
        if stop.is_set():
            return False
        if not announced and now_s - begin_s >= PATIENCE_S:
            say("compiling the scheduling pass, once for this version: about 20 seconds, then the first round")
            announced = True
        if now_s - told_s >= WATCHDOG_S:
            notify("WATCHDOG=1")
            told_s = now_s
    if announced:
        say(f"compiled in {time.monotonic() - begin_s:.0f} s")
    return not stop.is_set()
