"""Where the compiled loop stops for Python: predictions, custom passes, new ranks, controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.kernels import actions as act
from wattqueue.kernels import codes
from wattqueue.kernels.foresight import ON
from wattqueue.kernels.schedule import schedule_once
from wattqueue.parts.contracts import Finished
from wattqueue.parts.ledger.chance import Chance
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.actions import (
    Action,
    Refusal,
    Requeue,
    SetFrequency,
    SetSocketCap,
    StartJob,
    StopNode,
    WakeNode,
)
from wattqueue.policy.decide import decide_order
from wattqueue.policy.view import View

if TYPE_CHECKING:
    from wattqueue.sim.engine import Simulation

_REASONS = {
    codes.REFUSED_STATE: "not in a state for this",
    codes.REFUSED_BUSY: "no free unit",
    codes.REFUSED_OPTION: "no such option for it",
    codes.REFUSED_POWER: "the cap leaves no room",
}
_EVENT_BITS = {
    "arrival": codes.ASK_ON_ARRIVAL,
    "completion": codes.ASK_ON_COMPLETION,
    "signal": codes.ASK_ON_SIGNAL,
    "node": codes.ASK_ON_NODE,
}
_PATIENCE = 1_000
_BACKFILL = "backfill"


class Answers:
    """Answers the loop with the policy's Python parts; carries out their actions in the truth.

    The simulation is handed in with each question: it owns its answers, and a cycle would keep view and truth, some
    GB of a long trace, until the collector comes by.
    """

    def __init__(self, simulation: Simulation) -> None:
        policy = simulation.policy
        self.custom = getattr(policy.backfill, "schedule", None)
        self.rerank = getattr(policy.order, "rerank", None)
        in_loop = simulation.foresight.rule[ON] != 0
        self.online = policy.estimator if policy.estimator.asked != "once" and not in_loop else None
        self.controls = policy.controls
        self.peak_w = simulation.jobs.peak_power_w() if self.online is not None else None
        self.due = [simulation.jobs.submit_s.min(initial=np.inf) if c.period_s > 0 else np.inf for c in self.controls]
        self.unseen: dict[str | int, list[Refusal]] = {}
        self.refused: Counter[str] = Counter()
        self.patience = _PATIENCE
        self._set_wishes(simulation)

    def _set_wishes(self, s: Simulation) -> None:
        truth, wishes = s.truth, 0
        if self.online is not None:
            wishes |= codes.ASK_PREDICTION
            truth.tally[codes.STEERED] = 1
        if self.custom is not None or not isinstance(s.policy.ledger, Predicted | Chance):
            wishes |= codes.ASK_PASS
        if self.rerank is not None:
            wishes |= codes.ASK_RERANK
        if wishes & (codes.ASK_PASS | codes.ASK_RERANK):
            self.unseen[_BACKFILL] = []
        for i, control in enumerate(self.controls):
            self.unseen[i] = []
            for event in control.events:
                if event not in _EVENT_BITS:
                    raise PolicyError(f"a control names the event {event!r}", mend=f"one of {', '.join(_EVENT_BITS)}")
                wishes |= _EVENT_BITS[event]
        truth.wish[codes.WISHES] = wishes
        truth.when[codes.CONTROL_AT] = min(self.due, default=np.inf)
        truth.when[codes.PATIENCE] = self.patience if self.controls else 0

    def to(self, s: Simulation, code: int) -> None:
        """Answer what the loop returned with."""
        if code == codes.NEED_PREDICTION:
            self._predict(s)
        elif code == codes.NEED_PASS:
            self._pass(s)
        else:
            self._control(s)

    def notes(self) -> dict[str, int]:
        """Refused actions by reason."""
        return {f"refused: {reason}": count for reason, count in sorted(self.refused.items())}

    def view(self, s: Simulation, asker: str | int) -> View:
        """What a part sees now: the pass, or a control by its place; refusals since it was last asked."""
        refusals, self.unseen[asker] = tuple(self.unseen[asker]), []
        return View(s.jobs, s.machine, s.view, s.truth.unit_state, refusals)

    def _predict(self, s: Simulation) -> None:
        tally = s.truth.tally
        rows = s.truth.arrival[tally[codes.BATCH] : tally[codes.NEXT_ARRIVAL]]
        self._teach(s)
        watts = np.asarray(self.online.predict_rows(rows, float(s.view.num[codes.NOW])), np.float64)  # type: ignore[union-attr]
        options = len(s.machine.option_partition)
        if watts.shape != (len(rows), options) or not (np.isfinite(watts) & (watts >= 0)).all():
            raise PolicyError(
                f"predict_rows gave {watts.shape}, expected ({len(rows)}, {options}) finite watts of 0 or more",
                where=type(self.online).__name__,
            )
        micro = np.rint(watts * codes.MICRO).astype(np.int64)
        for row, job in enumerate(rows):
            for option in range(options):
                act.set_prediction(s.view, int(job), option, int(micro[row, option]))

    def _teach(self, s: Simulation) -> None:
        """Hand the jobs that ended since the last time to the estimator, as measured."""
        count = int(s.truth.tally[codes.FINISHED])
        if count == 0:
            return
        rows = s.log.finished[:count].copy()
        s.truth.tally[codes.FINISHED] = 0
        duration = s.log.end[rows] - s.log.start[rows]
        mean = s.log.energy_j[rows] / duration / s.jobs.nodes[rows]
        peak = self.peak_w
        top = mean if peak is None else np.where(np.isnan(peak[rows]), mean, np.maximum(peak[rows], mean))
        self.online.learn(Finished(rows, s.log.end[rows], mean, top))  # type: ignore[union-attr]

    def _pass(self, s: Simulation) -> None:
        view = self.view(s, _BACKFILL)
        margin = s.policy.ledger.margin_w(view)
        act.set_margin(s.view, round(margin * codes.MICRO))
        if self.custom is None and self.rerank is None:
            schedule_once(s.view)
            return
        starts = self.custom(view) if self.custom is not None else decide_order(view, self.rerank)
        for start in starts:
            code = act.start_checked(s.view, int(start.entry), int(start.option))
            if code:
                job = int(s.view.entries.job[start.entry]) if 0 <= start.entry < len(s.view.entries.job) else -1
                self._refuse(StartJob(job, -1, (), int(start.option)), code)

    def _control(self, s: Simulation) -> None:
        now = float(s.view.num[codes.NOW])
        happened = int(s.truth.wish[codes.HAPPENED])
        done = 0
        for i, control in enumerate(self.controls):
            named = any(happened & _EVENT_BITS[event] for event in control.events)
            ticked = now >= self.due[i]
            if ticked:
                self.due[i] = now + control.period_s
            if named or ticked:
                done += sum(self.carry_out(s, action) for action in control.act(self.view(s, i)))
        s.truth.when[codes.CONTROL_AT] = min(self.due, default=np.inf)
        self.patience = _PATIENCE if done else self.patience - 1
        s.truth.when[codes.PATIENCE] = self.patience

    def carry_out(self, s: Simulation, action: Action) -> bool:
        """One action in the truth; whether it was carried out. A refusal comes back in the next view."""
        code = _CARRIERS[type(action)](s, action)
        if code:
            self._refuse(action, code)
        return code == 0

    def _refuse(self, action: Action, code: int) -> None:
        for unseen in self.unseen.values():
            unseen.append(Refusal(action, _REASONS[code]))
        self.refused[_REASONS[code]] += 1


def _start(s: Simulation, action: StartJob) -> int:
    entries: NDArray[np.int32] = s.view.entries.of_job
    if not (0 <= action.job < len(entries) and 0 <= action.partition < entries.shape[1]):
        return codes.REFUSED_STATE
    return act.start_checked(s.view, int(entries[action.job, action.partition]), action.option)


def _frequency(s: Simulation, action: SetFrequency) -> int:
    return act.set_frequency(s.view, s.truth, s.log, action.job, action.option)


def _socket_cap(s: Simulation, action: SetSocketCap) -> int:
    limit = action.cap_w * codes.MICRO
    if not all(0 <= unit < s.machine.units for unit in action.sockets) or not limit >= 0:
        return codes.REFUSED_OPTION
    for unit in action.sockets:
        act.set_unit_cap(s.truth, int(unit), float(limit))
    touched = {act.job_of_unit(s.view, int(unit)) for unit in action.sockets} - {-1}
    for job in sorted(touched):
        act.refresh_job(s.view, s.truth, s.log, job)
    return 0


def _stop(s: Simulation, action: StopNode) -> int:
    return act.stop_node(s.view, s.truth, action.node)


def _wake(s: Simulation, action: WakeNode) -> int:
    return act.wake_node(s.view, s.truth, action.node)


def _requeue(s: Simulation, action: Requeue) -> int:
    return act.requeue(s.view, s.truth, s.log, action.job)


_CARRIERS: dict[type, Callable[..., int]] = {
    StartJob: _start,
    SetFrequency: _frequency,
    SetSocketCap: _socket_cap,
    StopNode: _stop,
    WakeNode: _wake,
    Requeue: _requeue,
}
