"""What held a job back: by hand for each cause, against the pass under random trees, and in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.program import wattqueue
from tests.reference.supply import NaiveSupply
from tests.sim.invariants import units_of
from tests.sim.test_supply import constant, supplied_world, unit_net_uw
from wattqueue.errors import InputError
from wattqueue.formats.rundir.folder import RunRecord
from wattqueue.formats.unusable import Unusable
from wattqueue.model.holding import CAP, TURN, UNITS, held_by_domain, holds_of
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import metrics
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain
from wattqueue.policy.policy import load_policy
from wattqueue.report.figures import domains
from wattqueue.report.held_back import HeldBack
from wattqueue.report.load import of_record
from wattqueue.sim.engine import Run, simulate

RACKS = tuple(
    SupplyDomain(name=f"r{k}", parent="row", nodes=f"p[{4 * k + 1}-{4 * k + 4}]", limit_w=800.0) for k in range(2)
)
MACHINE = Machine("m", (Partition("p", 8, idle_w=50.0, max_w=300.0),), supply=(*RACKS, SupplyDomain(name="row")))


def ran(cap: Cap | None = None, *rows: tuple[float, int, float, float]) -> Run:
    """Jobs of (submission, nodes, run time, watts), first come, first served."""
    submit, nodes, run, watts = (np.array(column) for column in zip(*rows, strict=True))
    jobs = Jobs.build(submit, nodes, run, mean_power_w=watts, max_power_w=watts)
    return simulate(jobs, MACHINE, load_policy("fcfs", estimator="oracle-mean"), cap=cap or Cap.none())


def record(run: Run) -> RunRecord:
    figures = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap)
    return RunRecord(run.jobs, run.machine, run.cap, run.schedule, run.power, figures, {}, Unusable())


def holds(run: Run, job: int) -> list[tuple[float, float, int]]:
    return [(one.begin_s, one.end_s, one.cause) for one in holds_of(run.jobs, run.schedule, run.machine, run.cap, job)]


def test_each_cause_by_hand() -> None:
    """Job 0 on nodes 1 to 4 to 100 s, 200 W each: rack r0 is full, r1 has 600 W above idle for four nodes.

    Job 1 of four nodes at 250 W (200 above idle): three fit in r1. It waits for r1, which forbids one of four, until
    100 s. Job 2, behind it, has room the whole time (one node at 60 W) and waits for its turn.
    """
    run = ran(None, (0.0, 4, 100.0, 200.0), (10.0, 4, 50.0, 250.0), (20.0, 1, 10.0, 60.0))
    r1 = [one.name for one in MACHINE.supply_tree.domains].index("r1")
    assert holds(run, 1) == [(10.0, 100.0, r1)]
    assert holds(run, 2) == [(20.0, 100.0, TURN)]
    assert holds(run, 0) == []
    assert held_by_domain(run.jobs, run.schedule, run.machine, run.cap) == {r1: 90.0}
    assert record(run).metrics["domain_blocked_s"] == 90.0


def test_nodes_and_the_cap_by_hand() -> None:
    """Six of eight nodes to 100 s: a job of three lacks nodes. Under 700 W a second job of 150 W a node lacks watts."""
    run = ran(None, (0.0, 6, 100.0, 60.0), (0.0, 3, 10.0, 60.0))
    assert holds(run, 1) == [(0.0, 100.0, UNITS)]
    run = ran(Cap.constant(700.0), (0.0, 2, 100.0, 150.0), (0.0, 2, 10.0, 150.0))
    assert holds(run, 1) == [(0.0, 100.0, CAP)]
    assert record(run).metrics["domain_blocked_s"] == 0.0


def test_in_words() -> None:
    found = record(ran(None, (0.0, 4, 100.0, 200.0), (10.0, 4, 50.0, 250.0)))
    first, second = list(HeldBack.of(found, "2").lines())
    assert first == "job 2 (4 nodes, counted at 250 W each) waited 90 s"
    assert second == "  90 s (100 %): power domain r1 had no room for its watts, fed by row"
    assert list(HeldBack.of(found, "1").lines()) == ["job 1 (4 nodes, counted at 200 W each) started at once"]
    with pytest.raises(InputError, match="no job '9' in the run"):
        HeldBack.of(found, "9")


def test_of_domains_that_forbid_as_many_units_none_is_blamed_alone() -> None:
    """Job 0 has two nodes in each rack, at 240 W above idle: each has 120 W left, and none for a node of 150."""
    run = ran(None, (0.0, 4, 100.0, 290.0), (10.0, 2, 50.0, 200.0))
    (hold,) = holds_of(run.jobs, run.schedule, run.machine, run.cap, 1)
    assert (hold.begin_s, hold.end_s, hold.equal) == (10.0, 100.0, 2)
    racks = [k for k, one in enumerate(MACHINE.supply_tree.domains) if one.name in ("r0", "r1")]
    assert held_by_domain(run.jobs, run.schedule, run.machine, run.cap) == dict.fromkeys(racks, 45.0)
    assert record(run).metrics["domain_blocked_s"] == 90.0
    _, line = HeldBack.of(record(run), "2").lines()
    assert line.endswith("2 power domains had no room for its watts, each for as few units; r0 is one, fed by row")


def test_a_job_that_never_ran_says_its_reason() -> None:
    found = record(ran(None, (0.0, 4, 100.0, 200.0), (10.0, 8, 50.0, 290.0)))
    assert list(HeldBack.of(found, "2").lines()) == [
        "job 2 never ran: never fits under its power domains",
        "  4 nodes of partition p are fed at most, at 300 W each: r1 holds back most",
    ]


def test_the_report_has_headroom_and_what_was_held_back() -> None:
    run = of_record(record(ran(None, (0.0, 4, 100.0, 200.0), (10.0, 4, 50.0, 250.0))))
    table = domains.table(run)
    assert table is not None
    rows = {row[0]: row for row in table.rows}
    assert rows["r1"][1:] == ("800 W", "533 W", "400 W", "never", "90 s")
    assert rows["r0"][-1] == "never"
    assert rows["r0"][3] == "0 W"


def test_the_verb(tmp_path: Path) -> None:
    """From the files of a run."""
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_s,nodes,runtime_s,walltime_s,mean_power_w\na,0,4,100,100,200\nb,10,4,50,50,250\n"
    )
    (tmp_path / "m.toml").write_text(
        'name = "m"\n[[partitions]]\nname = "p"\nnodes = 8\nidle_w = 50.0\nmax_w = 300.0\n'
        '[[supply]]\nname = "r[0-1]"\nnodes = "p[1-8]"\nlimit_w = 800.0\n'
    )
    told = wattqueue(
        "simulate", "jobs.csv", "--machine", "m.toml", "--policy", "fcfs", "--estimator", "oracle-mean", "--out", "run",
        cwd=tmp_path,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    told = wattqueue("why", "run", "b", cwd=tmp_path)
    assert "power domain r1 had no room" in told.stdout, told.stderr
    values = json.loads(wattqueue("why", "run", "b", "--json", cwd=tmp_path).stdout)
    assert values["holds"] == [{"begin_s": 10.0, "end_s": 100.0, "cause": "domain r1", "equal_domains": 1}]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_a_domain_holds_a_job_back_exactly_where_no_units_fit(seed: int) -> None:
    """Against the naive test of single units, at the middle of each stretch, of all jobs of random worlds."""
    world = constant(supplied_world(seed))
    world = replace(world, cap=Cap.none())
    run = world.engine()
    s, naive = run.schedule, NaiveSupply(run.machine)
    for job in np.flatnonzero(s.ran & (s.start_s > run.jobs.submit_s)):
        p = int(run.machine.option_partition[s.option[job]])
        units = range(int(run.machine.unit_start[p]), int(run.machine.unit_start[p + 1]))
        for begin, end, cause in holds(run, int(job)):
            now = (begin + end) / 2
            running = np.flatnonzero(s.ran & (s.start_s <= now) & (s.end_s > now))
            load = [(units_of(s, int(one)), unit_net_uw(run, int(one), world), 1.0) for one in running]
            taken = {unit for held, *_ in load for unit in held}
            free = [unit for unit in units if unit not in taken]
            need, uw = int(run.jobs.nodes[job]), unit_net_uw(run, int(job), world)
            room = naive.room(now, naive.idle(range(run.machine.units)), load)
            fits = naive.choose(free, need, uw, room) is not None
            assert (cause == UNITS) == (len(free) < need)
            assert (cause >= 0) == (len(free) >= need and not fits)
