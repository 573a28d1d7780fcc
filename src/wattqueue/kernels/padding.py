"""Check once for each view that is built or enlarged that its arrays are as kernels read them.

Kernels neither allocate nor check bounds. Two of the instructions that they use read several elements at once,
beyond the element that is wanted:

* ``at_most`` and ``least_of`` read 16 elements of the columns of a ``Tree``, from a multiple of 16 on;
* ``at_least`` reads 64 elements of the columns of a ``ReservationPlan``.

So every column of a tree ends with a whole group of 16 (``tree.new_tree``), and a plan has room for at least 64 rows
(``plan.new_plan``). A reader beyond the end of an array would not fail, but return whatever stands there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import EngineError
from wattqueue.kernels import codes, state
from wattqueue.kernels._numba import AT_LEAST_LANES
from wattqueue.kernels.tree import FAN

_HINT = "make it with new_tree, new_plan and their like in kernels"


def check_padding(view: state.KernelView) -> state.KernelView:
    """Return ``view`` if its arrays are as kernels read them.

    Raises: EngineError for a column of the tree or the plan that ends before the last element that is read, and
    for an array that is not contiguous (kernels compute addresses from shapes alone). Either is a defect of the
    caller that made the tuple, never of a user's input.
    """
    for name, column in _arrays(view, "view"):
        if not column.flags.c_contiguous:
            raise EngineError("an array of a kernel is not contiguous", where=name, hint=_HINT)
    tree, plan = view.tree, view.plan
    group = (tree.offset + -(-tree.size // FAN) * FAN)[tree.size > 0]
    columns = {"tree.need": tree.need, "tree.wall": tree.wall, "tree.watt": tree.watt}
    needed = dict.fromkeys(columns, int(group.max(initial=0)))
    inner = (tree.offset + -(-tree.size // FAN) * FAN)[:, 1:][tree.size[:, 1:] > 0] - len(tree.need_class)
    for name, table in (("tree.by_need", tree.by_need), ("tree.by_watt", tree.by_watt)):
        columns[name], needed[name] = table, -(-int(inner.max(initial=0)) // FAN)
    if view.now.backfill == codes.CONSERVATIVE:
        columns |= {"plan.time": plan.time, "plan.watt": plan.watt, "plan.nodes": plan.nodes.T}
        needed |= dict.fromkeys(("plan.time", "plan.watt", "plan.nodes"), max(len(plan.time), AT_LEAST_LANES))
    for name, column in columns.items():
        if len(column) < needed[name]:
            raise EngineError(
                f"{len(column)} rows, and kernels read {needed[name]}",
                where=name,
                hint=_HINT,
            )
    return view


def _arrays(part: Any, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every array of a tuple and of the tuples within it, with its dotted name."""
    for field, value in zip(part._fields, part, strict=True):
        if isinstance(value, np.ndarray):
            yield f"{name}.{field}", value
        elif isinstance(value, tuple):
            yield from _arrays(value, f"{name}.{field}")
