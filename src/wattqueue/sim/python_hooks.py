"""What the compiled loop calls Python for: predictions, custom or re-ranked passes, controls and their actions.

The loop stops only for what a policy uses: the bits of ``truth.request[STOP_MASK]``, set once from the policy's parts
(``_set_stops``). It returns a code, ``handle`` calls the part that the code stands for with a ``View`` of the present,
and puts the result into the arrays through kernels that check it; then the loop resumes.

Actions of controls are carried out at once, one after the other, in the policy's order: each control sees what the
ones before it did (rule 2 of docs/semantics.md). An action that is refused changes nothing; the refusal is counted,
and handed to every part in its next view.

The classes that actions are made of are in ``policy/actions.py``; ``sim/controls.py`` checks them and bounds what
controls do, ``kernels/actions.py`` carries them out.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.kernels import actions as act
from wattqueue.kernels import codes
from wattqueue.kernels.history_prediction import ON
from wattqueue.kernels.schedule import schedule_once
from wattqueue.model import bounds
from wattqueue.parts.contracts import Finished, Start
from wattqueue.parts.ledger.chance import Chance
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.actions import Action, Refusal, StartJob
from wattqueue.policy.decide import decide_order
from wattqueue.policy.view import View
from wattqueue.sim.controls import (
    EVENT_BITS,
    REFUSAL_REASONS,
    ActionLimits,
    actions_of,
    carry_out,
    check_control,
    listed,
)

if TYPE_CHECKING:
    from wattqueue.sim.engine import Simulation

_IDLE_CONTROL_STEPS = 1_000
_BACKFILL = "backfill"


class PythonHooks:
    """Calls the policy's Python parts for the loop, and carries out their actions in the truth.

    Every method takes the simulation as an argument instead of keeping it: the simulation owns its hooks, and a cycle
    would keep view and truth, some GB of a long trace, until the garbage collector runs.
    """

    def __init__(self, simulation: Simulation) -> None:
        """Find out which parts need Python, and make the loop stop for them."""
        policy = simulation.policy
        self.custom = getattr(policy.backfill, "schedule", None)
        self.rerank = getattr(policy.order, "rerank", None)
        in_loop = simulation.history.rule[ON] != 0
        self.online = policy.estimator if policy.estimator.asked != "once" and not in_loop else None
        self.controls = policy.controls
        self.peak_w = simulation.jobs.peak_power_w() if self.online is not None else None
        self.due = [simulation.jobs.submit_s.min(initial=np.inf) if c.period_s > 0 else np.inf for c in self.controls]
        self.pending: dict[str | int, list[Refusal]] = {}
        self.refused: Counter[str] = Counter()
        self.steps_left = _IDLE_CONTROL_STEPS
        self.limits = ActionLimits(simulation.machine.units)
        self._set_stops(simulation)

    def _set_stops(self, s: Simulation) -> None:
        """Set what the loop stops for, and when the first controls are due.

        Raises: PolicyError for a control whose period or events are wrong (``controls.check_control``).
        """
        truth, stops = s.truth, 0
        if self.online is not None:
            stops |= codes.STOP_FOR_PREDICTION
            truth.tally[codes.REPORT_COMPLETIONS] = 1
        if self.custom is not None or not isinstance(s.policy.ledger, Predicted | Chance):
            stops |= codes.STOP_FOR_PASS
        if self.rerank is not None:
            stops |= codes.STOP_FOR_RERANK
        if stops & (codes.STOP_FOR_PASS | codes.STOP_FOR_RERANK):
            self.pending[_BACKFILL] = []
        for i, control in enumerate(self.controls):
            check_control(control)
            self.pending[i] = []
            for event in control.events:
                stops |= EVENT_BITS[event]
        truth.request[codes.STOP_MASK] = stops
        truth.when[codes.CONTROL_AT] = min(self.due, default=np.inf)
        truth.when[codes.CONTROL_STEPS_LEFT] = self.steps_left if self.controls else 0

    def handle(self, s: Simulation, code: int) -> None:
        """Do what the loop returned with ``code`` for."""
        if code == codes.NEED_PREDICTION:
            self._predict(s)
        elif code == codes.NEED_PASS:
            self._pass(s)
        else:
            self._control(s)

    def notes(self) -> dict[str, int]:
        """Return the number of refused actions by reason."""
        return {f"refused: {reason}": count for reason, count in sorted(self.refused.items())}

    def view(self, s: Simulation, reader: str | int) -> View:
        """Return what a part sees now: the pass, or a control by its position.

        Contains the refusals since the same part was last called.
        """
        refusals, self.pending[reader] = tuple(self.pending[reader]), []
        return View(s.jobs, s.machine, s.view, s.truth.unit_state, refusals)

    def _predict(self, s: Simulation) -> None:
        """Write an online estimator's watts of the jobs that arrive now.

        Jobs that ended before are learned first (rule 2).

        Raises: PolicyError for a wrong shape, or watts that are not finite and at least 0.
        """
        tally = s.truth.tally
        rows = s.truth.arrival[tally[codes.BATCH] : tally[codes.NEXT_ARRIVAL]]
        self._learn(s)
        watts = np.asarray(self.online.predict_rows(rows, float(s.view.num[codes.NOW])), np.float64)  # type: ignore[union-attr]
        options = len(s.machine.option_partition)
        name = type(self.online).__name__
        if watts.shape != (len(rows), options):
            raise PolicyError(
                f"predict_rows gave shape {watts.shape}, expected ({len(rows)}, {options})",
                where=name,
                hint="one row per job that arrives, one column per option",
            )
        if np.isnan(watts).any():
            raise PolicyError(
                f"predicts unknown watts for job {s.jobs.job_id[rows[0]]}",
                where=name,
                hint="state the unit's maximum, which stands in for a missing history: --node-watts IDLE:MAX, or max_w",
            )
        if not bounds.UNIT_W.holds(watts).all():
            raise PolicyError(
                f"predicts watts outside {bounds.UNIT_W.text}", where=name, hint=f"{bounds.UNIT_W.reason}"
            )
        micro = np.rint(watts * codes.MICRO).astype(np.int64)
        for row, job in enumerate(rows):
            for option in range(options):
                act.set_prediction(s.view, int(job), option, int(micro[row, option]))

    def _learn(self, s: Simulation) -> None:
        """Hand the jobs that ended since the last call to the estimator, with measured watts (rule 11).

        Mean watts are energy over time, of one unit. A peak is known only where the trace has one.
        """
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
        """Run a pass whose margin, order or backfill is in Python.

        The margin first, because it changes the budget. Then the compiled pass, or the starts that Python decided on,
        checked one by one: one that does not fit is refused and counted, and the pass goes on.

        Raises: PolicyError for a margin below 0 or not finite (it would raise the cap), or an answer that is no list
        of starts.
        """
        view = self.view(s, _BACKFILL)
        margin = float(s.policy.ledger.margin_w(view))
        if not 0 <= margin < np.inf:
            raise PolicyError(
                f"margin_w() returned {margin}",
                where=type(s.policy.ledger).__name__,
                hint="watts that stay free below the cap: finite, and 0 or more",
            )
        act.set_margin(s.view, round(margin * codes.MICRO))
        if self.custom is None and self.rerank is None:
            schedule_once(s.view)
            return
        starts = self.custom(view) if self.custom is not None else decide_order(view, self.rerank)
        for start in listed(starts, (Start,), type(s.policy.backfill).__name__, "schedule()"):
            code = act.start_checked(s.view, int(start.entry), int(start.option))
            if code:
                job = int(s.view.entries.job[start.entry]) if 0 <= start.entry < len(s.view.entries.job) else -1
                self._refuse(StartJob(job, -1, (), int(start.option)), code)

    def _control(self, s: Simulation) -> None:
        """Call the controls that are due or wait for an event that happened, and carry out their actions.

        An event that the actions of this instant cause wakes no control again (rule 2). Calls without effect use up
        CONTROL_STEPS_LEFT: a queue that nothing else can move does not keep the run alive for ever.
        """
        now = float(s.view.num[codes.NOW])
        happened = int(s.truth.request[codes.HAPPENED])
        done = 0
        for i, control in enumerate(self.controls):
            named = any(happened & EVENT_BITS[event] for event in control.events)
            ticked = now >= self.due[i]
            if ticked:
                self.due[i] = now + control.period_s
            if named or ticked:
                for action in actions_of(control, self.view(s, i)):
                    if self.carry_out(s, i, action):
                        self.limits.count(s, i, action)
                        done += 1
        s.truth.when[codes.CONTROL_AT] = min(self.due, default=np.inf)
        self.steps_left = _IDLE_CONTROL_STEPS if done else self.steps_left - 1
        s.truth.when[codes.CONTROL_STEPS_LEFT] = self.steps_left

    def carry_out(self, s: Simulation, i: int, action: Action) -> bool:
        """Carry out one action of control ``i``; return whether it was. A refusal comes back in the next view."""
        code = carry_out(s, action, type(self.controls[i]).__name__)
        if code:
            self._refuse(action, code)
        return code == 0

    def _refuse(self, action: Action, code: int) -> None:
        """Count a refusal and keep it for every part that will get a view.

        Parts that never get a view keep no list: it would grow to the end of the run.
        """
        for pending in self.pending.values():
            pending.append(Refusal(action, REFUSAL_REASONS[code]))
        self.refused[REFUSAL_REASONS[code]] += 1
