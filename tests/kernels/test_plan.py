"""The plan of one conservative pass against a list of places: who starts, who is planned when, what is left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import insert_running, take
from tests.kernels.views import view_with
from tests.reference.plan import Place, PlaceList
from wattqueue.kernels import codes, state
from wattqueue.kernels.schedule import schedule_once
from wattqueue.kernels.snapshot import load_queue

OVERDUE_S = 1e-6
NOW = 100.0


def running_and_queued(
    rng: np.random.Generator, n: int, counts: list[int]
) -> tuple[state.KernelView, PlaceList, list[int]]:
    """A machine with some running ones of ``n`` jobs, in view and twin alike, and the jobs that wait."""
    nodes = rng.integers(1, min(counts) + 1, n)
    walls = rng.choice([np.ceil(rng.exponential(4.0, n) + 0.1) * 10.0, rng.exponential(50.0, n) + 1.0])
    view = view_with(nodes, walls, rng.integers(10, 100, n), counts, codes.CONSERVATIVE)
    view.now.time_s = NOW
    watts = int(rng.choice([400, 900, 2_000])) * 1_000_000
    view.now.cap_uw = watts
    twin = PlaceList(list(counts), watts)
    waiting = []
    for job in range(n):
        p = int(rng.integers(len(counts)))
        net = int(nodes[job]) * int(view.predicted.power_uw[job, p])
        if rng.random() < 0.5 and nodes[job] <= view.units.free[p] and net <= watts - view.now.ledger_uw:
            end = float(rng.choice([NOW, NOW - 5.0, NOW + walls[job]]))  # some are past their expected end
            take(view, p, job)
            view.held.option[job], view.held.end[job] = p, end
            insert_running(view, job, net)
            twin.change_profile(Place(NOW, max(end, NOW + OVERDUE_S), p, int(nodes[job]), net))
        else:
            waiting.append(job)
    return view, twin, waiting


def plan_naively(view: state.KernelView, twin: PlaceList, waiting: list[int]) -> tuple[list[int], dict[int, Place]]:
    """Starting jobs in order, and the places of the others."""
    started: list[int] = []
    planned: dict[int, Place] = {}
    for job in waiting:  # submit times rise with the row, and a job's entries follow one another
        for p in range(len(twin.free)):
            nodes, net = int(view.nodes[job]), int(view.nodes[job]) * int(view.predicted.power_uw[job, p])
            before = planned.pop(job, None)
            if before is not None:
                twin.places.remove(before)
            place = twin.earliest_row(NOW, float(view.walltime[job]), p, nodes, net)
            if place is not None and place.begin == NOW:
                twin.change_profile(place)
                started.append(job)
                break
            best = min((q for q in (before, place) if q is not None), key=lambda q: q.begin, default=None)
            if best is not None:
                planned[job] = best
                twin.change_profile(best)
    return started, planned


@given(st.integers(0, 2**32 - 1))
def test_the_plan_is_the_twins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    counts = [int(c) for c in rng.integers(3, 12, int(rng.integers(1, 4)))]
    expect_the_twins_plan(*running_and_queued(rng, n, counts))


@pytest.mark.parametrize("seed", range(4))
def test_the_plan_is_the_twins_where_it_is_long(seed: int) -> None:
    """Rows are looked at by the 64: some places begin or end behind the first or the second of them."""
    view, twin, waiting = running_and_queued(np.random.default_rng(seed), 200, [6])
    expect_the_twins_plan(view, twin, waiting)
    assert view.now.plan_end > 128


def expect_the_twins_plan(view: state.KernelView, twin: PlaceList, waiting: list[int]) -> None:
    load_queue(view, np.array(waiting, np.int32))
    started, planned = plan_naively(view, twin, waiting)
    schedule_once(view)
    got = view.entries.job[view.start_entry[: view.now.starts]].tolist()
    assert got == started
    plan = view.plan
    now_planned = (plan.stamp == view.now.plan_stamp) & (plan.entry >= 0)
    rows = [j for j in waiting if now_planned[j]]
    assert {j: float(plan.begin[j]) for j in rows} == {j: place.begin for j, place in planned.items()}
    for j in rows:
        p = int(np.searchsorted(view.entries.start, plan.entry[j], side="right")) - 1
        assert p == planned[j].partition
    if waiting:
        expect_same_profile(view, twin)


def expect_same_profile(view: state.KernelView, twin: PlaceList) -> None:
    filled = slice(int(view.now.plan_head), int(view.now.plan_end))
    time, nodes, watt = (c[filled] for c in (view.plan.time, view.plan.nodes.T, view.plan.watt))
    assert time[0] == NOW
    assert (np.diff(time) > 0).all()
    asked = sorted({*time.tolist(), *(t for place in twin.places for t in (place.begin, place.end))})
    row = np.searchsorted(time, asked, side="right") - 1
    got = [(*nodes[k].tolist(), int(watt[k])) for k in row]
    assert got == twin.profile_row(asked)
