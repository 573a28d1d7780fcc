"""Predicted run times against the naive twin: what starts, ends and is promised, under every correction and pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.recent_runs import RecentRuns
from tests.sim.invariants import check_invariants
from tests.sim.test_against_twin import SEEDS, expect_same, random_script
from tests.sim.test_against_twin import Scripted as ByScript
from tests.sim.workloads import World, random_world
from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.parts.contracts import FinishedRuns, Floats, Ints
from wattqueue.parts.runtime.recent_quantile import RecentQuantile
from wattqueue.policy.capabilities import CORRECTIONS
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import BROKEN_PROMISES, OVERRUNS, Run, simulate

ALIKE = ("user walltime", "user")
CORRECTION = st.sampled_from(sorted(CORRECTIONS))


@dataclass
class Stated:
    """A run-time part that says what it was made with."""

    figures: Any
    correction: str
    asked: str = "once"

    def seconds(self, jobs: KnownJobs, machine: Machine) -> Any:
        return self.figures


class InPython(RecentQuantile):
    """The same part, called through Python: the class states nothing of the loop."""


def world_of(seed: int) -> tuple[World, np.random.Generator]:
    rng = np.random.default_rng((seed, 9))
    world = random_world(seed, failures=seed % 3 == 0)
    code = int(rng.choice([codes.EASY, codes.SHORTEST, codes.CONSERVATIVE, codes.FIRST_FIT]))
    return replace(world, code=code), rng


def run_with(world: World, runtime: Any, seed: int, **twin: Any) -> Run:
    world = replace(world, runtime=runtime)
    script = random_script(seed, world) if seed % 2 else None
    simulation = world.simulation(**({"controls": (ByScript(script, 7.0),)} if script else {}))
    simulation.go()
    run = simulation.result()
    correction = CORRECTIONS[runtime.correction]
    naive = world.twin(simulation.truth.reject, script=script, period=7.0, correction=correction, **twin)
    expect_same(run, naive)
    np.testing.assert_array_equal(run.overruns, naive.overruns)
    if world.code != codes.CONSERVATIVE:
        np.testing.assert_array_equal(run.promised_s, naive.promise)
    return run


@given(SEEDS, CORRECTION)
def test_stated_run_times(seed: int, correction: str) -> None:
    world, rng = world_of(seed)
    share = rng.uniform(0.05, 1.0, len(world.jobs))
    seconds = np.minimum(world.jobs.walltime_s, np.maximum(1.0, np.ceil(world.jobs.walltime_s * share)))
    check_invariants(run_with(world, Stated(seconds, correction), seed, planned=seconds.tolist()))


@given(SEEDS, CORRECTION, st.booleans(), st.sampled_from([0.0, 0.5, 0.8]))
def test_run_times_of_recent_jobs(seed: int, correction: str, in_loop: bool, at: float) -> None:
    world, rng = world_of(seed)
    n = len(world.jobs)
    user = rng.integers(-1, 3, n).astype(np.int32)
    wall = np.ceil(world.jobs.walltime_s / 60.0) * 60.0
    jobs = replace(world.jobs, user=Labels(user, ("a", "b", "c")), walltime_s=wall)
    keys = [
        [None if u < 0 else (u, w) for u, w in zip(user, wall, strict=True)],
        [None if u < 0 else u for u in user],
    ]
    part = (RecentQuantile if in_loop else InPython)(at=at, jobs=3, fewest=1, alike=ALIKE, correction=correction)  # type: ignore[arg-type]
    run_with(replace(world, jobs=jobs), part, seed, recent=RecentRuns(keys, 3, 1, at))


def starts(jobs: Jobs, nodes: int, **parts: Any) -> list[float]:
    found: list[float] = simulate(jobs, plain_machine(nodes), load_policy("easy", **parts)).schedule.start_s.tolist()
    return found


# Four nodes: three busy until 100 (requested: 400), the second job wants all four, the third one node for 200 s.
JOBS = Jobs.build(np.array([0.0, 1.0, 2.0]), [3, 4, 1], [100.0, 50.0, 200.0], walltime_s=[400.0, 100.0, 300.0])


def test_an_early_reservation_keeps_a_job_out_that_the_limit_would_let_in() -> None:
    assert starts(JOBS, 4) == [0.0, 202.0, 2.0]  # by their limits: reserved at 400, the third ends by 302
    assert starts(JOBS, 4, runtime="true-runtime") == [0.0, 100.0, 150.0]  # reserved at 100


def test_the_correction_at_the_start_counts_a_running_job_at_its_limit() -> None:
    assert starts(JOBS, 4, runtime={"part": "true-runtime", "correction": "start"}) == [0.0, 202.0, 2.0]


@pytest.mark.parametrize(("correction", "overruns", "third"), [("limit", 1, 10.0), ("steps", 3, 400.0)])
def test_a_job_that_outlives_its_planned_time_is_planned_again(correction: str, overruns: int, third: float) -> None:
    # The first job runs 350 s and is predicted 10 s. Until 10 the head is promised 10. At 10 the first is planned
    # until 400 (limit): then the third job, 300 s, ends by the new promise. In steps: until 70, 310, 400 s,
    # and the third starts behind the head.
    jobs = replace(JOBS, runtime_s=np.array([350.0, 50.0, 200.0]))
    part = Stated(np.array([10.0, 100.0, 300.0]), correction)
    run = simulate(jobs, plain_machine(4), replace(load_policy("easy"), runtime=part))  # type: ignore[arg-type]
    assert run.overruns is not None
    assert run.overruns.tolist()[0] == overruns
    assert run.schedule.start_s[2] == third
    assert run.notes[OVERRUNS] == run.overruns.sum()
    assert run.notes[BROKEN_PROMISES] == 1


@pytest.mark.parametrize("answer", [[-1.0, 1.0, 1.0], [1.0, 1.0], [np.inf, 1.0, 1.0], "soon"])
def test_run_times_that_cannot_be_used_end_a_run(answer: Any) -> None:
    part = Stated(answer, "limit")
    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, plain_machine(4), replace(load_policy("easy"), runtime=part))  # type: ignore[arg-type]
    assert caught.value.where == "Stated"


class Learns:
    """A part in plain Python: every job takes as long as the last one that ended."""

    asked = "at_submit"
    correction = "limit"

    def seconds(self, jobs: KnownJobs, machine: Machine) -> None:
        self.last = np.nan

    def seconds_of(self, rows: Ints, now_s: float) -> Floats:
        return np.full(len(rows), self.last)

    def learn_runs(self, finished: FinishedRuns) -> None:
        self.last = float(finished.run_s[-1])


def test_a_part_in_python_is_taught_before_it_is_asked() -> None:
    jobs = Jobs.build(np.array([0.0, 10.0, 11.0, 12.0]), [1, 3, 4, 1], [10.0, 50.0, 5.0, 40.0], walltime_s=[99.0] * 4)
    run = simulate(jobs, plain_machine(4), replace(load_policy("easy"), runtime=Learns()))  # type: ignore[arg-type]
    # All planned at 10 s from the end at 10 on: the head at 11 is promised 20, and 12 + 10 s would be behind it.
    assert run.promised_s is not None
    assert run.promised_s[2] == 20.0
