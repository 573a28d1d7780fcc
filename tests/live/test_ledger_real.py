"""An adaptive ledger on the real Slurm: the nodes' power is its meter, the share that was asked for is kept, and every
job starts.

``WATTQUEUE_LEDGER_S`` sets the duration of the slow test (an hour by default).
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.node_counters import IDLE_W, NODES, NodeCounters, write_adaptive_row
from tests.live.power_model import steady
from tests.live.site import NET_W, Site, cap_text
from tests.live.slurmlab import LabError, wait_for
from tests.live.typical import node_level_w

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
Record = Callable[[str, object], None]
CAPPED_W = 600
"""Of all nodes together above idle."""
ASKED = 0.05


def left(site: Site, jobs: list[str]) -> dict[str, str]:
    """Jobs that have not ended, with their states; one that Slurm has forgotten has ended."""
    states = site.lab.states()
    return {job: states[job] for job in jobs if states.get(job, "COMPLETED") not in ("COMPLETED", "COMPLETING")}


def status_of(home: Path) -> dict[str, Any]:
    """What the controller's status file says."""
    return dict(json.loads((home / "run/status.json").read_text()))


def test_the_share_is_kept_and_every_job_starts(site: Site, record_property: Record) -> None:
    seconds, draw = float(os.environ.get("WATTQUEUE_LEDGER_S", "3600")), random.Random(5)
    home = site.root / "live"
    levels = random.Random(11)
    model = NodeCounters(
        site, len(NODES) * IDLE_W + CAPPED_W, lambda _: steady(node_level_w(levels, NET_W / 2.0) / NET_W)
    )
    jobs: list[str] = []
    with model:
        site.begin(
            cap_text(CAPPED_W),
            policy=write_adaptive_row(home, ASKED, seconds),
            slurm=f"[telemetry]\ntrack_running = false\n{model.sources}\n",
        )
        begin_s = time.monotonic()
        while time.monotonic() < begin_s + seconds:
            site.require_up()
            if site.crowded():
                time.sleep(5.0)
                continue
            nodes = draw.choice(["1", "1", "1", "2", "3"])
            jobs.append(site.lab.submit(f"-N{nodes}", "-t", "1", "-p", "p1,p2", seconds=draw.uniform(3.0, 20.0)))
            time.sleep(draw.expovariate(1.0 / 6.0))
        try:
            wait_for("every job to end", lambda: not left(site, jobs), 600.0, 1.0)
        except LabError as error:
            raise LabError(f"{error}; left: {left(site, jobs)}; {status_of(home)['problems']}") from error
    status = status_of(home)
    share = model.above_s / model.watched_s
    for name, value in (("jobs", len(jobs)), ("watched_s", model.watched_s), ("share above", share)):
        record_property(name, value)
    sys.stderr.write(f"{len(jobs)} jobs, {model.watched_s:.0f} s, {share:.4f} above: {status['promise']}\n")
    assert share <= ASKED
    site.stop()
    site.check_audit()
