"""Stopping, continuing and requeueing jobs: the same tests on the fake Slurm and on a real one.

Each goes through the driver alone (``live.cluster.Cluster``), many jobs in one call as the controller makes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.live.fakeslurm import FakeSlurm
from tests.live.site import NET_W, TOTAL_W
from tests.live.slurmlab import SlurmLab, wait_for
from wattqueue.live.cluster import ChangeJob, ContinueJob, Job, JobFields, RequeueJob, Snapshot, StopJob, Write
from wattqueue.live.driver import Cluster
from wattqueue.live.slurm.cluster import SlurmCluster


@dataclass
class Driven:
    """A cluster behind its driver, with the few things that a test does beside it."""

    cluster: Cluster
    submit: Callable[[bool], str]
    """Submits a job of one node that runs on and on, held or not, and returns its name."""
    until: Callable[[str, Callable[[], bool]], object]
    """Waits for something, or lets time pass until it is there."""

    def rows(self, names: Sequence[str]) -> list[Job]:
        """The jobs as the driver shows them now."""
        return rows_of(self.cluster.observe(), names)

    def wait(self, names: Sequence[str], state: str) -> list[Job]:
        """Wait until all jobs are in a state; return them."""
        self.until(f"{names} {state}", lambda: {row.state for row in self.rows(names)} == {state})
        return self.rows(names)

    def running(self, count: int) -> list[Job]:
        """Jobs that run."""
        return self.wait([self.submit(False) for _ in range(count)], "running")

    def used_w(self) -> int:
        """Watts of the pool that jobs hold."""
        pool = self.cluster.observe().pool
        assert pool is not None
        return pool.used


def rows_of(seen: Snapshot, names: Sequence[str]) -> list[Job]:
    found = {row.key.name: row for row in seen.jobs}
    return [found[name] for name in names]


def names_of(rows: Sequence[Job]) -> list[str]:
    return [row.key.name for row in rows]


def stop(row: Job) -> Write:
    return StopJob(row.target, row.state, "stopped", key=row.key)


def go_on(row: Job) -> Write:
    return ContinueJob(row.target, row.state, "running", key=row.key)


def count(row: Job, watts: int) -> Write:
    return ChangeJob(row.key.name, str(row.watts), str(watts), JobFields(watts=watts), key=row.key)


def fake() -> Driven:
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)]}, TOTAL_W, hold_new=False)

    def submit(held: bool) -> str:
        slurm.hold_new = held
        return slurm.submit(1, math.inf, watts=NET_W).name

    def until(what: str, there: Callable[[], bool]) -> None:
        for _ in range(20):
            if there():
                return
            slurm.step()
        raise AssertionError(what)

    return Driven(slurm, submit, until)


def real(lab: SlurmLab) -> Driven:
    def submit(held: bool) -> str:
        more = ["--hold"] if held else []
        return lab.submit("-N1", "-t60", "-pp1", f"--licenses=watts:{NET_W}", "--wrap=sleep 1000", *more)

    return Driven(SlurmCluster(lab.commands), submit, lambda what, there: wait_for(what, there, step_s=0.1))


@pytest.fixture(
    params=[
        "fake",
        pytest.param("real", marks=[pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]),
    ]
)
def driven_by(request: pytest.FixtureRequest) -> Iterator[Driven]:
    if request.param == "fake":
        yield fake()
        return
    lab: SlurmLab = request.getfixturevalue("site").lab
    yield real(lab)
    lab.clear()


def test_jobs_are_stopped_counted_for_nothing_and_continue_by_one_call_each(driven_by: Driven) -> None:
    rows = driven_by.running(3)
    names, nodes = names_of(rows), [row.node_names for row in rows]
    apply = driven_by.cluster.apply_batch
    assert apply([stop(row) for row in rows]) == [""] * 3
    still = driven_by.wait(names, "stopped")
    assert driven_by.used_w() == 3 * NET_W, "a stop alone frees no watts"
    assert apply([stop(row) for row in still]) == [""] * 3, "once more does no harm"
    assert apply([count(row, 0) for row in still]) == [""] * 3
    assert driven_by.used_w() == 0
    still = driven_by.wait(names, "stopped")
    assert [row.node_names for row in still] == nodes, "their nodes stay their own"
    assert [row.watts for row in still] == [0] * 3
    assert apply([count(row, NET_W) for row in still]) == [""] * 3
    assert driven_by.used_w() == 3 * NET_W
    assert apply([go_on(row) for row in driven_by.rows(names)]) == [""] * 3
    again = driven_by.wait(names, "running")
    assert [row.node_names for row in again] == nodes
    assert apply([go_on(row) for row in again]) == [""] * 3, "nor does it here"
    assert {row.state for row in driven_by.rows(names)} == {"running"}


def test_a_job_that_waits_by_now_is_left_out_and_keeps_no_other_waiting(driven_by: Driven) -> None:
    """It was requeued between the snapshot and the write. An unknown job is an error of its own alone."""
    first, last = driven_by.running(2)
    (waits,) = driven_by.wait([driven_by.submit(True)], "pending")
    gone = waits._replace(key=waits.key._replace(name="999"))
    assert driven_by.cluster.apply_batch([stop(row) for row in (first, waits, last)]) == [""] * 3
    still = driven_by.wait(names_of([first, last]), "stopped")
    assert driven_by.rows([waits.key.name])[0].state == "pending"
    errors = driven_by.cluster.apply_batch([go_on(row) for row in (still[0], gone, waits, still[1])])
    assert [bool(error) for error in errors] == [False, True, False, False]
    driven_by.wait(names_of([first, last]), "running")


def test_a_requeued_job_waits_held_and_gives_its_node_and_watts_back(driven_by: Driven) -> None:
    keeps, stays = driven_by.running(2)
    assert driven_by.cluster.apply_batch([stop(stays)]) == [""]
    driven_by.cluster.apply(RequeueJob(keeps.target, keeps.state, "pending", key=keeps.key))
    (row,) = driven_by.wait([keeps.key.name], "pending")
    assert row.held
    assert driven_by.wait([stays.key.name], "stopped")[0].node_names == stays.node_names
    driven_by.until("its watts", lambda: driven_by.used_w() == NET_W)
    driven_by.until("its node", lambda: not driven_by.cluster.observe().by_node[keeps.node_names[0]].busy)
    assert driven_by.cluster.observe().details[row.key].restarts == 1
