"""Find who holds which unit: running jobs first, then those that may start, on what is left.

Races. Slurm's lists are read one after the other, and jobs start and end in between. The rules that follow from it: a
node that is busy without a job's row counts as taken only when it was so in two rounds (``Nodes.hidden``); a unit that
two rows claim belongs to the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wattqueue.live.cluster import Job
from wattqueue.live.planner import Planner, RoundState, stage
from wattqueue.live.table import Stage
from wattqueue.live.world import NO_LIMIT_S, OVERDUE_S, intervals


@stage(
    reads="snapshot counted jobs.row jobs.stage",
    writes="holding holders taken withheld jobs.placed_row jobs.own_units jobs.others jobs.part jobs.units "
    "jobs.intervals jobs.due_s jobs.end_s",
)
def occupy(now: RoundState) -> None:
    """Put running jobs on their units, with the ends that their limits give.

    A plan needs an end in the future: what should have ended is expected to end soon, and what is parked never.
    """
    jobs, planner = now.jobs, now.planner
    before, holding, taken, withheld = planner.occupied
    if now.counted != before or not set(jobs.new).isdisjoint(before):
        holding, taken, withheld = _place(now)
        planner.occupied = list(now.counted), holding, taken, withheld
    now.holding, now.holders = list(holding), len(holding)
    now.taken, now.withheld = set(taken), set(withheld)
    slots = np.array(holding, np.int64)
    due_s = jobs.due_s[slots]
    end_s = np.where(due_s <= now.now_s, now.now_s + OVERDUE_S, due_s)
    jobs.end_s[slots] = np.where(jobs.stage[slots] == Stage.PARKED, np.inf, end_s)


def _place(now: RoundState) -> tuple[list[int], frozenset[int], frozenset[int]]:
    """Place the running jobs; return those that hold units, these, and units that nobody else can use.

    Where another row claimed a unit before, a job keeps the rest: Slurm can show a job that just ended and its
    successor on one node in the same list.
    """
    jobs, holding, taken, withheld = now.jobs, list[int](), set[int](), set[int]()
    for slot in now.counted:
        row: Job = jobs.row[slot]
        if jobs.placed_row[slot] is not row:
            _read_nodes(now.planner, slot, row)
        # a job across two machine partitions counts in the first; its other nodes are nobody else's
        withheld |= jobs.others[slot]
        mine = jobs.own_units[slot]
        if not taken.isdisjoint(mine):
            mine = tuple(unit for unit in mine if unit not in taken)
        _hold(now, slot, mine)
        if mine:
            holding.append(slot)
            taken.update(mine)
    return holding, frozenset(taken), frozenset(withheld)


def _read_nodes(planner: Planner, slot: int, row: Job) -> None:
    """Read where a running job's row says that it runs: parsing lists of nodes is the costly part."""
    jobs, layout = planner.jobs, planner.layout
    units = [layout.unit[name] for name in row.node_names if name in layout.unit]
    part = layout.row_of(units[0]) if units else 0
    low, high = layout.first[part], layout.first[part + 1]
    mine = tuple(sorted(unit for unit in units if low <= unit < high))
    jobs.placed_row[slot], jobs.part[slot], jobs.own_units[slot] = row, part, mine
    jobs.others[slot] = frozenset(units) - frozenset(mine)
    limit_s = row.start_s + min(row.walltime_s, NO_LIMIT_S)
    jobs.due_s[slot] = -np.inf if row.state == "completing" else limit_s


def _hold(now: RoundState, slot: int, mine: tuple[int, ...]) -> None:
    """Give a job these units."""
    if now.jobs.units[slot] != mine or now.jobs.intervals[slot] is None:
        now.jobs.units[slot], now.jobs.intervals[slot] = mine, tuple(intervals(mine))


def keep_units(now: RoundState, slot: int, part: int, option: int, net_w: int, wanted: Sequence[str]) -> bool:
    """Keep units for a job that does not run yet; return whether any is free.

    It takes the free ones of the nodes meant for it (``wanted``), then others of its partition, lowest number first:
    Slurm may start it anywhere, but it will hold that many nodes.
    """
    jobs, layout = now.jobs, now.planner.layout
    row: Job = jobs.row[slot]
    low, high = int(layout.first[part]), int(layout.first[part + 1])
    first = [layout.unit[name] for name in wanted if name in layout.unit]
    free = [unit for unit in first if unit not in now.taken and low <= unit < high]
    if len(free) < row.nodes:
        out = now.taken | now.withheld | set(free)
        free += [unit for unit in range(low, high) if unit not in out]
    mine = tuple(sorted(free[: row.nodes]))
    if mine:
        jobs.part[slot], jobs.option[slot], jobs.net_w[slot], jobs.variance_left[slot] = part, option, net_w, 1.0
        jobs.placed_row[slot] = None
        _hold(now, slot, mine)
        jobs.end_s[slot] = now.now_s + min(row.walltime_s, NO_LIMIT_S)
        now.holding.append(slot)
        now.taken.update(mine)
    return bool(mine)
