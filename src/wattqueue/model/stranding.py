"""Watts that a contract allows and a tree of power domains strands, and racks a job (rule 22 of docs/semantics.md).

At any time the free units could draw so much at their maximum, and the root (the cap, or the one domain above all) has
so much left; the tree lets them draw the bottom-up minimum of free units and of what each domain has left. What the
tree withholds of the lesser of the first two is *stranded*: no job can have it, whatever its watts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import HeldUnits, Schedule, State
from wattqueue.model.signals import Cap
from wattqueue.model.supply_over_time import BindingTree, Moment, UnitsHeld, event_times, moments


class Stranded(NamedTuple):
    """What is stranded over time; a value holds from its time to the next. Shapes (k,)."""

    time_s: Floats
    watts: Floats
    """What the tree withholds."""
    budget_w: Floats
    """What the root allows all units together, at most their maximum."""
    waiting: NDArray[np.bool_]
    """Whether some job waits."""

    def figures(self) -> dict[str, float | None]:
        """Return the metrics: means over time, and shares of the budget, over all and while some job waits."""
        length = np.diff(self.time_s)
        lost, whole = self.watts[:-1] * length, self.budget_w[:-1] * length
        waiting = self.waiting[:-1]
        return {
            "stranded_w_mean": _over(lost.sum(), length.sum()),
            "stranded_j": float(lost.sum()),
            "stranded_share": _over(lost.sum(), whole.sum()),
            "stranded_waiting_share": _over(lost[waiting].sum(), whole[waiting].sum()),
        }


def stranded(jobs: Jobs, schedule: Schedule, machine: Machine, cap: Cap) -> Stranded:
    """Return what is stranded from the first submission to the last end."""
    held = UnitsHeld.of(jobs, schedule, machine)
    tree, times = held.tree(machine), event_times(jobs, schedule, machine, cap)
    parts = [_of(tree, held, moment) for moment in moments(tree, held, times, machine, cap)]
    watts, budget = (np.concatenate(columns) for columns in zip(*(parts or [(np.zeros(0),) * 2]), strict=True))
    waits = schedule.state != State.REJECTED
    started = np.where(np.isfinite(schedule.start_s), schedule.start_s, np.inf)[waits]
    arrived = np.searchsorted(np.sort(jobs.submit_s[waits]), times, side="right")
    return Stranded(times, watts, budget, arrived > np.searchsorted(np.sort(started), times, side="right"))


def racks_a_job(schedule: Schedule, machine: Machine) -> float | None:
    """Return the mean number of racks of the jobs that ran; None where none did.

    A rack is a run of neighbouring units of one partition whose lowest domain is the same.
    """
    own = machine.supply_tree.of_unit
    cut = np.concatenate(([True], own[1:] != own[:-1]))
    cut[machine.unit_start[1:-1]] = True
    racks = HeldUnits.of(schedule).groups(np.cumsum(cut, dtype=np.int32), len(schedule.state))[schedule.ran]
    return float(racks.mean()) if len(racks) else None


def _of(tree: BindingTree, held: UnitsHeld, moment: Moment) -> tuple[Floats, Floats]:
    """Return stranded watts and budget at some times. Shapes (T,)."""
    draw = np.tensordot(held.most_w, moment.free, 1)
    could = draw.sum(axis=0)
    left = np.maximum(moment.limit_w - moment.load_w[:-1], 0.0)
    for k, parent in enumerate(tree.parent):  # those below others first
        draw[parent] += np.minimum(draw[k], left[k])
    room = np.maximum(moment.root_w - moment.load_w[-1], 0.0)
    budget = np.minimum(moment.root_w, float((held.most_w * tree.units).sum()))
    draws = np.minimum(draw[-1], room)
    if tree.one:
        budget, room = np.minimum(budget, moment.limit_w[-1]), np.minimum(room, left[-1])
    return np.maximum(np.minimum(room, could) - draws, 0.0), np.maximum(budget, 0.0)


def _over(part: float, whole: float) -> float | None:
    """Return a share, None of nothing."""
    return float(part / whole) if whole > 0 else None
