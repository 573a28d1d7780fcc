"""Stranded watts and racks a job: by hand, and against sums over single units."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles import examples
from tests.sim.invariants import units_of
from tests.sim.test_supply import supplied_world
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import metrics
from wattqueue.model.schedule import State
from wattqueue.model.signals import Cap
from wattqueue.model.stranding import racks_a_job, stranded
from wattqueue.model.supply import SupplyDomain
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate


def two_racks() -> Machine:
    """Two racks of four nodes, 100 W idle and 300 W at most, each limited to 1,000 W, below a contract of 1,900 W."""
    racks = tuple(SupplyDomain(name=f"r{k}", parent="c", nodes=f"p[{4 * k + 1}-{4 * k + 4}]", limit_w=1000.0)
                  for k in range(2))  # fmt: skip
    return Machine("m", (Partition("p", 8, idle_w=100.0, max_w=300.0),),
                   supply=(*racks, SupplyDomain(name="c", limit_w=1900.0)))  # fmt: skip


def ran(machine: Machine, nodes: list[int], watts: list[float], cap: Cap | None = None) -> Run:
    n = len(nodes)
    jobs = Jobs.build(np.zeros(n), np.array(nodes), np.full(n, 100.0), mean_power_w=np.array(watts),
                      max_power_w=np.array(watts))  # fmt: skip
    policy = load_policy("first-fit", estimator="oracle-mean", placement="lowest")
    return simulate(jobs, machine, policy, cap=cap or Cap.none())


def test_by_hand() -> None:
    """Three nodes of rack 0 at 300 W leave it 0 W above idle for its fourth node; the contract has 500 W.

    Idle machine: 800 W; rooms are 600 W a rack and 1,100 W of the contract. Three hot nodes take 600 W net: rack 0 has
    0 left, rack 1 has 600, the contract 500. The free units could draw 5 x 200 = 1,000 W; the contract allows 500, the
    tree min(500, 0 + 600) = 500: nothing is stranded. A cold job on four nodes of rack 1 (10 W above idle) leaves one
    free unit, in rack 0: of 460 W left, and 200 W that it could draw, it may draw 0.
    """
    machine = two_racks()
    one = ran(machine, [3], [300.0])
    found = stranded(one.jobs, one.schedule, machine, Cap.none())
    assert found.time_s.tolist() == [0.0, 100.0]
    assert found.watts.tolist() == [0.0, 0.0]
    assert found.budget_w.tolist() == [1100.0, 1100.0]
    run = ran(machine, [3, 4], [300.0, 110.0])
    assert units_of(run.schedule, 1) == [4, 5, 6, 7]
    found = stranded(run.jobs, run.schedule, machine, Cap.none())
    assert found.watts[0] == 200.0
    figures = metrics(run.jobs, run.schedule, run.power, machine, Cap.none())
    assert figures["stranded_w_mean"] == 200.0
    assert figures["stranded_j"] == 20_000.0
    assert figures["stranded_share"] == pytest.approx(200 / 1100)
    assert figures["stranded_waiting_share"] is None
    assert figures["racks_a_job_mean"] == 1.0


def test_a_cap_that_allows_no_more_strands_nothing() -> None:
    """Under a cap of what runs, the root withholds the watts, not the tree."""
    machine = two_racks()
    cap = Cap.constant(800.0 + 600.0 + 40.0)
    run = ran(machine, [3, 4], [300.0, 110.0], cap)
    found = stranded(run.jobs, run.schedule, machine, cap)
    assert found.watts[0] == 0.0
    assert found.budget_w[0] == 640.0


def test_what_waits_counts_apart() -> None:
    """A third job waits 100 s for all eight nodes, and runs on them for 100 s, in which nothing is stranded."""
    machine = two_racks()
    run = ran(machine, [3, 4, 8], [300.0, 110.0, 110.0])
    figures = metrics(run.jobs, run.schedule, run.power, machine, Cap.none())
    assert figures["stranded_j"] == 20_000.0
    assert figures["stranded_waiting_share"] == pytest.approx(200 / 1100)
    assert figures["stranded_share"] == pytest.approx(100 / 1100)


def test_racks_are_runs_of_neighbours() -> None:
    machine = two_racks()
    assert racks_a_job(ran(machine, [3, 4], [110.0, 110.0]).schedule, machine) == 1.5  # nodes 1-3, and 4-7
    plain = ran(replace(machine, supply=()), [3, 4], [110.0, 110.0])
    assert "stranded_j" not in metrics(plain.jobs, plain.schedule, plain.power, plain.machine, Cap.none())


@examples(80)
@given(st.integers(0, 2**32 - 1))
def test_against_sums_over_single_units(seed: int) -> None:
    world = supplied_world(seed)
    run = world.engine()
    found = stranded(run.jobs, run.schedule, run.machine, run.cap)
    want = [naive(run, float(time)) for time in found.time_s]
    np.testing.assert_allclose(found.watts, [w for w, _ in want], atol=1e-3)
    np.testing.assert_allclose(found.budget_w, [b for _, b in want], atol=1e-3)
    s = run.schedule
    counted = s.state != State.REJECTED
    for time, waiting in zip(found.time_s, found.waiting, strict=True):
        here = counted & (run.jobs.submit_s <= time) & ~(s.start_s <= time)
        assert waiting == here.any()


def naive(run: Run, time: float) -> tuple[float, float]:
    """Stranded watts and budget at a time, by a walk over units, and over the tree from each of its tops."""
    machine, s = run.machine, run.schedule
    tree, units = machine.supply_tree, machine.units
    part = [p for p, one in enumerate(machine.partitions) for _ in range(one.units)]
    idle = [0.0 if machine.cap_scope == "jobs" else machine.partitions[p].idle_w for p in part]
    net = [0.0] * units
    busy = [False] * units
    for job in np.flatnonzero(s.ran & (s.start_s <= time) & (s.end_s > time)):
        for unit in units_of(s, int(job)):
            busy[unit] = True
            net[unit] = max(float(s.predicted_w[job]) / int(run.jobs.nodes[job]) - idle[unit], 0.0)
    most = [400.0 - idle[unit] for unit in range(units)]
    counts_idle = [w if machine.cap_scope == "machine" else 0.0 for w in idle]
    gain = [max(p.gain for p in below) for below in tree.below]

    def below(k: int) -> list[int]:
        return [unit for unit in range(units) if k in list(tree.path(int(tree.of_unit[unit])))]

    def limit(k: int) -> float:
        fixed = tree.input_uw([one.idle_w if machine.cap_scope == "machine" else 0.0 for one in machine.partitions])
        return float((tree.domains[k].limit_at(time) - fixed[k] / 1e6) / gain[k])

    def draws(k: int) -> float:
        own = sum(most[unit] for unit in range(units) if tree.of_unit[unit] == k and not busy[unit])
        fed = own + sum(draws(child) for child in range(len(tree.domains)) if tree.parent[child] == k)
        return min(fed, max(limit(k) - sum(net[unit] for unit in below(k)), 0.0))

    tops = [k for k in range(len(tree.domains)) if tree.parent[k] < 0]
    capped = float(run.cap.at(np.array([time]))[0]) - sum(counts_idle)
    root = max(capped - sum(net), 0.0)
    tree_draws = min(sum(draws(k) for k in tops), root)
    could, whole = sum(w for w, taken in zip(most, busy, strict=True) if not taken), sum(most)
    if len(tops) == 1:
        root = min(root, max(limit(tops[0]) - sum(net), 0.0))
        capped = min(capped, limit(tops[0]))
    assert not math.isnan(root)
    return min(root, could) - tree_draws, max(min(capped, whole), 0.0)
