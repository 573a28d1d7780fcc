"""Fixtures and set-up that every test shares."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import tests.profiles  # noqa: F401  loads the profile of this run

pytest_plugins = ["tests.live.fixtures"]

MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it are made by tempfile
"""A file system in memory, where the system has one."""
ROOM_BYTES = 4 << 30
"""Free memory there with which all folders of a run fit it several times."""


def pytest_configure() -> None:
    """Keep temporary folders in memory where there is room.

    Controllers write their state, audit and status in every round and wait for the disk, which took half of the time of
    their tests. Programs that tests write must be able to run there.
    """
    if "TMPDIR" not in os.environ and MEMORY.is_dir():
        found = os.statvfs(MEMORY)
        if found.f_bavail * found.f_frsize > ROOM_BYTES and not found.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"] = str(MEMORY)
            tempfile.tempdir = None  # read again where a folder is made next


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real traces; tests that want it are skipped, with this reason, where there is none."""
    where = os.environ.get("WATTQUEUE_DATA")
    if not where:
        pytest.skip("needs real traces: set WATTQUEUE_DATA to their folder")
    folder = Path(where)
    if not folder.is_dir():
        pytest.fail(f"WATTQUEUE_DATA={where} is not a folder")
    return folder


@pytest.fixture(autouse=True)
def leaves_the_process_as_it_was() -> Iterator[None]:
    """No test leaves the process in another folder, where later tests would not find the programs that they start, or
    with an alarm, which would end any of them."""
    before = Path.cwd()
    yield
    after, alarm_s = Path.cwd(), signal.setitimer(signal.ITIMER_REAL, 0.0)[0]
    os.chdir(before)
    assert after == before
    assert alarm_s == 0.0


@pytest.fixture
def signals_heard() -> Iterator[None]:
    """What a test starts hears signals: a run that nohup or ``&`` has started ignores some, as would its children."""
    ignored = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def pytest_collection_finish() -> None:
    """Keep what was imported and collected, half a million objects, out of each collection of garbage: a tenth of the
    time of quick tests went there."""
    gc.freeze()


FIRST = ("slurm", "slurm-2", "slurm-3", "arena-2", "flux", "arena")
"""Groups that mostly wait, each for a Slurm or a Flux of its own: they begin at once, and others work meanwhile.

The groups of Slurm take about as long as each other (``pytest -m slurm --durations=0`` names each test's group).
"""
READ_ALL = "tests/architecture"
"""A folder whose tests read all sources, which one process keeps."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the groups of ``--dist loadgroup`` on every worker alike: what takes long begins early.

    Tests that share a fixture or a kept result of their module share a worker, so that it is made once. A name that
    holds an address of memory differs on each worker, which would end the run there, and only there.
    """
    if addressed := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"tests are named by addresses of memory: {', '.join(addressed)}")
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None and (group := _group(item)):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_rank)


def _group(item: pytest.Item) -> str | None:
    """The group of a test that shares something with others: its folder or its file."""
    assert isinstance(item, pytest.Function)
    if item.location[0].startswith(READ_ALL):
        return READ_ALL
    known = item._fixtureinfo.name2fixturedefs
    fixtures = any(d.scope == "module" and d.baseid == item.location[0] for found in known.values() for d in found)
    return item.location[0] if fixtures or _keeps(item.module) else None


@cache
def _keeps(module: ModuleType) -> bool:
    """Whether a module of tests has a function that keeps its results."""
    mine = (found for found in vars(module).values() if getattr(found, "__module__", None) == module.__name__)
    return any(hasattr(found, "cache_parameters") for found in mine)


def _rank(item: pytest.Item) -> int:
    """The groups that wait, all other groups, single tests."""
    mark = item.get_closest_marker("xdist_group")
    name = mark.args[0] if mark is not None else None
    return FIRST.index(name) if name in FIRST else len(FIRST) + (name is None)
