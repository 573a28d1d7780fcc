"""Plain mode: kernels compiled with documented numba only pass the same tests, and give the same digests.

Processor time on one core: four minutes for the kernel tests; nine for the digests, of which compiling the loop takes
two and a half (without the undocumented points every kernel is compiled by itself, with reference counting) and the
rest are runs that take some 40 times as long. The first benchmark compiles for all; the others run two at a time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.program import IMPORTED_FROM
from wattqueue.kernels.cache import CACHE_DIR
from wattqueue.kernels.mode import MODE

ROOT = Path(__file__).parents[2]
MODES = ("fast", "plain", "checked", "python")
DIGESTS = (
    "EASY under a cap, 500,000 jobs",
    "EASY over two partitions",
    "EASY on 5,268 sockets",
    "conservative",
    "speed kept",
    "history prediction",
    "three hours of a replayed trace",
)
"""Benchmarks with a digest that together run the loop, both passes, units that differ, actions, history predictions and
profiles."""


def in_mode(name: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter in a mode; a cache that was compiled before serves."""
    own = {
        "WATTQUEUE_PLAIN_NUMBA": str(int(name == "plain")),
        "WATTQUEUE_CHECKED_NUMBA": str(int(name == "checked")),
        "NUMBA_DISABLE_JIT": str(int(name == "python")),
    }
    path = os.pathsep.join((str(IMPORTED_FROM), str(ROOT), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, **own, **more, "WATTQUEUE_CACHE_DIR": str(CACHE_DIR.parent), "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_each_mode_that_compiles_has_a_cache_of_its_own() -> None:
    compiling = [mode for mode in MODES if mode != "python"]
    look = "from wattqueue.kernels.cache import CACHE_DIR; print(CACHE_DIR.name)"
    names = [in_mode(mode, "-c", look).stdout.strip() for mode in compiling]
    assert [name.split("-")[:2] for name in names] == [["kernels", mode] for mode in compiling]
    assert len({name.split("-")[2] for name in names}) == 1


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.skipif(MODE != "fast", reason="started from the other modes it would start itself")
def test_the_kernel_tests_pass_in_plain_mode() -> None:
    done = in_mode("plain", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "tests/kernels")
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]


OUTSIDE = """
import numpy as np
from wattqueue.kernels._numba import entry, kernel

@kernel
def past_the_end(column, k):
    column[k] += 1

@entry
def write(column, k):
    past_the_end(column, k)

write(np.zeros(3, np.int64), {k})
"""


@pytest.mark.compiled
@pytest.mark.parametrize("k", [3, -1])  # kernels do not count from the end, so fast mode does not, either
def test_an_index_outside_its_array_is_an_error_in_checked_mode(tmp_path: Path, k: int) -> None:
    script = tmp_path / "outside.py"
    script.write_text(OUTSIDE.format(k=k))
    done = in_mode("checked", str(script))
    assert done.returncode == 1
    assert "IndexError" in done.stderr


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.skipif(MODE != "fast", reason="started from the other modes it would start itself")
@pytest.mark.parametrize("folder", ["kernels", "sim", "policy"])
def test_no_kernel_leaves_an_array(folder: str) -> None:
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", f"tests/{folder}")
    done = in_mode("checked", *arguments)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]


@pytest.fixture(scope="module")
def benchmarks() -> dict[str, subprocess.CompletedProcess[str]]:
    """What ``python -m bench`` says of each name in plain mode."""
    first, *others = DIGESTS
    found = {first: in_mode("plain", "-m", "bench", first)}
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda name: in_mode("plain", "-m", "bench", name), others)
        return found | dict(zip(others, runs, strict=True))


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize("name", DIGESTS)
def test_the_digests_are_the_same_in_plain_mode(
    name: str, benchmarks: dict[str, subprocess.CompletedProcess[str]]
) -> None:
    """The exit status is 1 where a digest differs from bench/digests.json."""
    done = benchmarks[name]
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert name in " ".join(done.stdout.split())
