"""One scripted run with every action. Its end times and joules are worked out by hand, below.

Four nodes, 100 W idle and 300 W at most; clocks of 2 GHz (reference) and 1 GHz: twice the time, and a quarter
of the watts above idle. Shutting down 10 s at 80 W, off 5 W, booting 30 s at 150 W. The cap covers the whole
machine: 1,000 W, from 300 s on 590 W, from 400 s on 1,000 W again. The control is asked every 50 s.

job  submit  nodes  work   walltime  watts of a node
0    0       2      400 s  600 s     200
1    0       1      200 s  200 s     300
2    200     2      100 s  100 s     200
3    500     1      300 s  200 s     200   killed after 200 s of work

 time  what happens                                                              jobs_w       other_w    machine
    0  job 0 starts on nodes 0, 1; job 1 on 2                                    400 + 300    100        800
   50  node 3 shuts down. Refused: stop 0 (busy), wake 3 (it is on its way)      700           80        780
   60  node 3 is off                                                             700            5        705
  100  job 0 to 1 GHz: 300 s left, now 600 s, end 700; 2 x 125 W                 250 + 300      5        555
       Refused: an option that the machine has not
  150  node 2 limited to 150 W: clock sqrt(50/200) = 1/2; job 1: 50 s left,
       now 100 s, end 250                                                        250 + 150      5        405
  200  node 3 boots; job 2 waits for two nodes                                   400          150        550
  230  node 3 is on                                                              400          100        500
  250  job 1 ends; the limit is lifted; job 2 starts on nodes 2, 3               250 + 400      0        650
  300  cap 590: base 400 + job 0 50 leaves 140, job 2 needs 200 net; requeued    250          200        450
  350  job 0 to 2 GHz needs 150 more than its 50 net. Refused: only 140 left
  400  cap 1,000: job 0 to 2 GHz: 300 s left, now 150 s, end 550; job 2 starts   400 + 400      0        800
  430  node 1 fails: job 0 goes back; 0 W for node 1, 100 W for node 0           400          100        500
  460  node 1 is back: job 0 starts from zero on 0, 1, at 2 GHz, end 860         400 + 400      0        800
  500  job 2 ends; job 3 starts on node 2                                        400 + 200    100        700
  550  job 3 to 1 GHz: 150 s of work left, now 300 s, end 850                    400 + 125    100        625
  850  job 3 is killed, after 200 s of work                                      400          200        600
  860  job 0 ends

Joules: job 0  100 x 400 + 300 x 250 + 30 x 400 + 400 x 400           = 287,000
        job 1  150 x 300 + 100 x 150                                  =  60,000
        job 2  50 x 400 + 100 x 400                                   =  60,000
        job 3  50 x 200 + 300 x 125                                   =  47,500
        machine  50 x 800 + 10 x 780 + 40 x 705 + 50 x 555 + 50 x 405 + 30 x 550 + 20 x 500 + 50 x 650
                 + 100 x 450 + 30 x 800 + 30 x 500 + 40 x 800 + 50 x 700 + 300 x 625 + 10 x 600 = 527,500
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.sim.invariants import check_invariants, units_of
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import metrics
from wattqueue.model.schedule import State
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue, SetDeviceLimits, SetFrequency, StopNode, WakeNode
from wattqueue.policy.actions import NO_CONSENT, NO_FREE_UNIT, NO_OPTION, NO_POWER, REASONS, WRONG_STATE
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, Simulation
from wattqueue.sim.truth import NodeEvents

NODE = Partition(
    "batch", 4, frequencies_hz=(2.0e9, 1.0e9), idle_w=100.0, max_w=300.0, dvfs_beta=1.0, dvfs_alpha=2.0,
    boot_s=30.0, boot_w=150.0, shutdown_s=10.0, shutdown_w=80.0, off_w=5.0,
)  # fmt: skip
MACHINE = Machine("four", (NODE,))
JOBS = Jobs.build(
    [0.0, 0.0, 200.0, 500.0],
    [2, 1, 2, 1],
    [400.0, 200.0, 100.0, 300.0],
    walltime_s=[600.0, 200.0, 100.0, 200.0],
    mean_power_w=[200.0, 300.0, 200.0, 200.0],
)
CAP = Cap(np.array([-np.inf, 300.0, 400.0]), np.array([1000.0, 590.0, 1000.0]))
FAILURE = NodeEvents(np.array([430.0, 460.0]), np.array([1, 1], np.int32), np.array([False, True]))
NO_SUCH_OPTION = SetFrequency("1", 7)
SCRIPT: dict[float, list[Action]] = {
    50.0: [StopNode(3), StopNode(0), WakeNode(3)],
    100.0: [SetFrequency("1", 1), NO_SUCH_OPTION],
    150.0: [SetDeviceLimits((2,), (150.0,))],
    200.0: [WakeNode(3)],
    250.0: [SetDeviceLimits((2,), (np.inf,))],
    300.0: [Requeue("3")],
    350.0: [SetFrequency("1", 0)],
    400.0: [SetFrequency("1", 0)],
    550.0: [SetFrequency("4", 1)],
}


class Script:
    """Does what is written for the time, and keeps what it saw."""

    period_s = 50.0
    events: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.seen: dict[float, list[tuple[Action, str]]] = {}
        self.least_left_s = np.inf
        self.simulation: Simulation | None = None

    def act(self, view: View) -> Sequence[Action]:
        if view.refusals:
            self.seen[view.now_s] = [(refusal.action, refusal.reason) for refusal in view.refusals]
        assert self.simulation is not None
        truth = self.simulation.truth
        ends = truth.ends.time[: truth.ends.filled[0]]
        self.least_left_s = min(self.least_left_s, float((ends - view.now_s).min(initial=np.inf)))
        return SCRIPT.get(view.now_s, [])


class Onlooker(Script):
    """Sees, and does nothing."""

    def act(self, view: View) -> Sequence[Action]:
        super().act(view)
        return []


@pytest.fixture(scope="module")
def played() -> tuple[Run, Script, Script]:
    """The run, its control, and a second control that only looks on."""
    script, onlooker = Script(), Onlooker()
    policy = replace(load_policy("easy", estimator="oracle-mean"), controls=(script, onlooker))
    simulation = Simulation(JOBS, MACHINE, policy, CAP, None, FAILURE)
    script.simulation = onlooker.simulation = simulation
    simulation.go()
    return simulation.result(), script, onlooker


def test_end_times(played: tuple[Run, Script, Script]) -> None:
    schedule = played[0].schedule
    assert schedule.start_s.tolist() == [460.0, 0.0, 400.0, 500.0]
    assert schedule.end_s.tolist() == [860.0, 250.0, 500.0, 850.0]
    assert schedule.state.tolist() == [State.COMPLETED, State.COMPLETED, State.COMPLETED, State.KILLED]
    assert [units_of(schedule, job) for job in range(4)] == [[0, 1], [2], [2, 3], [2]]
    check_invariants(played[0])


def test_joules(played: tuple[Run, Script, Script]) -> None:
    run = played[0]
    assert run.schedule.energy_j == pytest.approx([287_000.0, 60_000.0, 60_000.0, 47_500.0], rel=1e-12)
    found = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap)
    assert found["job_energy_j"] == pytest.approx(454_500.0, rel=1e-12)
    assert found["machine_energy_j"] == pytest.approx(527_500.0, rel=1e-12)


def test_the_power_series_step_by_step(played: tuple[Run, Script, Script]) -> None:
    power = played[0].power
    expected = {
        0: 800, 50: 780, 60: 705, 100: 555, 150: 405, 200: 550, 230: 500, 250: 650, 300: 450, 400: 800,
        430: 500, 460: 800, 500: 700, 550: 625, 850: 600,
    }  # fmt: skip
    found = dict(zip(power.time_s.tolist(), power.machine_w.tolist(), strict=True))
    assert found.pop(860.0) == 400.0  # all idle once more
    changes = [t for k, t in enumerate(found) if k == 0 or found[t] != list(found.values())[k - 1]]
    assert {t: found[t] for t in changes} == expected


def test_refusals_come_back_in_the_next_view(played: tuple[Run, Script, Script]) -> None:
    _, script, onlooker = played
    assert script.seen == {
        100.0: [
            (StopNode(0), NO_FREE_UNIT),
            (WakeNode(3), WRONG_STATE),
        ],
        150.0: [(NO_SUCH_OPTION, NO_OPTION)],
        400.0: [(SetFrequency("1", 0), NO_POWER)],
    }
    # A control behind it is asked after it at the same instant, and sees them there.
    assert list(onlooker.seen) == [50.0, 100.0, 350.0]


def test_refusals_are_counted(played: tuple[Run, Script, Script]) -> None:
    # Without a load target no action needs consent.
    assert played[0].notes == {f"refused: {reason}": 1 for reason in REASONS if reason not in ("", NO_CONSENT)}


def test_remaining_work_is_never_negative(played: tuple[Run, Script, Script]) -> None:
    assert 0.0 <= played[1].least_left_s < 100.0


def test_a_change_of_speed_just_before_the_end_leaves_no_negative_rest() -> None:
    """At 0.1234564 s a tenth of a microsecond is left: rounded to the microsecond the end would lie before now."""

    class AtOnce:
        period_s = 0.1234564
        events: frozenset[str] = frozenset()

        def act(self, view: View) -> Sequence[Action]:
            return [SetFrequency(job, 1) for job in view.job_ids(view.running)]

    jobs = Jobs.build([0.0], [1], [0.12345645], mean_power_w=[200.0])
    policy = replace(load_policy("easy", estimator="oracle-mean"), controls=(AtOnce(),))
    simulation = Simulation(jobs, MACHINE, policy, Cap.none(), None, NodeEvents.none())
    simulation.go()
    run = simulation.result()
    assert run.schedule.end_s[0] >= 0.1234564
    assert (np.diff(run.power.time_s) > 0).all()
