"""How long it takes from a load target to the stop of enough jobs, over a real Slurm: from a file, and from a VTN.

Nothing is asserted about the times; they are printed, for docs/guide/demand-response-live.md.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.live.procs import states_of
from tests.live.site import Site, cap_text
from tests.live.slurmlab import wait_for
from tests.wattqueue_grid.openadr.grid import SECRET, Grid, limit, soon
from wattqueue.live.consent_tags import CONSENT

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
POOL_W, LEFT_W = 1600, 450
TARGETS = 30
POLL_S = 5.0


def run_targets(site: Site, jobs: list[str], state: Callable[[], object], lift: Callable[[], None]) -> list[float]:
    """State and lift targets; return the seconds from each to the stop of so many jobs that the pool is within it."""

    def parked() -> bool:
        site.require_up()
        if site.used_w()[0] > LEFT_W:
            return False
        still = sum(states_of(str(site.root), f"SLURM_JOB_ID={job}") == {"T"} for job in jobs)
        return 200 * (len(jobs) - still) <= LEFT_W

    found = []
    for _ in range(TARGETS):
        site.wait_running(jobs)
        site.wait_used(POOL_W)
        begin_s = time.monotonic()
        state()
        wait_for("the drop", parked, step_s=0.1)
        found.append(time.monotonic() - begin_s)
        lift()
    return found


def print_times(what: str, found: list[float], record_property: Callable[[str, object], None]) -> None:
    p50, p99 = np.quantile(found, [0.5, 0.99])
    text = f"{len(found)} targets {what}: median {p50:.1f} s, p99 {p99:.1f} s, longest {max(found):.1f} s"
    sys.stderr.write(f"\n{text}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    record_property(what, text)
    assert len(found) == TARGETS


def begin(site: Site, slurm: str, **more: str) -> list[str]:
    """Start a controller with a round a second, and a consenting job on each of the eight nodes."""
    site.keep_beating()
    config = site.configure(cap_text(POOL_W), policy="dr-parking", period_s=1.0, slurm=slurm, **more)
    jobs = [site.gated("-N1", "-t600", f"-p{name}", f"--comment={CONSENT}") for name in ("p1", "p2") for _ in range(4)]
    site.start(config)
    site.wait_running(jobs)
    return jobs


def test_targets_from_a_file(site: Site, record_property: Callable[[str, object], None]) -> None:
    """A target is stated by a file that appears, and lifted by its removal."""
    jobs = begin(site, "[consent]", targets="targets.csv")
    file = site.root / "live/targets.csv"

    def state() -> None:
        now_s, part = time.time(), file.with_suffix(".part")
        part.write_text(f"start_s,end_s,limit,unit,notice_s\n{now_s - 1},{now_s + 900},{800 + LEFT_W},W,3600\n")
        part.rename(file)

    print_times("from a file", run_targets(site, jobs, state, file.unlink), record_property)
    site.open_gate(*jobs)


def test_targets_from_a_vtn(site: Site, grid: Grid, record_property: Callable[[str, object], None]) -> None:
    """The controller asks the VTN every ``POLL_S``."""
    secret = site.root / "live/secret"
    secret.touch(0o600)
    secret.write_text(f"{SECRET}\n")
    home = (site.root / "live").stat()
    os.chown(secret, home.st_uid, home.st_gid)
    ven = f'vtn = "{grid.url}"\nclient_id = "ven"\nclient_secret_file = "secret"\nven_name = "lab"\npoll_s = {POLL_S}'
    jobs = begin(site, f"[consent]\n[openadr]\n{ven}\nmqtt = false")
    program, events = grid.program(), list[str]()

    def state() -> None:
        events.append(grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", (800 + LEFT_W) / 1e3, start_s=soon(-60))))

    found = run_targets(site, jobs, state, lambda: grid.delete(events[-1]))
    print_times("from a VTN", found, record_property)
    site.open_gate(*jobs)
