"""Nodes asked for by name on a real Slurm: those of least watts, with the watts of these very nodes."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.live.site import Site, cap_text
from tests.live.slurmlab import USER, wait_for
from wattqueue.formats.slurm.hostlist import compress
from wattqueue.formats.unit_factors import write_unit_factors
from wattqueue.live.recordings.recorded_schedule import read_recording
from wattqueue.model.unit_table import UnitTable
from wattqueue.sim.replay import replay

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]

WATTS = np.array([[230.4, 210.3, 250.2, 190.1, 240.0, 240.0, 240.0, 220.0]])
"""Watts of the application cg on n1 to n8; 100 W of them are idle watts."""
POLICY = """
[apart]
backfill = "easy"
estimator = { part = "unit-watts", table = "{home}/factors.csv" }
placement = "least-watts"
"""


def begin(site: Site, cap_w: int = 1600) -> None:
    home = site.root / "live"
    write_unit_factors(home / "factors.csv", UnitTable.of_watts(["cg"], [str(k) for k in range(8)], WATTS))
    (home / "policy.toml").write_text(POLICY.replace("{home}", str(home)))
    site.begin(cap_text(cap_w), policy=f"{home}/policy.toml:apart", start_timeout_s=3.0)


def test_jobs_get_the_nodes_of_least_watts_and_their_licences(site: Site) -> None:
    begin(site)
    lab = site.lab
    one = site.gated("-N1", "-J", "cg", "-p", "p1")
    lab.wait_states([one], ["RUNNING"])
    assert lab.field(one, "NodeList") == lab.field(one, "ReqNodeList") == "n4"
    assert lab.field(one, "Licenses") == "watts:91"
    two = site.gated("-N2", "-J", "cg", "-p", "p1")
    lab.wait_states([two], ["RUNNING"])
    assert lab.field(two, "NodeList") == lab.field(two, "ReqNodeList") == "n[1-2]"
    assert lab.field(two, "Licenses") == "watts:241"
    new = site.gated("-N1", "-J", "new", "-p", "p2")
    lab.wait_states([new], ["RUNNING"])
    assert lab.field(new, "Licenses") == "watts:200", "never profiled: the maximum"
    own = site.gated("-N1", "-J", "cg", "-p", "p2", "-w", "n6")
    lab.wait_states([own], ["RUNNING"])
    assert lab.field(own, "NodeList") == "n6"
    assert lab.field(own, "Licenses") == "watts:140", "its user chose: it counts the worst node of p2"
    assert site.used_w()[0] == 91 + 241 + 200 + 140
    nodes = {job: lab.field(job, "NodeList") for job in (one, two, new, own)}
    starts = {job: lab.field(job, "StartTime") for job in nodes}
    time.sleep(1.0)  # three rounds: a job that starts and ends between two polls is not in the recording
    site.open_gate(*nodes)
    site.wait_ended([*nodes], 1600)
    site.stop()
    site.check_audit()
    read = read_recording(site.root / "live/views.jsonl")
    rows = {str(name): row for row, name in enumerate(read.jobs.job_id)}
    for job, row in rows.items():
        assert compress([f"n{unit + 1}" for unit in read.units_of(row)]) == nodes[job]
        assert time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(read.schedule.start_s[row])) == starts[job]
    again = replay(read, starts="recorded")
    assert again.schedule.start_s.tolist() == read.schedule.start_s.tolist()


def test_a_job_that_may_not_have_the_chosen_node_is_taken_back_without_it(site: Site) -> None:
    """Its user excludes the node of least watts, which the controller does not see."""
    begin(site)
    lab = site.lab
    job = site.gated("-N1", "-J", "cg", "-p", "p1", "-x", "n4")

    # Slurm holds it itself (BadConstraints), and would release it at the next change of its nodes
    wait_for("the controller's hold", lambda: lab.field(job, "Reason") == "JobHeldAdmin")
    wait_for("no node to be asked for", lambda: lab.field(job, "ReqNodeList") == "(null)")
    time.sleep(3.0)
    assert lab.states()[job] == "PENDING"
    assert lab.field(job, "Licenses") == "watts:200"
    site.stop()
    rows = [r for r in site.check_audit() if r["target"] == job and r["event"] == "intend"]
    assert [r["kind"] for r in rows] == ["update", "release", "hold", "update"]


def test_another_node_is_chosen_where_the_best_one_is_drained(site: Site) -> None:
    lab = site.lab
    lab.run(["scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=test"])
    try:
        begin(site)
        job = site.gated("-N1", "-J", "cg", "-p", "p1")
        lab.wait_states([job], ["RUNNING"])
        assert lab.field(job, "NodeList") == "n2"
        assert lab.field(job, "Licenses") == "watts:111"
        site.open_gate(job)
        site.stop()
    finally:
        lab.run(["scontrol", "update", "NodeName=n4", "State=RESUME"])


def test_a_user_cannot_move_a_released_job_to_nodes_that_draw_more(site: Site) -> None:
    lab = site.lab
    site.keep_beating()
    first, second = (site.gated("-N1", "-J", "cg", "-p", "p1", "-w", "n4") for _ in range(2))
    moved = ["scontrol", "update", f"JobId={second}", "ReqNodeList=n4"]
    assert lab.run(moved, user=USER, check=False).code == 0, "a job that waits is its user's"
    lab.run(["scontrol", "release", first])
    lab.wait_states([first], ["RUNNING"])
    lab.run(["scontrol", "release", second])
    wait_for("the second to wait for the node", lambda: lab.field(second, "Priority") != "0")
    assert lab.run([*moved[:3], "ReqNodeList=n3"], user=USER, check=False).code != 0
    assert lab.field(second, "ReqNodeList") == "n4"
    site.open_gate(first, second)
