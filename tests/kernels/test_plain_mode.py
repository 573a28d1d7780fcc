"""Plain mode: kernels compiled with documented numba only pass the same tests, and give the same digests.

About four minutes of processor time each, nearly all of it compiling: without the undocumented points every kernel is
compiled by itself, with reference counting.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wattqueue.kernels.cache import CACHE_DIR
from wattqueue.kernels.mode import MODE

ROOT = Path(__file__).parents[2]
DIGESTS = ("EASY", "conservative", "speed kept", "history prediction", "three hours of a replayed trace")
"""Benchmarks with a digest that together run the loop, both passes, actions, history predictions and profiles."""


def in_mode(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter in a mode; a cache that was compiled before serves."""
    own = {"WATTQUEUE_PLAIN_NUMBA": str(int(name == "plain")), "NUMBA_DISABLE_JIT": str(int(name == "python"))}
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, **own, "WATTQUEUE_CACHE_DIR": str(CACHE_DIR.parent), "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_each_mode_has_a_cache_of_its_own() -> None:
    look = "from wattqueue.kernels.cache import CACHE_DIR; print(CACHE_DIR.name)"
    names = [in_mode(mode, "-c", look).stdout.strip() for mode in ("fast", "plain", "python")]
    assert [name.split("-")[:2] for name in names] == [["kernels", mode] for mode in ("fast", "plain", "python")]
    assert len({name.split("-")[2] for name in names}) == 1


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.skipif(MODE != "fast", reason="started from the other modes it would start itself")
def test_the_kernel_tests_pass_in_plain_mode() -> None:
    done = in_mode("plain", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "tests/kernels")
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize("names", DIGESTS)
def test_the_digests_are_the_same_in_plain_mode(names: str) -> None:
    """The exit status is 1 where a digest differs from bench/digests.json."""
    done = in_mode("plain", "-m", "bench", names)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
