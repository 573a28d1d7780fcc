"""Room for what a run needs, and no more: buffers that fill up, arrays that are shared, or let go."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.model.schedule import Reason
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Start
from wattqueue.policy import build
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View
from wattqueue.sim import engine, outcome
from wattqueue.sim.engine import Simulation, simulate
from wattqueue.sim.truth import NodeEvents

MACHINE = plain_machine(64, 50.0, 400.0)


def some_jobs(n: int, load: float = 1.0) -> Jobs:
    """Jobs on scattered units; at load 1 as many as the machine can just run."""
    rng = np.random.default_rng(1)
    size, runtime = rng.integers(1, 40, n), rng.integers(10, 500, n).astype(float)
    submit = np.sort(rng.uniform(0, float((size * runtime).sum()) / (64 * load), n)).round(3)
    watts = rng.integers(60, 380, n).astype(float)
    return Jobs.build(submit, size, runtime, walltime_s=2 * runtime, mean_power_w=watts, max_power_w=watts + 10)


def ready(jobs: Jobs, policy: Policy) -> Simulation:
    """A run that has not begun, without a cap."""
    return Simulation(jobs, MACHINE, policy, Cap.none(), None, NodeEvents.none())


@pytest.mark.compiled
def test_room_for_intervals_is_no_room_for_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs on scattered units fill a short interval log several times; the plan of some dozens stays as it was."""
    monkeypatch.setattr(build, "INTERVALS_A_JOB", 1)
    simulation = ready(some_jobs(3_000), load_policy("conservative"))
    rows, plan = len(simulation.view.held.low), len(simulation.view.plan.time)
    simulation.go()
    assert len(simulation.view.held.low) > 1.3 * rows
    assert len(simulation.view.plan.time) == plan


def test_no_power_step_is_lost_where_room_is_made_for_more() -> None:
    """Two steps a job do not fit into the first room; their integral is what the jobs drew."""
    jobs = some_jobs(4_000, load=0.3)
    simulation = ready(jobs, load_policy("easy"))
    rows = len(simulation.log.time)
    simulation.go()
    run = simulation.result()
    assert len(run.power.time_s) > 1.3 * rows
    joules = float((run.power.jobs_w[:-1] * np.diff(run.power.time_s)).sum())
    assert joules == pytest.approx(float(run.schedule.energy_j.sum()), rel=1e-12)
    assert (np.diff(run.power.time_s) > 0).all()


class InTurn:
    """A pass in plain Python, which sees the view."""

    def schedule(self, view: View) -> Sequence[Start]:
        entry = int(view.queue[0])
        fits = view.jobs.nodes[view.entry_job(entry)] <= view.free[0]
        return [Start(entry, 0)] if fits else []


POLICIES = {
    "compiled": load_policy("easy", estimator="oracle-max"),
    "planned": load_policy("conservative"),
    "learning": load_policy("easy", estimator="history-mean"),
    "asked": load_policy("easy", estimator="profiled"),
    "custom": replace(load_policy("easy"), backfill=InTurn()),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_run_lets_go_of_all_but_its_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """View and truth, a third of a run, are gone when ``simulate`` returns, not when the collector comes by."""
    kept: list[weakref.ref[Any]] = []

    class Watched(Simulation):
        def go(self, progress: engine.Progress | None = None, *, until_s: float = np.inf) -> None:
            super().go(progress, until_s=until_s)
            kept.extend(weakref.ref(part) for part in (self, self.view.tree.wall, self.view.held.end, self.truth.kill))

    monkeypatch.setattr(engine, "Simulation", Watched)
    gc.disable()
    try:
        run = simulate(some_jobs(60), MACHINE, POLICIES[name])
        assert run.schedule.ran.all()
        assert [part() for part in kept] == [None] * 4
    finally:
        gc.enable()


def test_what_the_ledger_counted_is_told_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes times the watts of a node, where each job has its own figure and where all share one; NaN unless it ran."""
    monkeypatch.setattr(outcome, "_BLOCK", 7)
    jobs = some_jobs(50)
    jobs.nodes[3] = 65  # wider than the machine
    for estimator, unit_w in (("oracle-max", np.array(jobs.max_power_w)), ("maximum", np.full(50, 400.0))):
        schedule = simulate(jobs, MACHINE, load_policy("easy", estimator=estimator)).schedule
        assert schedule.reason[3] == Reason.TOO_WIDE
        assert np.isnan(schedule.predicted_w[3])
        assert np.array_equal(np.delete(schedule.predicted_w, 3), np.delete(jobs.nodes * unit_w, 3))


@pytest.mark.parametrize("wide", [None, 0, 20, 49])
def test_one_array_says_which_entry_is_whose(wide: int | None) -> None:
    """Where entry k is job k at place k, and in no other case; a job that is too wide has no entry."""
    jobs = some_jobs(50)
    if wide is not None:
        jobs.nodes[wide] = 65
    entries = ready(jobs, load_policy("easy")).view.entries
    having = np.delete(np.arange(50), [] if wide is None else [wide])
    assert entries.job.tolist() == having.tolist()
    assert entries.rank.tolist() == list(range(len(having)))
    assert entries.of_job[having, 0].tolist() == list(range(len(having)))
    assert (np.delete(entries.of_job[:, 0], having) == -1).all()
    shared = [np.shares_memory(entries.job, other) for other in (entries.rank, entries.of_job)]
    assert shared == [wide is None] * 2


def test_jobs_that_are_killed_leave_the_table_as_it_was() -> None:
    """True run times are the table's own column where no job outruns its walltime; else the shorter of both."""
    jobs = some_jobs(50)
    assert ready(jobs, load_policy("easy")).truth.work is jobs.runtime_s
    before = jobs.runtime_s.copy()
    jobs.walltime_s[5] = 1.0
    simulation = ready(jobs, load_policy("easy"))
    simulation.go()
    assert simulation.truth.work[5] == 1.0
    assert np.array_equal(jobs.runtime_s, before)
