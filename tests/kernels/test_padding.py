"""Padding that kernels rely on: made beside them, and checked for each view that is built."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.views import view_with
from wattqueue.errors import EngineError
from wattqueue.kernels import codes, state
from wattqueue.kernels._numba import AT_LEAST_LANES, AT_MOST_LANES
from wattqueue.kernels.fresh import new_plan, new_units, wider_plan
from wattqueue.kernels.padding import check_padding


def small_view(code: int = codes.CONSERVATIVE, jobs: int = 40) -> state.KernelView:
    """Two partitions, so that the last leaves do not begin at a multiple of 16."""
    return view_with(np.ones(jobs), np.ones(jobs), np.ones(jobs), (3, 5), code)


@pytest.mark.parametrize("jobs", [1, 7, 8, 16, 17, 256, 300])
def test_what_is_made_here_is_padded(jobs: int) -> None:
    for code in (codes.EASY, codes.CONSERVATIVE):
        view = small_view(code, jobs)
        assert check_padding(view) is view
        last = int((view.tree.offset[:, 0] + ((view.tree.size[:, 0] - 1) & -AT_MOST_LANES)).max())
        assert len(view.tree.need) >= last + AT_MOST_LANES


@pytest.mark.parametrize("column", ["need", "wall", "watt", "by_need", "by_watt"])
def test_a_tree_without_padding_is_refused(column: str) -> None:
    view = small_view()
    rows = len(view.tree.need_class) if column in ("need", "wall", "watt") else 1
    short = view._replace(tree=view.tree._replace(**{column: getattr(view.tree, column)[:rows].copy()}))
    with pytest.raises(EngineError) as caught:
        check_padding(short)
    assert caught.value.where == f"tree.{column}"


@pytest.mark.parametrize("column", ["time", "watt", "nodes"])
def test_a_plan_without_padding_is_refused(column: str) -> None:
    view = small_view()
    rows = AT_LEAST_LANES - 1
    short = view._replace(plan=view.plan._replace(**{column: np.zeros((2, rows) if column == "nodes" else rows)}))
    with pytest.raises(EngineError) as caught:
        check_padding(short)
    assert caught.value.where == f"plan.{column}"
    assert check_padding(small_view(codes.EASY)).plan.time.size == 0  # a pass that reads no plan needs no room


def test_columns_of_a_plan_have_one_length() -> None:
    view = small_view()
    short = view._replace(plan=view.plan._replace(watt=view.plan.watt[:-1].copy()))
    with pytest.raises(EngineError) as caught:
        check_padding(short)
    assert caught.value.where == "plan.watt"


def test_an_array_that_is_not_contiguous_is_refused() -> None:
    view = small_view()
    with pytest.raises(EngineError) as caught:
        check_padding(view._replace(walltime=np.ones(80)[::2]))
    assert caught.value.where == "view.walltime"


def test_a_plan_keeps_its_rows_when_it_is_widened() -> None:
    plan = new_plan(3, 2, rows=5)
    assert len(plan.time) == AT_LEAST_LANES
    plan.time[:], plan.watt[:], plan.nodes[:] = 1.0, 2, 3
    wide = wider_plan(plan)
    assert len(wide.time) == len(wide.watt) == wide.nodes.shape[1] == 2 * AT_LEAST_LANES
    assert (wide.time[:AT_LEAST_LANES] == 1.0).all()
    assert (wide.nodes[:, :AT_LEAST_LANES] == 3).all()


@pytest.mark.parametrize("counts", [(1,), (64,), (65, 63), (64 * 64, 1), (5_000, 130)])
def test_every_unit_of_a_new_machine_is_free(counts: tuple[int, ...]) -> None:
    nothing = np.zeros(len(counts), np.int64)
    units = new_units(np.array(counts), nothing, nothing, np.zeros(1, np.int32))
    for p, count in enumerate(counts):
        words = units.word[units.word_start[p] : units.word_start[p + 1]]
        assert sum(int(word).bit_count() for word in words) == count
    assert sum(int(word).bit_count() for word in units.filled) == len(units.word)
