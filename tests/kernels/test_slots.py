"""Separate kernels are compiled when a run comes there first, and only then; what can go wrong at that moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wattqueue.kernels.mode import UNDOCUMENTED

pytestmark = [pytest.mark.compiled, pytest.mark.skipif(not UNDOCUMENTED, reason="other modes have no separate kernels")]
ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys, threading
from wattqueue.kernels._numba import slots
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.sim.warm import _few

jobs, partitions = _few()

def starts(row):
    policy = load_policy(row, estimator="maximum")
    run = simulate(jobs, Machine("one", partitions[:1]), policy, cap=Cap.constant(1500.0))
    return run.schedule.start_s.tobytes().hex()

def ready():
    return sorted(name for name, kernel in slots._SEPARATE.items() if kernel.compiled.overloads)
"""


def printed(program: str) -> list[str]:
    """What a program prints, line by line, in a process of its own: one that has called nothing yet."""
    command = [sys.executable, "-c", PROGRAM + program]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_run_compiles_no_kernel_that_it_does_not_call() -> None:
    plain, conservative = printed('starts("easy"); print(ready()); starts("conservative"); print(ready())')
    assert plain == "[]"
    assert conservative == "['wattqueue.kernels.plan.pass_conservative']"


FAULTS = """
whole, address, error = starts("conservative"), slots.SeparateKernel.address, {error}
for words, _ in slots._SLOTS.values():
    words[0] = None  # as in a process that has called none
failed = []

def failing(kernel, kinds):
    if not failed:
        failed.append(kernel)
        raise error
    return address(kernel, kinds)

slots.SeparateKernel.address = failing
try:
    starts("conservative")
except BaseException as found:
    print(type(found).__name__)
print(starts("conservative") == whole)
"""


@pytest.mark.parametrize(("error", "seen"), [("KeyboardInterrupt()", "KeyboardInterrupt"), ("OSError('x')", "OSError")])
def test_a_first_call_that_fails_ends_the_run_and_leaves_the_next_one_right(error: str, seen: str) -> None:
    assert printed(FAULTS.replace("{error}", error)) == [seen, "True"]


THREADS = """
found = []
threads = [threading.Thread(target=lambda: found.append(starts("conservative"))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found), set(found) == {starts("conservative")})
"""


def test_threads_that_meet_at_a_first_call_find_the_same() -> None:
    assert printed(THREADS) == ["4 True"]
