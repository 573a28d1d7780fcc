"""Telemetry never makes the cap weaker, on a real Slurm: meters that stand still, quiet starts, and a mixed hour.

``WATTQUEUE_TELEMETRY_CAP_S`` sets the length of the jobs of each short test (20 s by default), ``WATTQUEUE_MIXED_S``
for how long the mixed hour submits jobs.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable

import pytest

from tests.live.node_counters import IDLE_W, NODES, NodeCounters, write_adaptive_row
from tests.live.power_model import FULL, Phases, quiet_then_full
from tests.live.site import NET_W, Site, cap_text
from tests.live.slurmlab import wait_for
from tests.live.typical import node_level_w

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-3")]
Record = Callable[[str, object], None]
CAPPED_W = 600
"""Of all nodes together above idle: three nodes at their maximum."""
CAP_W = len(NODES) * IDLE_W + CAPPED_W
SHORT_S = float(os.environ.get("WATTQUEUE_TELEMETRY_CAP_S", "20"))
QUIET_S = min(38.0, 0.6 * SHORT_S)
"""For so long an honest job draws a tenth of what its nodes can draw: longer than the default ``warm_up_s``."""
ASKED = 0.05


def finish(site: Site, jobs: list[str]) -> None:
    """Wait until every job has ended."""
    ended, states = {"COMPLETED", "COMPLETING"}, site.lab.states
    wait_for("every job to end", lambda: all(states().get(j, "COMPLETED") in ended for j in jobs), 900.0, 1.0)


def run_short(site: Site, counters: NodeCounters, settings: str) -> list[str]:
    """More jobs than the cap lets run, each long enough for its licence to follow what is measured."""
    with counters:
        site.begin(cap_text(CAPPED_W), slurm=f"[telemetry]\n{settings}\n{counters.sources}\n")
        seconds = QUIET_S + 0.4 * SHORT_S
        jobs = [site.lab.submit("-N1", "-t", "5", "-p", "p1,p2", seconds=seconds) for _ in range(6)]
        wait_for("three jobs to run", lambda: len(site.running()) == 3)
        finish(site, jobs)
    site.stop()
    site.check_audit()
    return jobs


CASES = [("a meter that stands still", FULL, 1.1 * IDLE_W), ("quiet starts", quiet_then_full(QUIET_S), None)]


@pytest.mark.parametrize(("case", "phases", "shown_w"), CASES)
def test_with_the_defaults_power_stays_within_the_cap(
    site: Site, case: str, phases: Phases, shown_w: float | None
) -> None:
    counters = NodeCounters(site, CAP_W, lambda _: phases, shown_w)
    run_short(site, counters, "")
    sys.stderr.write(f"{case}: {counters.watched_s:.0f} s, {counters.above_s:.1f} above, most {counters.most_w:.0f}\n")
    assert counters.above_s == 0.0
    assert counters.most_w == CAP_W, "the cap was used: three jobs at their maximum"


@pytest.mark.slow
def test_the_same_jobs_exceed_the_cap_where_the_site_accepts_it(site: Site) -> None:
    """What the tests above look for is there to be found."""
    counters = NodeCounters(site, CAP_W, lambda _: quiet_then_full(QUIET_S), None)
    run_short(site, counters, 'track_running = true\naccepted_overshoot = "100%"\nsettle_s = 3.0')
    assert counters.above_s > 0.0


def shape_of(draw: random.Random, level: float) -> Phases:
    """The phases of an honest job that draws so large a share at most: one of four kinds."""
    kind, begin_s, period_s = draw.randrange(4), draw.uniform(5.0, 38.0), draw.uniform(8.0, 30.0)
    low = draw.uniform(0.1, 0.4) * level
    if kind == 0:
        return lambda age_s: 0.1 * level if age_s < begin_s else level
    if kind == 1:
        return lambda age_s: level if int(age_s / period_s) % 2 else low
    if kind == 2:
        return lambda age_s: low + (level - low) * min(1.0, age_s / (2.0 * begin_s))
    return lambda _: level


@pytest.mark.slow
@pytest.mark.parametrize("row", ["easy", "adaptive"])
def test_a_mixed_hour_keeps_what_the_row_promises(site: Site, row: str, record_property: Record) -> None:
    """Quiet starts, phases, ramps, and all running jobs that begin again at one moment, twice.

    ``easy`` promises that power is never above the cap. ``adaptive`` promises a share of the time, and its licences
    follow what is measured.
    """
    seconds, draw = float(os.environ.get("WATTQUEUE_MIXED_S", "3600")), random.Random(5)
    level_of: dict[str, float] = {}

    def phases(job: str) -> Phases:
        # of one kind whenever the job begins again
        level = level_of.setdefault(job, node_level_w(draw, NET_W / 2.0) / NET_W)
        return shape_of(random.Random(int(job)), 1.0 if row == "easy" else level)

    counters, home, asked = NodeCounters(site, CAP_W, phases), site.root / "live", 0.0
    settings, policy = "", "easy"
    if row == "adaptive":
        asked, settings, policy = ASKED, "track_running = true", write_adaptive_row(home, ASKED, seconds)
    jobs: list[str] = []
    restarts = [seconds / 3.0, 2.0 * seconds / 3.0]
    with counters:
        site.begin(cap_text(CAPPED_W), policy=policy, slurm=f"[telemetry]\n{settings}\n{counters.sources}\n")
        begin_s = time.monotonic()
        while time.monotonic() < begin_s + seconds:
            site.require_up()
            if site.crowded():
                time.sleep(5.0)
                continue
            nodes = draw.choice(["1", "1", "1", "2", "3"])
            longest_s = min(90.0, seconds / 8.0)
            jobs.append(site.lab.submit(f"-N{nodes}", "-t", "5", "-p", "p1,p2", seconds=draw.uniform(5.0, longest_s)))
            time.sleep(draw.expovariate(1.0 / (longest_s / 4.0)))
            if restarts and time.monotonic() >= begin_s + restarts[0]:
                restarts.pop(0)
                site.lab.run(["scontrol", "requeue", ",".join(site.running())], check=False)
        finish(site, jobs)
    status = json.loads((home / "run/status.json").read_text())
    share = counters.above_s / counters.watched_s
    for name, value in (("jobs", len(jobs)), ("watched_s", counters.watched_s), ("share above", share)):
        record_property(name, value)
    sys.stderr.write(
        f"{row}: {len(jobs)} jobs, {counters.watched_s:.0f} s, {share:.4f} above, most {counters.most_w:.0f} W of "
        f"{CAP_W:.0f}: {status['promise']}\n"
    )
    assert share <= asked
    site.stop()
    site.check_audit()
