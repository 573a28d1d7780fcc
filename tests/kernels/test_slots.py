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


def started(program: str, **settings: str) -> subprocess.Popen[str]:
    """A program in its own process: one that has called nothing yet."""
    command = [sys.executable, "-c", PROGRAM + program]
    env = os.environ | {"PYTHONPATH": str(ROOT)} | settings
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env)


def output(process: subprocess.Popen[str]) -> list[str]:
    """What a program printed, line by line."""
    out, error = process.communicate()
    assert process.returncode == 0, error
    return out.splitlines()


def printed(program: str) -> list[str]:
    """What a program prints, line by line."""
    return output(started(program))


def test_a_run_compiles_no_kernel_that_it_does_not_call() -> None:
    plain, conservative = printed('starts("easy"); print(ready()); starts("conservative"); print(ready())')
    assert plain == "[]"
    assert conservative == "['wattqueue.kernels.plan.pass_conservative']"


FIRST_RUN = """
import time
from wattqueue.kernels.cache import watch_compiler
told = [(0, 0)]
watch_compiler(lambda done, all: told.append((done, all)))
begin_s = time.process_time()
print(starts("easy"))
print(*told[-1], time.process_time() - begin_s)
"""


@pytest.mark.slow
def test_a_first_run_from_a_clone_compiles_what_it_calls_and_two_at_once_do_no_harm(tmp_path: Path) -> None:
    """At most 30 s of one core, 13 measured beside other work; a bar counts the kernels."""
    both = [started(FIRST_RUN, WATTQUEUE_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    found = [output(process) for process in both]
    for _, said in found:
        done, expected, spent_s = map(float, said.split())
        assert done == expected, "what a plain run compiles has changed: PLAIN_RUN in kernels/_numba/compiling.py"
        assert spent_s <= 30.0
    again = output(started(FIRST_RUN, WATTQUEUE_CACHE_DIR=str(tmp_path)))
    assert again[1].startswith("0 0 "), "the cache of both is whole"
    assert again[0] == found[0][0] == found[1][0]


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
