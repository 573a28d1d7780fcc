"""Running jobs in blocks against a plain list: order, sums, and the shadow time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.drivers import insert_running, remove_running, reserved
from tests.kernels.views import view_with
from tests.reference.running import RunningList, Stay
from wattqueue.kernels import codes, state
from wattqueue.kernels.fresh import BLOCK

MOST = 3 * BLOCK


def rows_of(view: state.KernelView) -> list[tuple[float, int]]:
    """(expected end, job) as they stand."""
    found: list[tuple[float, int]] = []
    for block in view.running.order[: view.now.blocks]:
        filled = view.running.filled[block]
        found += zip(view.running.end[block, :filled].tolist(), view.running.job[block, :filled].tolist(), strict=True)
    return found


def expect_sound(view: state.KernelView, twin: RunningList, budget: int) -> None:
    rows = rows_of(view)
    assert [end for end, _ in rows] == sorted(stay.end for stay in twin.jobs.values())
    assert sorted(rows) == sorted((stay.end, job) for job, stay in twin.jobs.items())
    assert view.now.running == len(twin.jobs)
    assert view.now.ledger_uw == twin.running_sum()
    assert view.now.available_uw == budget - twin.running_sum()
    running, used = view.running, view.running.order[: view.now.blocks]
    assert sorted(running.order.tolist()) == list(range(len(running.order)))
    for block in used:
        filled = int(running.filled[block])
        assert 1 <= filled <= BLOCK
        stays = [twin.jobs[int(job)] for job in running.job[block, :filled]]
        assert running.last_end[block] == stays[-1].end
        assert running.net_sum[block] == sum(stay.net for stay in stays)
        squares = sum(round((stay.net / codes.MICRO) ** 2) for stay in stays)
        assert running.square_sum[block] == (squares if view.now.by_chance else 0)
        for p in range(running.nodes_sum.shape[1]):
            assert running.nodes_sum[block, p] == sum(stay.nodes for stay in stays if stay.partition == p)


def expect_the_lists_shadow(view: state.KernelView, twin: RunningList, rng: np.random.Generator, entries: int) -> None:
    """Reservations of some entries, with what is left over at their shadow times."""
    for entry in rng.integers(0, entries, 3):
        p = int(np.searchsorted(view.entries.start, entry, side="right")) - 1
        job = int(view.entries.job[entry])
        need = int(view.nodes[job]), int(view.nodes[job]) * int(view.predicted.power_uw[job, p])
        reserved(view, p, int(entry))
        free, watts = int(view.units.free[p]), int(view.now.available_uw)
        expected = twin.find_shadow(p, free, watts, need)
        assert (view.reserved.time[p], view.reserved.nodes[p], view.reserved.watt[p]) == expected


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_blocks_hold_what_a_list_holds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = rng.integers(1, 9, MOST)
    walls = rng.choice([rng.exponential(100.0, MOST), np.full(MOST, 60.0), rng.integers(1, 6, MOST) * 10.0])
    view = view_with(nodes, walls, rng.integers(10, 400, MOST), [MOST * 5, MOST * 5], codes.EASY)
    view.units.free[:] = rng.integers(0, 4, 2)
    budget = int(rng.integers(0, 2_000)) * 1_000_000
    view.now.available_uw = budget
    view.now.by_chance = int(rng.integers(2))  # with a variance of 0: no margin
    twin = RunningList()
    grow = 0.5
    for step in range(2 * MOST):
        if step % 100 == 0:
            grow = float(rng.choice([0.2, 0.8, 0.95]))
            expect_sound(view, twin, budget)
            expect_the_lists_shadow(view, twin, rng, len(view.entries.job))
        idle = [] if len(twin.jobs) == MOST else list(set(rng.integers(0, MOST, 8).tolist()) - twin.jobs.keys())
        if idle and (not twin.jobs or rng.random() < grow):
            job, p = int(idle[0]), int(rng.integers(2))
            net = int(rng.integers(0, 200)) * 1_000_000
            view.held.option[job], view.held.end[job] = p, walls[job]
            insert_running(view, job, net)
            twin.running_insert(job, Stay(float(walls[job]), int(nodes[job]), net, p))
        elif twin.jobs:
            job = int(rng.choice(sorted(twin.jobs)))
            remove_running(view, job)
            twin.running_remove(job)
    expect_sound(view, twin, budget)


@pytest.mark.parametrize("order", ["rising", "falling", "equal"])
def test_blocks_split_and_join_in_any_order_of_ends(order: str) -> None:
    ends = {"rising": np.arange(MOST) + 1.0, "falling": MOST - np.arange(MOST) + 0.0, "equal": np.ones(MOST)}[order]
    view = view_with(np.ones(MOST, int), ends, np.full(MOST, 5), [MOST], codes.EASY)
    view.now.available_uw = 0
    twin = RunningList()
    view.held.option[:], view.held.end[:] = 0, ends
    for job in range(MOST):
        insert_running(view, job, 5)
        twin.running_insert(job, Stay(float(ends[job]), 1, 5, 0))
    expect_sound(view, twin, 0)
    assert view.now.blocks >= 3
    for job in range(0, MOST, 2):
        remove_running(view, job)
        twin.running_remove(job)
    for job in range(MOST - 1, 4, -2):
        remove_running(view, job)
        twin.running_remove(job)
    expect_sound(view, twin, 0)
    assert view.now.blocks == 1
