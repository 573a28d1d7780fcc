"""What the tests of a real Slurm do beside the controller takes nothing from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.live.site import Site
from wattqueue.live.files.lease import Lease


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A run folder whose heartbeat and lease another thread renews, again and again."""
    run = tmp_path / "live/run"
    run.mkdir(parents=True)
    lab: Any = SimpleNamespace(root=tmp_path)
    site, end = Site(lab), threading.Event()

    def renew() -> None:
        while not end.is_set():
            site.set_beat(0.0)

    thread = threading.Thread(target=renew)
    thread.start()
    yield run
    end.set()
    thread.join()


def test_a_controller_keeps_the_lease_that_a_test_renews(folder: Path) -> None:
    lease = Lease(folder, "controller")
    lease.take(0.0)
    assert all(lease.held() for _ in range(2000)), "it was empty for a moment"


def test_a_controller_that_takes_the_lease_while_a_test_renews_it_keeps_it(folder: Path) -> None:
    for _ in range(300):
        lease = Lease(folder, "controller")
        lease.take(0.0)
        assert all(lease.held() for _ in range(3)), "it was given back to the one before"
