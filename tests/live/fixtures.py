"""The real Slurm as a fixture: one for the session, cleaned before each test that asks for it.

A plugin (tests/conftest.py), since tests of several folders share it. What it needs is imported where it is used.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.live.site import Site
    from tests.live.slurmlab import SlurmLab

RELEASE = "WATTQUEUE_SLURM_RELEASE"
"""The variable that names the release of a run of the tests."""


@pytest.fixture
def lab_folder() -> Iterator[Path]:
    """A folder that users other than root can walk through (pytest's own is closed to them)."""
    folder = Path(tempfile.mkdtemp(prefix="wattqueue-lab-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def lab(driven: SlurmLab) -> SlurmLab:
    """The session's Slurm without a job or a reservation."""
    driven.clear()
    return driven


@pytest.fixture(scope="session")
def slurm_release() -> str:
    """The release of Slurm under test; skips, with the reason, where it is not at hand."""
    from tests.live.releases import absent, under_test

    reason = absent(under_test())
    if reason is not None:
        pytest.skip(reason)
    return under_test()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With WATTQUEUE_SLURM_RELEASE, leave out what needs no Slurm; the rest takes the release named there."""
    if os.environ.get(RELEASE):
        others = [item for item in items if item.get_closest_marker("slurm") is None]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


@pytest.fixture(scope="session")
def driven(slurm_release: str) -> Iterator[SlurmLab]:
    """A real Slurm with our script and a folder for the controller's account, shared by the session."""
    from tests.live.site import bring_up

    yield from bring_up(slurm_release)


@pytest.fixture
def site(driven: SlurmLab) -> Iterator[Site]:
    from tests.live.site import Site

    driven.clear()
    place = Site(driven)
    for old in (driven.root / "live").glob("*"):
        if old.is_file():
            old.unlink()
    yield place
    place.stop()
    if (driven.root / "live/run/beat").exists():
        (driven.root / "live/run/beat").unlink()
