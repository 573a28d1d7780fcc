"""Controls: check what they declare, carry out their actions, and bound what they do.

A control is Python code of anybody, and the simulator acts on what it returns. Three things are guarded here, each with
a PolicyError that names the control:

* what it declares (``check_control``): a period that the clock can keep, events that exist, and something that
  wakes it;
* what it returns (``actions_of``): a list of actions with whole numbers. Entries are called past numba's dispatcher
  (``kernels/_jit.py``), which would not notice another type;
* that the run can end (``ActionLimits``): a control that requeues a job at every call, or that stops and wakes nodes
  while jobs wait, would keep the run alive for ever.

An action that the contracts allow but the present state does not is no error: it is refused with a reason
(``REFUSAL_REASONS``), counted, and handed to the parts in their next view.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.kernels import actions as act
from wattqueue.kernels import codes
from wattqueue.parts.contracts import Control
from wattqueue.policy.actions import (
    Action,
    Requeue,
    SetFrequency,
    SetSocketCap,
    StartJob,
    StopNode,
    WakeNode,
)

if TYPE_CHECKING:
    from wattqueue.sim.engine import Simulation

EVENT_BITS = {
    "arrival": codes.STOP_ON_ARRIVAL,
    "completion": codes.STOP_ON_COMPLETION,
    "signal": codes.STOP_ON_SIGNAL,
    "node": codes.STOP_ON_NODE,
}
"""Events that a control may name, and the bits by which the loop reports them."""
REFUSAL_REASONS = {
    codes.REFUSED_STATE: "wrong state",
    codes.REFUSED_BUSY: "no free unit",
    codes.REFUSED_OPTION: "no such option",
    codes.REFUSED_POWER: "not enough power below the cap",
}
"""What a refusal code of the kernels means, as parts and users read it."""
LEAST_PERIOD_S = 1e-3
"""Shortest period of a control. Float64 cannot hold a smaller step than 1e-6 s at the times of Unix clocks."""
MOST_REQUEUES = 1_000
"""How often one control may requeue one job."""
MOST_ACTIONS_A_UNIT = 10
"""Actions at one instant, or while nothing runs: so many for each unit, and ``SPARE_ACTIONS``."""
SPARE_ACTIONS = 1_000


def check_control(control: Control) -> None:
    """Check what a control declares.

    Raises: PolicyError for a period that is negative, not finite or too short, an unknown event, or a control that
    neither a period nor an event wakes.
    """
    where = type(control).__name__
    period = float(control.period_s)
    if not (period == 0.0 or LEAST_PERIOD_S <= period < np.inf):
        raise PolicyError(
            f"period_s is {period}", where=where, hint=f"0 for no period, or seconds from {LEAST_PERIOD_S}"
        )
    for event in control.events:
        if event not in EVENT_BITS:
            raise PolicyError(f"unknown event {event!r}", where=where, hint=f"one of {', '.join(EVENT_BITS)}")
    if period == 0.0 and not control.events:
        raise PolicyError("the control is never called", where=where, hint="set period_s, or name events")


def listed(answer: Any, kinds: tuple[type, ...], where: str, name: str) -> Sequence[Any]:
    """Return what a part returned, if it is a list of values of ``kinds``.

    A part that forgets its ``return`` would otherwise fail far from its own code.

    Raises: PolicyError naming the part.
    """
    if not isinstance(answer, Sequence) or isinstance(answer, str) or not all(isinstance(v, kinds) for v in answer):
        expected = ", ".join(kind.__name__ for kind in kinds)
        raise PolicyError(f"{name} returned {answer!r}", where=where, hint=f"return a list of {expected}; [] for none")
    return answer


def actions_of(control: Control, view: Any) -> Sequence[Action]:
    """Call a control, and return its actions.

    Raises: PolicyError where it returns anything but a list of actions.
    """
    found: Sequence[Action] = listed(control.act(view), tuple(_CARRIERS), type(control).__name__, "act()")
    return found


class ActionLimits:
    """Bounds on the actions that are carried out, so that every run ends.

    A refused action is not counted: it changes nothing, and calls without effect are bounded by the loop itself
    (``CONTROL_STEPS_LEFT``). The limits are far above what useful controls do: ten actions for each unit at one
    instant.
    """

    def __init__(self, units: int) -> None:
        """Start counting, for a machine of so many units."""
        self.most = MOST_ACTIONS_A_UNIT * units + SPARE_ACTIONS
        self.requeues: Counter[tuple[int, int]] = Counter()
        self.now_s = -np.inf
        self.at_once = 0
        """Actions at this instant. Nodes that boot in no time can wake the control that woke them, at one instant."""
        self.in_vain = 0
        """Actions since anything ran: nodes that are stopped and woken while jobs wait change nothing."""

    def count(self, s: Simulation, i: int, action: Action) -> None:
        """Count an action that control ``i`` had carried out.

        Raises: PolicyError naming the control where a limit is passed.
        """
        now, tally = float(s.view.num[codes.NOW]), s.truth.tally
        if now > self.now_s:
            self.now_s, self.at_once = now, 0
        if tally[codes.HEAP] > 0 or tally[codes.NEXT_ARRIVAL] < len(s.jobs):
            self.in_vain = 0
        self.at_once += 1
        self.in_vain += 1
        if self.at_once > self.most or self.in_vain > self.most:
            when = f"at {now} s" if self.at_once > self.most else "while no job runs"
            raise PolicyError(
                f"more than {self.most:,} actions {when}: the run would never end",
                where=type(s.policy.controls[i]).__name__,
                hint="return only actions that change something, and [] otherwise",
            )
        if isinstance(action, Requeue):
            self.requeues[i, action.job] += 1
            if self.requeues[i, action.job] > MOST_REQUEUES:
                raise PolicyError(
                    f"job {s.jobs.job_id[action.job]} was requeued more than {MOST_REQUEUES:,} times",
                    where=type(s.policy.controls[i]).__name__,
                    hint="a requeued job starts from zero, and this one would never end",
                )


def carry_out(s: Simulation, action: Action, where: str = "") -> int:
    """Carry out one action in the truth; return 0, or why it was refused (``kernels/codes.py``).

    Raises: PolicyError for a job, option, partition or unit that is not a whole number.
    """
    try:
        return _CARRIERS[type(action)](s, action)
    except TypeError as error:
        raise PolicyError(
            f"{action!r}: {error}", where=where, hint="jobs, units and options are whole numbers"
        ) from error


def _start(s: Simulation, action: StartJob) -> int:
    """Start an entry, as a custom pass would.

    Placement is by lowest number (docs/adr/0003), so units that the action names must be those that the job gets;
    other ones are refused rather than ignored.
    """
    entries = s.view.entries.of_job
    job, p = operator.index(action.job), operator.index(action.partition)
    if not (0 <= job < len(entries) and 0 <= p < entries.shape[1]):
        return codes.REFUSED_STATE
    if action.nodes and sorted(action.nodes) != lowest_free(s, p, int(s.jobs.nodes[job])):
        return codes.REFUSED_OPTION
    return act.start_checked(s.view, int(entries[job, p]), operator.index(action.option))


def lowest_free(s: Simulation, p: int, count: int) -> list[int]:
    """Return the numbers of the lowest free units of partition p, ``count`` of them or fewer."""
    units = s.view.units
    words = units.word[units.word_start[p] : units.word_start[p + 1]]
    free = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))[:count]
    return [int(units.unit_start[p]) + int(bit) for bit in free]


def _frequency(s: Simulation, action: SetFrequency) -> int:
    """Run a job at another option of its partition."""
    return act.set_frequency(s.view, s.truth, s.log, operator.index(action.job), operator.index(action.option))


def _socket_cap(s: Simulation, action: SetSocketCap) -> int:
    """Limit units; the jobs on them continue under the new limits.

    The limits are set first, because what a job draws depends on all its units; without room in the ledger they are
    reset, and nothing has changed.
    """
    sockets, limit = [operator.index(unit) for unit in action.sockets], float(action.cap_w) * codes.MICRO
    if not all(0 <= unit < s.machine.units for unit in sockets) or not limit >= 0:
        return codes.REFUSED_OPTION
    before = s.truth.unit_cap_uw[sockets].tolist()
    for unit in sockets:
        act.set_unit_cap(s.truth, unit, limit)
    touched = sorted({act.job_of_unit(s.view, unit) for unit in sockets} - {-1})
    if not act.limits_fit(s.view, s.truth, np.array(touched, np.int32)):
        for unit, old in zip(sockets, before, strict=True):
            act.set_unit_cap(s.truth, unit, old)
        return codes.REFUSED_POWER
    for job in touched:
        act.refresh_job(s.view, s.truth, s.log, job)
    return 0


def _stop(s: Simulation, action: StopNode) -> int:
    """Shut a free node down; refused on a busy one."""
    return act.stop_node(s.view, s.truth, operator.index(action.node))


def _wake(s: Simulation, action: WakeNode) -> int:
    """Boot a stopped node; refused where the ledger has no room for its watts."""
    return act.wake_node(s.view, s.truth, operator.index(action.node))


def _requeue(s: Simulation, action: Requeue) -> int:
    """Put a running job back in the queue; its progress is lost."""
    return act.requeue(s.view, s.truth, s.log, operator.index(action.job))


_CARRIERS: dict[type, Callable[..., int]] = {
    StartJob: _start,
    SetFrequency: _frequency,
    SetSocketCap: _socket_cap,
    StopNode: _stop,
    WakeNode: _wake,
    Requeue: _requeue,
}
