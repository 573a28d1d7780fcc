"""Calls of entry kernels from Python: one signature for every world, tuples as addresses, and what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.drivers import insert_running, push, remove_running
from tests.kernels.views import view_with
from tests.policy.test_decide import by_snapshot
from tests.sim.test_against_twin import random_script, run_both
from tests.sim.workloads import random_world
from wattqueue.errors import EngineError
from wattqueue.kernels import actions, codes, loop, schedule, snapshot, state, view_lists
from wattqueue.kernels._numba.addresses import addresses_of
from wattqueue.kernels.arrays import lengthened
from wattqueue.kernels.calls import bind
from wattqueue.kernels.fresh import new_heap, new_held
from wattqueue.kernels.mode import UNDOCUMENTED
from wattqueue.kernels.view_lists import RunningList


def entries() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in (actions, loop, schedule, snapshot, view_lists):
        yield from ((name, value) for name, value in vars(module).items() if hasattr(value, "dispatcher"))


@pytest.mark.compiled
@pytest.mark.skipif(not UNDOCUMENTED, reason="in plain mode inner kernels have dispatchers, too")
@pytest.mark.parametrize("worlds", [6, pytest.param(30, marks=pytest.mark.slow)])
def test_an_entry_is_compiled_once_for_every_world(worlds: int) -> None:
    for seed in range(worlds):
        world = random_world(seed, failures=seed % 2 == 0)
        run_both(world, random_script(seed, world))
        by_snapshot(world)
    seen = {name: len(entry.dispatcher.signatures) for name, entry in entries()}  # type: ignore[attr-defined]
    assert seen["run"] == seen["set_frequency"] == seen["schedule_once"] == 1
    assert set(seen.values()) <= {0, 1}


def small_view() -> state.KernelView:
    return view_with(np.ones(9), np.ones(9), np.ones(9), (9,), codes.EASY)


def running_in(view: state.KernelView) -> list[int]:
    listing = RunningList(view)
    return [int(job) for job in listing.rows[: listing.write()]]


def test_a_copy_of_a_view_is_a_view_of_its_own() -> None:
    """Addresses are kept with a tuple; a copy has other arrays, and must not inherit them."""
    view = small_view()
    view.held.option[:] = 0
    insert_running(view, 3, 5)
    for other in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):  # noqa: S301  our own
        remove_running(other, 3)
        assert (running_in(view), running_in(other)) == ([3], [])


def test_a_tuple_with_another_array_has_other_addresses() -> None:
    view = small_view()
    view.held.option[:] = 0
    insert_running(view, 3, 5)
    moved = view._replace(running=view.running._replace(job=view.running.job.copy()))
    moved.running.job[0, 0] = 7
    assert (running_in(view), running_in(moved)) == ([3], [7])


def test_columns_that_are_lengthened_are_found_where_they_are_now() -> None:
    held = new_held(4, 8)
    before = addresses_of(held)
    longer = lengthened(held, 1_000_000, "low", "high")
    assert len(longer.low) == len(longer.high) == 1_000_008
    assert longer.addresses.dtype == before.dtype  # type: ignore[attr-defined]
    words = longer.addresses.view(np.int64).tolist()  # type: ignore[attr-defined]
    assert {longer.low.__array_interface__["data"][0], longer.high.__array_interface__["data"][0], 1_000_008} <= {
        *words
    }


def test_tuples_of_other_types_are_other_types_to_the_compiler() -> None:
    heap = new_heap(4, 4)
    assert addresses_of(heap).dtype == addresses_of(new_heap(9, 3)).dtype
    assert addresses_of(heap).dtype != addresses_of(heap._replace(item=heap.item.astype(np.int64))).dtype
    assert addresses_of(heap).dtype != addresses_of(heap._replace(time=heap.time.reshape(2, 2))).dtype


def test_an_array_that_is_not_contiguous_is_refused() -> None:
    with pytest.raises(EngineError) as caught:
        addresses_of(new_heap(4, 4)._replace(time=np.zeros(8)[::2]))
    assert caught.value.where == "Heap.time"


def test_a_read_only_column_is_the_same_to_a_kernel() -> None:
    """Columns that polars or a mapped file holds are read-only; another type would be compiled once more."""
    heap = new_heap(4, 4)
    before = addresses_of(heap)
    heap.time.flags.writeable = False
    assert addresses_of(heap).dtype == before.dtype
    assert addresses_of(heap).tobytes() == before.tobytes()


@pytest.mark.compiled
@pytest.mark.skipif(not UNDOCUMENTED, reason="only fast mode takes addresses")
def test_such_an_array_never_reaches_a_compiled_kernel() -> None:
    with pytest.raises(EngineError):
        push(new_heap(8, 8)._replace(time=np.zeros(8)[::2]), 1.0, 2)


def test_a_bound_entry_answers_as_the_entry_itself() -> None:
    view = small_view()
    view.held.option[:] = 0
    insert_running(view, 3, 5)
    net = bind(actions.net_of_start, view)
    start = bind(actions.start_checked, view)
    jobs = range(len(view.nodes))
    assert [net(0, job, 0) for job in jobs] == [actions.net_of_start(view, 0, job, 0) for job in jobs]
    assert start(99, 0) == actions.start_checked(view, 99, 0) == codes.REFUSED_STATE


def test_a_copy_of_a_bound_entry_works_on_the_copied_arrays() -> None:
    """The words of a tuple are addresses: copied as they are, they would lead to the arrays of the original."""
    view = small_view()
    view.held.option[:] = 0
    insert_running(view, 3, 5)
    running = RunningList(view)
    other_view, other = copy.deepcopy((view, running))
    remove_running(other_view, 3)
    assert (running.rows[: running.write()].tolist(), other.write()) == ([3], 0)


@pytest.mark.compiled
@pytest.mark.skipif(not UNDOCUMENTED, reason="other modes take any argument")
def test_only_numbers_may_remain() -> None:
    with pytest.raises(TypeError, match="only numbers"):
        bind(actions.least_nets, small_view())


@pytest.mark.compiled
@pytest.mark.skipif(not UNDOCUMENTED, reason="only fast mode takes addresses")
def test_a_bound_tuple_of_another_layout_is_compiled_for_its_own() -> None:
    """Machine code is found by the layouts: it must not read arrays of other types."""
    view = small_view()
    view.held.option[:] = 0
    insert_running(view, 3, 5)
    wide = view._replace(running=view.running._replace(job=view.running.job.astype(np.int64)))
    assert running_in(view) == running_in(wide) == [3]
