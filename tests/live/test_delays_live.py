"""Jobs whose users consent wait for a cheaper hour, over the fake Slurm: from round to round, and over a restart."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.live.test_parking import Place
from wattqueue.live.consent_tags import CONSENT

CHEAP_S, DEAR_S = 60.0, 600.0
"""The price is low from the one to the other, after the begin."""


def until(at_s: float) -> str:
    """Consent up to a latest end."""
    return f"{CONSENT},until={datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A controller of a row that delays jobs by price."""
    found = Place(tmp_path, "easy")
    begin_s = found.slurm.now_s
    rows = ((0.0, 90), (CHEAP_S, 30), (DEAR_S, 80))
    (tmp_path / "prices.csv").write_text(
        "time_s,price\n" + "".join(f"{begin_s + after},{price}\n" for after, price in rows)
    )
    (tmp_path / "row.toml").write_text('[cheap]\ncontrols = [{ part = "delay-consenting", prices = "prices.csv" }]\n')
    found.row = f"{tmp_path}/row.toml:cheap"
    found.restart()
    return found


def test_a_consenting_job_waits_for_the_cheap_hour_and_others_start(place: Place) -> None:
    begin_s = place.slurm.now_s
    willing = place.submit(1, until(begin_s + 3_600.0))
    endless, other = place.submit(1), place.submit(1, "")
    soon = place.submit(1, until(begin_s + 340.0))  # its limit is 300 s: it may be delayed by 40 s at most
    place.rounds(20)
    assert (willing.state, endless.state, other.state) == ("PENDING", "RUNNING", "RUNNING")
    place.rounds(60)
    assert willing.start_s - begin_s == pytest.approx(CHEAP_S, abs=3.0)
    assert soon.start_s - begin_s == pytest.approx(40.0, abs=3.0)


def test_a_controller_that_is_started_again_decides_the_same(place: Place) -> None:
    begin_s = place.slurm.now_s
    job = place.submit(1, until(begin_s + 3_600.0))
    place.rounds(10)
    place.restart()
    place.rounds(30)
    assert job.state == "PENDING"
    place.rounds(30)
    assert job.start_s - begin_s == pytest.approx(CHEAP_S, abs=3.0)
