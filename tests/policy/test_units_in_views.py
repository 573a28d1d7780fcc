"""What parts in Python see and name where units differ: watts of a start, and the units that it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.actions import Action, StartJob
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate

MACHINE = Machine("four", (Partition("p", 4, max_w=200.0),), "jobs")
TABLE = UnitTable.of_watts(["cg", "ft"], ["0", "1", "2", "3"], np.array([[90.0, 60.0, 70.0, 80.0], [50.0] * 4]))
JOBS = replace(Jobs.build([0.0, 1.0], [2, 3], [10.0, 10.0]), app=Labels(np.array([0, 0], np.int32), ("cg", "ft")))


@dataclass
class Control:
    """Looks at the view, and acts at the first arrival."""

    look: Callable[[View], None] = lambda _: None
    actions: tuple[Action, ...] = ()
    events: frozenset[str] = frozenset({"arrival"})
    period_s: float = 0.0
    calls: list[float] = field(default_factory=list)

    def act(self, view: View) -> Sequence[Action]:
        self.look(view)
        self.calls.append(view.now_s)
        return self.actions if len(self.calls) == 1 else ()


def run_with(control: Control) -> Run:
    policy = load_policy("slurm-vtp", estimator=UnitWatts(table=TABLE), controls=[control])
    return simulate(JOBS, MACHINE, policy, cap=Cap.constant(1e4))


def test_watts_are_those_of_the_units_that_a_start_would_get() -> None:
    seen: list[list[float]] = []
    run_with(Control(look=lambda view: seen.append([view.net_watts(job, 0) for job in (0, 1)])))
    # At 0 s all units are free. At 1 s job 0 has units 1 and 2; too few are free for job 1: its best units count.
    assert np.array(seen) == pytest.approx(np.array([[130.0, 210.0], [170.0, 210.0]]))


@pytest.mark.parametrize(("nodes", "refused"), [((), 0), ((1, 2), 0), ((2, 1), 0), ((0, 1), 1)])
def test_a_start_may_name_the_units_of_its_placement_only(nodes: tuple[int, ...], refused: int) -> None:
    run = run_with(Control(actions=(StartJob("1", 0, nodes, 0),)))
    assert sum(run.notes.values()) == refused
    first, count = int(run.schedule.unit_start[0]), int(run.schedule.unit_count[0])
    assert (count, run.schedule.unit_low[first], run.schedule.unit_high[first]) == (1, 1, 2)
