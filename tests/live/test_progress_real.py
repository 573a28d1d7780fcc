"""Rule 19 on the real Slurm: jobs run where the margin lets none start, and one that never fits is set aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.node_counters import NodeCounters
from tests.live.power_model import steady
from tests.live.site import NET_W, Site
from tests.live.slurmlab import wait_for
from wattqueue.live.reports.why import read_why, sentence

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
IDLE_W, ROOM_W = 8 * 100, 300
"""Room for one node at its maximum of 200 W above idle. An unknown job is predicted at that, and both rows keep as
much again for it."""


def state_cap(file: Path, net_w: int) -> None:
    file.write_text(f"time_s,cap_w\n0,{IDLE_W + net_w}\n")


@pytest.mark.parametrize("row", ["easy+pc-adaptive-1", "easy+pc-chance-1"])
def test_jobs_run_one_after_another_beside_one_that_never_fits(site: Site, row: str) -> None:
    home, model = site.root / "live", NodeCounters(site, IDLE_W + ROOM_W, lambda _: steady(0.5))
    state_cap(home / "cap.csv", ROOM_W)
    with model:
        site.begin("cap.csv", policy=row, slurm=f"[telemetry]\ntrack_running = false\n{model.sources}\n")
        wide = site.lab.submit("-N2", "-t", "1", "-p", "p1", seconds=1.0)
        narrow = [site.lab.submit("-N1", "-t", "1", "-p", "p1", seconds=2.0) for _ in range(4)]
        site.lab.wait_states(narrow, ["COMPLETED"])
        assert site.lab.field(wide, "Priority") == "0"
        wait_for("the reason", lambda: "never fits" in why(site, wide), 30.0)
        state_cap(home / "cap.csv", 2 * NET_W)
        site.lab.wait_states([wide], ["COMPLETED"])
    assert model.above_s == 0.0
    site.stop()
    site.check_audit()


def why(site: Site, job: str) -> str:
    """What the controller says of a job that waits."""
    return " ".join(sentence(name, record) for name, record in read_why(site.root / "live/run", job))
