"""An adaptive ledger on the real Slurm: the nodes' power is its meter, the share that was asked for is kept, and every
job starts.

``WATTQUEUE_LEDGER_S`` sets the duration of the slow test (an hour by default).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live import typical
from tests.live.site import NET_W, Site, cap_text
from tests.live.slurmlab import wait_for
from tests.live.typical import node_level_w
from wattqueue.formats.slurm.hostlist import expand

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
Record = Callable[[str, object], None]
NODES = tuple(f"n{k}" for k in range(1, 9))
IDLE_W, CAPPED_W = 100.0, 600
"""Of an idle node; of all nodes together above idle."""
ASKED = 0.05
ROW = """
["quick"]
source = "a test"
estimator = "{estimator}"
order = "fcfs"
frequency = "highest"
placement = "lowest"
backfill = "easy"
ledger = {{ part = "adaptive", epsilon = {asked}, window_days = {days}, meter_s = 2.0, late = 0, forget_s = 10.0 }}
controls = []
"""


@dataclass
class PowerModel:
    """Writes what the nodes draw, twice a second, where the controller reads it."""

    site: Site
    folder: Path
    draw: random.Random = field(default_factory=lambda: random.Random(11))
    level_w: dict[str, float] = field(default_factory=dict)
    watched_s: float = 0.0
    above_s: float = 0.0
    end: threading.Event = field(default_factory=threading.Event)

    def node_w(self, job: str) -> float:
        """Watts above idle of each node of a job."""
        if job not in self.level_w:
            self.level_w[job] = node_level_w(self.draw, NET_W / 2.0)
        return self.level_w[job]

    def write(self) -> float:
        """Write one reading of each node; returns the watts of all."""
        text = self.site.lab.run(["squeue", "-h", "-t", "R", "-o", "%i %N"]).out
        watts = dict.fromkeys(NODES, IDLE_W)
        for line in text.splitlines():
            job, _, nodes = line.partition(" ")
            watts |= dict.fromkeys(expand(nodes), IDLE_W + self.node_w(job))
        for name, drawn in watts.items():
            place = self.folder / name
            place.mkdir(parents=True, exist_ok=True)
            written = place / "power.new"
            written.write_text(f"{round(drawn * (1.0 + self.draw.gauss(0.0, 0.01)))} W {int(time.time() * 1e6)} us\n")
            written.replace(place / "power")
        return sum(watts.values())

    def run(self) -> None:
        last_s, drawn_w = time.monotonic(), self.write()
        while not self.end.wait(0.5):
            now_s = time.monotonic()
            self.watched_s += now_s - last_s
            self.above_s += now_s - last_s if drawn_w > 8 * IDLE_W + CAPPED_W else 0.0
            last_s, drawn_w = now_s, self.write()


def test_the_share_is_kept_and_every_job_starts(site: Site, record_property: Record) -> None:
    seconds, draw = float(os.environ.get("WATTQUEUE_LEDGER_S", "3600")), random.Random(5)
    home = site.root / "live"
    model = PowerModel(site, site.root / "counters")
    model.write()
    (home / "quick.toml").write_text(
        ROW.format(estimator=f"{home}/typical.py:Typical", asked=ASKED, days=seconds / 86_400.0)
    )
    shutil.copy(typical.__file__, home / "typical.py")
    counters = "\n".join(f'{name} = "{model.folder / name}"' for name in NODES)
    telemetry = f"[telemetry]\ntrack_running = false\n[telemetry.pm_counters]\n{counters}\n"
    writer = threading.Thread(target=model.run, daemon=True)
    writer.start()
    jobs: list[str] = []
    try:
        site.begin(
            cap_text(CAPPED_W),
            policy=f"{home}/quick.toml:quick",
            slurm=telemetry,
        )
        begin_s = time.monotonic()
        while time.monotonic() < begin_s + seconds:
            site.require_up()
            nodes = draw.choice(["1", "1", "1", "2", "3"])
            jobs.append(site.lab.submit(f"-N{nodes}", "-t", "1", "-p", "p1,p2", seconds=draw.uniform(3.0, 20.0)))
            time.sleep(draw.expovariate(1.0 / 6.0))
        ended = {"COMPLETED", "COMPLETING"}
        states = site.lab.states
        wait_for("every job to end", lambda: all(states().get(j, "COMPLETED") in ended for j in jobs), 600.0, 1.0)
    finally:
        model.end.set()
        writer.join(30.0)
    status = json.loads((home / "run/status.json").read_text())
    share = model.above_s / model.watched_s
    for name, value in (("jobs", len(jobs)), ("watched_s", model.watched_s), ("share above", share)):
        record_property(name, value)
    sys.stderr.write(f"{len(jobs)} jobs, {model.watched_s:.0f} s, {share:.4f} above: {status['promise']}\n")
    assert share <= ASKED
    site.stop()
    site.check_audit()
