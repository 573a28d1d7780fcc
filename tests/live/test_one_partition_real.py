"""Install and control one partition of a real Slurm; the other one is as if nothing had been installed."""

from __future__ import annotations

import time

import pytest

from tests.live.site import NET_W, Site
from tests.live.slurmlab import OPERATOR, wait_for
from wattqueue.live.config import load_config
from wattqueue.live.slurm.guard import Guard, settings_of
from wattqueue.live.slurm.install import LUA, install

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]


def test_one_partition_is_managed_and_the_other_left_alone(site: Site) -> None:
    """A cap of 400 W above the idle watts of p1's four nodes: two jobs there; all of p2 runs at once beside it."""
    lab, etc = site.lab, site.root / "etc"
    before = (etc / LUA).read_text()
    file = site.configure(f"{4 * 100 + 2 * NET_W}W", slurm='only = ["p1"]', user=OPERATOR)
    config, slurm = load_config(file), lab.commands
    settings = settings_of(config, slurm)
    assert (set(settings.data.nodes), set(settings.data.free)) == ({"p1"}, {"p2"})
    try:
        install(etc, settings, None)
        lab.run(["scontrol", "reconfigure"])
        assert [one.what for one in Guard.of(config, slurm).check(slurm) if one.fatal] == []
        site.start(file)
        site.wait_up()
        site.wait_open(2 * NET_W)
        managed = [site.gated("-N1", "-p", "p1") for _ in range(3)]
        other = [site.gated("-N1", "-p", "p2") for _ in range(3)]
        wait_for("the two that fit, and all of p2", lambda: len(site.running()) == 5, step_s=0.1)
        assert set(other) < set(site.running())
        assert {lab.field(job, "Licenses") for job in other} == {"(null)"}, "they carry no watts"
        assert lab.field(managed[2], "Priority") == "0", "held: the budget is in use"
        both = site.gated("-N1", "-p", "p1,p2")
        time.sleep(2.0)
        assert lab.states()[both] == "PENDING", "it names a managed partition, so it waits for watts"
        site.open_gate(*managed[:2])
        site.wait_running([managed[2], both])
        assert lab.field(both, "Partition") == "p1"
        assert site.used_w()[0] == 2 * NET_W
        site.open_gate(managed[2], both, *other)
        site.stop()
        targets = {row["target"] for row in site.check_audit() if row["event"] == "intend"}
        assert targets.isdisjoint(other), "nothing was written to jobs of the other partition"
    finally:
        (etc / LUA).write_text(before)
        lab.run(["scontrol", "reconfigure"])
