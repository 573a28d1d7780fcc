"""What a site has settled: parsing what Slurm 22.05 printed, the formula of priorities, and what a round leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.live.cluster import JobKey, LimitUse, SiteConstraints
from wattqueue.live.slurm.associations import limits_of, parse_associations, parse_shares
from wattqueue.live.slurm.job_facts import parse_facts, parse_tres
from wattqueue.live.slurm.multifactor import TIER, Factors, JobFactors, PartitionFactors, parse_partitions, weights_of
from wattqueue.live.slurm.site import other_licences
from wattqueue.live.slurm.sizing import Shape
from wattqueue.live.slurm.suitable import (
    NodeTraits,
    able_nodes,
    closed_nodes,
    has_features,
    parse_features,
    parse_reservations,
)
from wattqueue.live.table import Stage
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import SITE_PRIORITY, Prediction
from wattqueue.parts.order.slurm_priority import SlurmPriority

NONE = "GrpTRES=cpu=N(0),node=N(0)"
MANAGER = f"""Current Association Manager state
ClusterName=lab Account=root UserName= Partition= Priority=0 ID=1 ParentAccount= GrpJobs=N(1) {NONE} MaxJobs=
ClusterName=lab Account=all UserName= Partition= Priority=0 ID=3 ParentAccount=root(1) GrpJobs=9(1) {NONE} MaxJobs=
ClusterName=lab Account=a2 UserName= Partition= Priority=0 ID=9 ParentAccount=all(3) GrpJobs=2(1) \
GrpTRES=cpu=40(16),mem=N(0),node=3(1) MaxJobs=5(1)
ClusterName=lab Account=a2 UserName=ada(7) Partition= Priority=4 ID=12 ParentAccount= GrpJobs=N(1) {NONE} MaxJobs=5(1)
QOS Records
QOS=high(2) GrpJobs=7(1) GrpTRES=cpu=N(16),node=N(1) Priority=100 \
Account Limits= a2={{MaxJobsPA=N(1) MaxTRESPA=cpu=N(1)}} User Limits= 7={{MaxJobsPU=N(1) MaxTRESPU=cpu=64(16),mem=N(0)}}
QOS=low(3) GrpJobs=N(0) {NONE} Priority=20 Account Limits=No Accounts User Limits=No Users
"""
RESERVATIONS = """ReservationName=r1 StartTime=1000 EndTime=2000 Nodes=n[5-6] Flags=SPEC_NODES State=ACTIVE
ReservationName=wattqueue StartTime=1000 EndTime=2000 Nodes=(null) Licenses=watts:400 Flags=ANY_NODES State=ACTIVE
ReservationName=window StartTime=5000 EndTime=9000 Nodes=n[1-8] Flags=MAINT,IGNORE_JOBS State=INACTIVE
"""


def test_limits_of_a_job_and_where_its_qos_decides() -> None:
    found = parse_associations(MANAGER)
    assert found.qos["high"].by_user == {"cpu": 64.0}
    plain = {name: most for name, _, most in limits_of(found, 12, 7, ("low",))}
    assert plain == {
        "of account a2 jobs": 2.0, "of account a2 cpu": 40.0, "of account a2 node": 3.0, "of account all jobs": 9.0,
        "MaxJobs of ada in account a2": 5.0,
    }  # fmt: skip
    high = {name: most for name, _, most in limits_of(found, 12, 7, ("high",))}
    assert high["QOS high jobs"] == 7.0
    assert high["QOS high of each user (uid 7) cpu"] == 64.0
    assert "of account a2 jobs" not in high, "the QOS states the same limit, so Slurm does not look at the account's"
    assert high["of account a2 cpu"] == 40.0


def test_fair_shares_are_fractions_again() -> None:
    found = parse_shares("root||\n root|root||0.333333\n a|ada||0.666667\n a|bob||1.000000\n")
    assert found == {("root", "root", ""): 1 / 3, ("a", "ada", ""): 2 / 3, ("a", "bob", ""): 1.0}


def test_the_formula_as_sprio_printed_it() -> None:
    """Job 3 of a trial on Slurm 22.05: age 14490, job size 542, partition 20000, QOS 10000 and fair share 12500."""
    config = {
        "PriorityType": "priority/multifactor", "PriorityWeightAge": "36000", "PriorityMaxAge": "01:00:00",
        "PriorityWeightFairShare": "100000", "PriorityWeightJobSize": "1000", "PriorityWeightPartition": "20000",
        "PriorityWeightQOS": "50000", "PriorityWeightTRES": "(null)", "PriorityFlags": "", "PriorityFavorSmall": "No",
    }  # fmt: skip
    partitions = parse_partitions("PartitionName=p1 PriorityJobFactor=1 PriorityTier=1 QoS=N/A TRES=cpu=64,mem=125G\n")
    assert partitions["p1"] == PartitionFactors(1, 1, {"cpu": 64.0, "mem": 128000.0}, "")
    factors = Factors(
        weights_of(config), partitions, parse_associations(MANAGER), {("a2", "ada", ""): 0.125}, 8, 96
    )  # fmt: skip
    job = JobFactors(12, "low", 0, 8, 8, {}, 600.0, 100.0)
    assert factors.by_partition(job, ("p1",), 100.0 + 1449.0) == {"p1": TIER + 57531.0}
    assert factors.by_partition(job._replace(nice=60000), ("p1",), 1549.0) == {"p1": TIER + 1.0}, "never below 1"


@pytest.mark.parametrize("wrong", ["1.2.3", "..", "²", "1e999", "nan", "-5", "9" * 400, ""])
def test_settings_that_are_no_numbers_count_nothing(wrong: str) -> None:
    config = {
        "PriorityWeightAge": wrong,
        "PriorityWeightTRES": f"CPU=7,Mem={wrong},GRES/gpu=2.5",
        "PriorityMaxAge": wrong,
    }
    weights = weights_of(config)
    assert (weights.age, weights.tres) == (0.0, {"CPU": 7.0, "GRES/gpu": 2.5})
    found = parse_partitions(
        f"PartitionName=p1 PriorityJobFactor={wrong} PriorityTier={wrong} QoS=N/A TRES=cpu={wrong}"
    )
    assert found["p1"][:2] == (1, 1)


def test_priority_basic_is_the_order_of_submission() -> None:
    factors = Factors(weights_of({"PriorityType": "priority/basic"}), {}, parse_associations(""), {}, 8, 96)
    assert factors.by_partition(JobFactors(0, "", 5, 1, 1, {}, 60.0, 0.0), ("p1",), 9.0) == {"p1": TIER}


def test_facts_of_jobs() -> None:
    line = "7_2|1000|12|high|10|16-32|2|N/A|cpu=16,mem=62.50G,node=2,license/watts=400|r1|a|b\nno job\n"
    found = parse_facts(line, "7_2|1000|n[1-2]\n8|1000|\n")
    facts = found[JobKey("7_2", 1000.0)]
    assert (facts.association, facts.qos, facts.nice, facts.cpus, facts.nodes) == (12, "high", 10, 16, 2)
    assert (facts.eligible_s, facts.reservation, facts.features) == (0.0, "r1", "a|b")
    assert facts.tres == {"cpu": 16.0, "mem": 64000.0, "node": 2.0, "license/watts": 400.0}
    assert facts.excluded == {"n1", "n2"}
    assert parse_tres("gres/gpu=2,cpu=N(0),billing=1.5K") == {"gres/gpu": 2.0, "billing": 1500.0}


def test_reservations_close_nodes_to_others() -> None:
    found = parse_reservations(RESERVATIONS)
    assert [one.name for one in found] == ["r1", "window"], "a reservation of licences has no nodes"
    assert closed_nodes(found, 1500.0, 60.0, "") == {"n5", "n6"}
    assert closed_nodes(found, 1500.0, 60.0, "r1") == frozenset()
    assert closed_nodes(found, 1500.0, 3600.0, "r1") == {f"n{k}" for k in range(1, 9)}, "it would run into the window"
    assert closed_nodes(found, 2000.0, 3000.0, "") == frozenset(), "r1 is over, and the job ends at the window's begin"


def test_features_and_resources() -> None:
    both = frozenset({"fast", "big"})
    assert has_features("fast&big", both)
    assert has_features("fast,big", both)
    assert has_features("slow|big", both)
    assert not has_features("slow&big", both)
    assert has_features("[slow*2&fast*1]", both), "what is not computed restricts nothing"
    groups = {"p1": ((_traits("fast"), frozenset({"n1", "n2"})), (_traits(), frozenset({"n3"})))}
    assert able_nodes(groups, ["p1"], "", frozenset(), None) is None
    assert able_nodes(groups, ["p1"], "fast", frozenset({"n2"}), None) == frozenset({"n1"})
    assert parse_features("n[1-2]|fast,big\nn3|(null)\n") == {"n1": both, "n2": both}


def _traits(*features: str) -> NodeTraits:
    return NodeTraits(frozenset(features), Shape(16))


def test_licences_beside_ours() -> None:
    text = "LicenseName=watts Total=1600 Used=0 Reserved=400\nLicenseName=matlab Total=5 Used=2 Free=2 Reserved=1\n"
    assert other_licences(text) == {"matlab": 4}


def test_the_order_takes_priorities_by_partition() -> None:
    machine = Machine("m", (Partition("p1", 2, idle_w=1.0, max_w=2.0), Partition("p2", 2, idle_w=1.0, max_w=2.0)))
    jobs = KnownJobs.build([0, 1], [1, 1], [9, 9], extra={SITE_PRIORITY: np.array([[1.0, 5.0], [3.0, 0.0]])})
    nothing = Prediction(np.ones((2, 2)), np.ones((2, 2)))
    entries = SlurmPriority().entries(jobs, nothing, machine)
    assert entries.priority.tolist() == [1.0, 5.0, 3.0, 0.0]
    plain = KnownJobs.build([0, 1], [1, 1], [9, 9])
    assert SlurmPriority().entries(plain, nothing, machine).priority.tolist() == [0.0] * 4


def test_a_round_releases_what_fits_the_limits_together(tmp_path: Path) -> None:
    """Three jobs, a limit of two of them; what waits for it holds neither nodes nor watts, and starts later."""
    slurm = FakeSlurm({"p1": ["n1", "n2", "n3"], "p2": ["m1", "m2", "m3"]}, 1200)
    jobs = [slurm.submit(1, 50.0, watts=200) for _ in range(3)]
    keys = [JobKey(job.name, job.submit_s) for job in jobs]
    slurm.rules = SiteConstraints(limits={"two": 2.0}, claims={key: (LimitUse("two", 1.0),) for key in keys})
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0), machine=lab_machine(6))
    controller.round()
    slurm.step(1.0)
    report = controller.round()
    assert [job.state for job in jobs] == ["RUNNING", "RUNNING", "PENDING"]
    assert report is not None
    table = report.plan.jobs
    assert {table.row[slot].key: table.reason[slot] for slot in table.at([Stage.BARRED])} == {keys[2]: "limit two"}
    slurm.step(60.0)
    controller.round()
    slurm.step(1.0)
    assert jobs[2].state == "RUNNING"


def test_limits_that_the_site_lifts_limit_nothing_from_then_on(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": ["n1", "n2", "n3"], "p2": ["m1", "m2", "m3"]}, 1200)
    jobs = [slurm.submit(1, 50.0, watts=200) for _ in range(3)]
    keys = [JobKey(job.name, job.submit_s) for job in jobs]
    slurm.rules = SiteConstraints(limits={"one": 1.0}, claims={key: (LimitUse("one", 1.0),) for key in keys})
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0), machine=lab_machine(6))
    controller.round()
    slurm.step(1.0)
    assert [job.state for job in jobs] == ["RUNNING", "PENDING", "PENDING"]
    slurm.rules = SiteConstraints()
    controller.round()
    slurm.step(1.0)
    assert [job.state for job in jobs] == ["RUNNING"] * 3


def test_a_job_that_only_busy_nodes_serve_waits_and_stands_in_nobodys_way(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": ["n1", "n2", "n3"], "p2": ["m1", "m2", "m3"]}, 1200)
    first = slurm.submit(1, 50.0, watts=200)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0), machine=lab_machine(6))
    controller.round()
    slurm.step(1.0)
    node = first.held_nodes[0]
    special, plain = slurm.submit(1, 50.0, watts=200), slurm.submit(2, 5.0, watts=400)
    slurm.rules = SiteConstraints(nodes={JobKey(special.name, special.submit_s): frozenset({node})})
    controller.round()
    slurm.step(1.0)
    assert (special.priority, plain.state) == (0, "RUNNING")
    slurm.step(60.0)
    controller.round()
    slurm.step(1.0)
    assert special.state == "RUNNING"


def test_priorities_of_the_site_decide_about_the_order(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": ["n1"], "p2": ["m1"]}, 200)
    jobs = [slurm.submit(1, 5.0, watts=200) for _ in range(3)]
    priority = {JobKey(job.name, job.submit_s): {"p1": float(k)} for k, job in enumerate(jobs)}
    slurm.rules = SiteConstraints(priority=priority)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(400.0), machine=lab_machine(2), policy="slurm-priority"
    )
    started = []
    for _ in range(20):
        controller.round()
        slurm.step(1.0)
        started += [k for k, job in enumerate(jobs) if job.state == "RUNNING" and k not in started]
    assert started == [2, 1, 0]
