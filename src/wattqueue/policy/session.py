"""One session of a policy: everything that stands around the compiled pass, for every driver.

A driver is a world in which a policy acts: the simulator (``sim/world.py``), or a round of the live controller
(``policy/round.py``). It shows the present (``view``), and carries an action out or refuses it with a reason
(``abilities.actions``). All else is here, once: which controls are due, what refusals each part still has to see, the
order of the pass and its margin, passes in Python, checks of what parts return, and the order in which an online
estimator learns and predicts.

The order of an instant is rule 2 of docs/semantics.md::

    learn, predict      completions before submissions          Session.predict, Session.predict_batch
    controls            those that are due, one by one          Session.control
    pass                margin, order, starts                   Session.schedule

The simulator's compiled loop calls for these in this order, and only where the policy has a part in Python for it
(``stops``); the live controller calls them all in each round.

What an action takes counts at once, because the driver changes its view when it carries the action out. What it frees
counts when the driver's view shows it: in the simulator at once, live in a later round.
"""

from __future__ import annotations

import operator
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError, WattQueueError
from wattqueue.kernels import calls as act
from wattqueue.kernels import codes, state
from wattqueue.kernels.calls import may_start, schedule_once
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.actions import Action, Refusal, Requeue, StartJob
from wattqueue.parts.contracts import Finished, FinishedRuns, Floats, Prediction, Start
from wattqueue.policy.actions import KINDS, REASONS, carry_out, listed
from wattqueue.policy.capabilities import EVENT_BITS, Capabilities
from wattqueue.policy.estimation import EstimatorSession
from wattqueue.policy.interfaces import method_of, stated
from wattqueue.policy.registry import Policy
from wattqueue.policy.target_limits import LIFTED, TargetLimits

if TYPE_CHECKING:
    from wattqueue.policy.driver import Driver
    from wattqueue.policy.view import View

MOST_REFUSALS = 10_000
"""Refusals that are kept for a part until it is called; older ones are dropped, or a part that waits for an event
that never comes would keep all of them."""
_PASS = -1
"""The reader of refusals that is not a control: the pass."""
_REPORT = -2
"""The reader that is the driver itself."""
NEW_AT_FIRST = EVENT_BITS["signal"] | EVENT_BITS["node"]
"""Events that the beginning stands for: the cap in force and the states of units are new to a control then."""
STARTED = EVENT_BITS["start"]
NOTHING: tuple[Refusal, ...] = ()
INF = float("inf")


class PassResult(NamedTuple):
    """What the Python parts of a pass answered: with the view, all that the pass depends on."""

    margin_w: float = 0.0
    """Watts that the ledger keeps free."""
    priority: Floats | None = None
    """Priorities by an order that re-ranks, one for each entry of ``view.queue``."""
    starts: tuple[Start, ...] | None = None
    """Starts of a pass in Python."""


@dataclass(frozen=True, slots=True, eq=False)
class InstantResult:
    """All that the Python parts of a policy answered at one instant."""

    actions: tuple[Action, ...] = ()
    """Actions of controls that were carried out, in their order; those refused changed nothing."""
    pass_answers: PassResult | None = None
    """None where there was no pass."""
    margin_before_w: float = 0.0
    """Watts that the ledger kept free while the controls acted: the margin of the pass before."""
    holds_starts: bool = False
    """Whether a control let nothing start beside running jobs."""


def begin_run(controls: Sequence[object]) -> None:
    """Have controls forget the run before, where they keep anything."""
    for control in controls:
        begin = method_of(control, "begin")
        if begin is not None:
            begin()


class Session:
    """A policy at work, from its first instant to its last.

    It keeps no reference to a driver: the simulator's arrays take some GB of a long trace, and would live until the
    garbage collector runs.
    """

    def __init__(
        self,
        policy: Policy,
        needs: Capabilities,
        *,
        begin_s: float = -np.inf,
        report: bool = False,
    ) -> None:
        """Begin with no control called.

        First due at ``begin_s`` are those with a period, and those that wait for a signal or for nodes (rule 2).

        ``needs`` is what ``resolve(policy)`` returned. ``report``: refusals are kept for ``pop_refusals``, too.
        """
        self.needs = needs
        begin_run(needs.controls)
        self.estimation = EstimatorSession(policy.estimator, needs.online)
        self.predicts_in_loop = False
        """Whether the driver's compiled loop learns and predicts watts itself."""
        self.plans_in_loop = False
        """Whether it learns and predicts run times itself."""
        self.asks_at_starts = needs.custom_pass is not None and needs.margin_w is None
        """Whether the pass need only be run where an entry that waits may start (``kernels/view_lists.py``).

        A margin in Python is asked for in each pass, and says what may start; a new order changes priorities.
        """
        self.asks_in_loop = False
        """Whether it stops for a pass in Python only where something may start (``asks_at_starts``)."""
        self.events = [sum(EVENT_BITS[event] for event in control.events) for control in needs.controls]
        self.due = [
            begin_s if control.period_s > 0 or events & NEW_AT_FIRST else np.inf
            for control, events in zip(needs.controls, self.events, strict=True)
        ]
        self.step_in_loop: Callable[[int], int] | None = None
        """Has the control ``needs.step_control`` act if it is due or woken, where the driver's loop has its step."""
        self.last_pass_s = -np.inf
        self.margin_w = 0.0
        """Watts that the ledger keeps free, by the last pass; a control's starts leave them free, too."""
        readers = [*range(len(needs.controls)), *([_PASS] if needs.pass_in_python else []), *([_REPORT] * report)]
        self.pending: dict[int, deque[Refusal]] = {reader: deque(maxlen=MOST_REFUSALS) for reader in readers}
        self.refused: Counter[str] = Counter()
        self._freed = (-np.inf, 0.0)
        """An instant, and the watts that actions freed then and no view shows yet."""
        self.target_limits = TargetLimits()
        self.holding: list[Any] = [each for each in needs.controls if stated(each, "holds_starts", None) is not None]
        """Controls that may let nothing start beside running jobs."""
        self.acts_by_power = any(stated(control, "acts_by_power", False) for control in needs.controls)
        """Whether a control acts by measured power: it decides, too, what the cap asks for (rule 16)."""

    # -- what the compiled loop has to know --------------------------------------------------------
    def stops(self) -> int:
        """Return the bits of what a compiled loop must stop for (``kernels/codes.py``)."""
        bits = reduce(operator.or_, self.events, 0)
        if self.learns or self.plans:
            bits |= codes.STOP_FOR_PREDICTION
        if self.needs.pass_in_python:
            bits |= codes.STOP_FOR_START if self.asks_at_starts else codes.STOP_FOR_PASS
        return bits

    def next_due_s(self) -> float:
        """Return when the next control is due by its period; inf for none."""
        return min(self.due) if self.due else INF

    # -- estimators --------------------------------------------------------------------------------
    @property
    def learns(self) -> bool:
        """Return whether the driver has to ask the estimator at each submission, and to teach it what ended."""
        return self.needs.online is not None and not self.predicts_in_loop

    @property
    def plans(self) -> bool:
        """Return whether the driver has to ask the run-time part at each submission, and to teach it what ended."""
        return self.needs.plans_online is not None and not self.plans_in_loop

    def begin(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Ask the estimator about a whole workload, before any of its jobs has ended.

        Raises: PolicyError for tables of a wrong shape, or figures that no kernel can hold.
        """
        return self.estimation.begin(jobs, machine)

    def predict(self, finished: Finished | None, rows: NDArray[np.int32], now_s: float, options: int) -> Floats:
        """Teach an online estimator the jobs that ended, then return its watts of those that arrive now (rule 2).

        Watts of one unit. Shape (k, ``options``).

        Raises: PolicyError for a wrong shape, watts that are not known, or that no kernel can hold.
        """
        return self.estimation.arrive(finished, rows, now_s, options)

    def predict_batch(
        self,
        jobs: KnownJobs,
        machine: Machine,
        finished: Finished,
        rows: NDArray[np.int32],
        now_s: float,
        instead: Floats,
    ) -> Prediction:
        """Do the same on a table of its own, for a driver that goes on whatever the estimator answers.

        Jobs whose prediction cannot be used count ``instead``: watts of one unit by option. What was wrong is listed by
        ``estimation.pop_problems``. Shapes (k, O).
        """
        return self.estimation.predict_batch(jobs, machine, finished, rows, now_s, instead)

    def plan_batch(
        self, jobs: KnownJobs, machine: Machine, finished: FinishedRuns, rows: NDArray[np.int32], now_s: float
    ) -> Floats:
        """Return the planned seconds of some rows of a table of its own, as ``run_times_batch`` does. Shape (k,).

        Jobs whose run time cannot be predicted are planned at their walltimes; what was wrong is listed by
        ``estimation.pop_problems``.
        """
        part, walltime_s = self.needs.plans, jobs.walltime_s[rows]
        if part is None:
            return walltime_s
        from wattqueue.policy.run_times import run_times_batch

        try:
            return run_times_batch(part, self.needs.plans_online, jobs, machine, finished, rows, now_s)
        except Exception as error:  # noqa: BLE001 - whatever a user's part does, a controller goes on
            what = error.what if isinstance(error, WattQueueError) else f"{type(error).__name__}: {error}"
            self.estimation.report(f"run times {type(part).__name__}: {what}; the jobs are planned at their walltimes")
            return walltime_s

    # -- refusals ----------------------------------------------------------------------------------
    def refuse(self, action: Action, reason: str) -> None:
        """Count a refusal, and keep it for the next view of every part."""
        refusal = Refusal(action, reason)
        for pending in self.pending.values():
            pending.append(refusal)
        self.refused[reason] += 1

    def pop_refusals(self) -> tuple[Refusal, ...]:
        """Return the refusals since this was last asked, for a driver that reports them."""
        return self._pending(_REPORT)

    def notes(self) -> dict[str, int]:
        """Return the number of refused actions by reason, and what controls have to say."""
        return _notes(self.refused, self.target_limits.lifted, self.needs.controls)

    def _pending(self, reader: int) -> tuple[Refusal, ...]:
        """Return the refusals since the same reader was last called, and forget them."""
        pending = self.pending[reader]
        refusals = tuple(pending)
        pending.clear()
        return refusals

    # -- controls ----------------------------------------------------------------------------------
    def leave_step_to(self, take: Callable[[int], int]) -> None:
        """Let the driver's compiled loop take the steps of a control; where others act, too, ``take`` keeps the order.

        ``take`` is given what happened, and takes the step if it is due or woken.
        """
        self.step_in_loop, self.due[self.needs.step_control] = take, np.inf
        self.events[self.needs.step_control] = 0  # the loop stops for none of them

    def control(self, driver: Driver, now_s: float, happened: int, count: Any = None) -> list[Action]:
        """Call the controls that are due, or that wait for an event that happened; return what was carried out.

        ``happened`` are bits of ``EVENT_BITS``. Each control sees what those before it did; what they do makes no
        control due a second time. ``count`` is called with (control, action) for each action that was carried out.
        """
        done: list[Action] = []
        if self.needs.margin_w is not None:
            set_margin(driver.kernel, self.margin_w)  # the view of a round begins without one
        if happened & STARTED:
            self.lift_limits(driver)
        due = self.due
        for i, control in enumerate(self.needs.controls):
            if self.step_in_loop is not None and i == self.needs.step_control:
                self.step_in_loop(happened)
                continue
            if now_s >= due[i]:
                # From the time of the call, so that a late round is not made up for.
                due[i] = now_s + control.period_s if control.period_s > 0 else np.inf
            elif not happened & self.events[i]:
                continue
            elif control.period_s == 0:
                due[i] = np.inf  # woken before the beginning: it has seen the cap and the units
            refusals = self._pending(i) if self.pending[i] else NOTHING
            view = driver.view(refusals, control)
            for action in listed(control.act(view), KINDS, control, "act()"):
                if not self.take(driver, view, action, control):
                    continue
                if count is not None:
                    count(control, action)
                done.append(action)
        hold_starts(driver.kernel, held=self.holds_starts)
        return done

    @property
    def holds_starts(self) -> bool:
        """Return whether a control lets nothing start now beside the jobs that run (rule 16)."""
        return any(control.holds_starts for control in self.holding)

    def take(self, driver: Driver, view: View, action: Action, control: object) -> bool:
        """Carry out an action of a control; where it is refused, keep the reason and return False."""
        reason = self._carry_out(driver, view, action, control)
        if reason:
            self.refuse(action, reason)
        return not reason

    def _carry_out(self, driver: Driver, view: View, action: Action, control: object) -> str:
        """Carry out an action of a control, or return why not.

        Consent comes first (rule 20 of docs/semantics.md), then what the pass promises (rule 8).
        """
        if reason := _refused_by(self.needs.refusing, view, action):
            return reason
        table = driver.abilities.actions
        kind = type(action)
        by_power = self.acts_by_power and stated(control, "acts_by_power", False)
        for_targets = len(driver.signals.targets) or self.target_limits.before_w
        if not (for_targets or by_power) and kind is not Requeue and kind is not StartJob:
            return carry_out(table, driver, action, control)
        from wattqueue.policy import consented, overtaking

        if view.now_s != self._freed[0]:
            self._freed = view.now_s, 0.0
        frees, for_target, before_w = 0.0, False, driver.device_limits_w
        # What is not a job, an option or watts: the driver names it.
        with suppress(TypeError, ValueError, OverflowError):
            power = view.device_power if for_targets and self.acts_by_power else None
            by_measure = power is not None and power.power_w > view.cap_alone_w
            freed_w = -np.inf if by_measure else self._freed[1]
            effect = consented.effect_beside_target(view, action, before_w, freed_w)
            reason = consented.refused_by_consent(view, action, effect, freed_w)
            if reason := reason or (consented.refused_by_power(view, action) if by_power else ""):
                return reason
            frees = 0.0 if driver.abilities.frees_at_once else consented.frees_w(view, action)
            for_target = consented.are_for_target(view, effect)
        if isinstance(action, StartJob) and overtaking.overtakes(view, self.needs, action):
            return overtaking.OVERTAKES
        reason = carry_out(table, driver, action, control)
        if not reason:
            self._freed = self._freed[0], self._freed[1] + frees
            self.target_limits.note(before_w, driver.device_limits_w, for_target=for_target)
        return reason

    def lift_limits(self, driver: Driver) -> None:
        """Lift the limits of a load target that slow a job beyond the consent of its user (rule 20)."""
        self.target_limits.lift(driver)

    # -- the pass ----------------------------------------------------------------------------------
    def pass_is_due(self, now_s: float) -> bool:
        """Return whether ``pass_interval_s`` has elapsed since the last pass (rule 10)."""
        return now_s >= self.last_pass_s + self.needs.pass_interval_s

    def schedule(self, driver: Driver) -> PassResult:
        """Run the pass of this instant; return what its Python parts answered. Starts are in the kernel's buffer.

        The margin comes first, because it changes the budget. A start of a pass in Python that does not fit is refused
        and counted, and the pass goes on. A pass in Python is asked where an entry that waits may start.

        Raises: PolicyError for a margin below 0 or not finite (it would raise the cap), or an answer that is no list
        of starts.
        """
        self.last_pass_s = float(driver.kernel.now.time_s)
        needs = self.needs
        if not needs.pass_in_python:
            schedule_once(driver.kernel)
            return PassResult()
        refusals = self._pending(_PASS) if self.pending[_PASS] else NOTHING
        margin = 0.0 if needs.margin_w is None else self._margin_w(driver, needs.margin_w, refusals)
        view = driver.view(refusals, needs.pass_part)
        starts = priority = None
        if needs.custom_pass is not None:
            answer = needs.custom_pass(view) if self.asks_in_loop or may_start(driver.kernel) else ()
            starts = tuple(listed(answer, (Start,), needs.pass_part, "schedule()"))
        elif needs.rerank is not None:
            priority = np.array(needs.rerank(view), np.float64)
        answers = PassResult(margin, priority, starts)
        for start, code in run_pass(driver, view, needs, answers):
            job = view.job_id(view.entry_job(start.entry)) if 0 <= start.entry < view.entries else ""
            self.refuse(StartJob(job, -1, (), int(start.option)), REASONS[code])
        return answers

    def _margin_w(self, driver: Driver, ask: Callable[[View], float], refusals: tuple[Refusal, ...]) -> float:
        """Return the watts that the ledger keeps free, and put them into the budget. Raises: PolicyError."""
        ledger = self.needs.ledger_part
        margin = float(ask(driver.view(refusals, ledger)))
        if not 0 <= margin < np.inf:
            raise PolicyError(
                f"margin_w() returned {margin}",
                where=type(ledger).__name__,
                hint="watts that stay free below the cap: finite, and 0 or more",
            )
        set_margin(driver.kernel, margin)
        self.margin_w = margin
        return margin


def set_margin(kernel: state.KernelView, margin_w: float) -> None:
    """Keep watts free below the cap. A chance ledger computes its own margin, start by start, and keeps that."""
    if not kernel.now.by_chance:
        act.set_margin(kernel, codes.microwatts(margin_w))


def hold_starts(kernel: state.KernelView, *, held: bool) -> None:
    """Let nothing start beside running jobs, or let jobs start again; then the next pass looks at all of them."""
    if bool(kernel.now.holds_starts) != held:
        kernel.now.holds_starts = held
        kernel.now.dirty = 1


def run_pass(driver: Driver, view: View, needs: Capabilities, answers: PassResult) -> list[tuple[Start, int]]:
    """Run a pass with the answers of its Python parts; return the starts that were refused, with their codes."""
    starts = answers.starts
    if starts is None and answers.priority is None:
        schedule_once(driver.kernel)
        return []
    if starts is None:
        from wattqueue.policy.decide import ranked_starts

        starts = tuple(ranked_starts(view, needs.pass_settings(view.machine.cap_scope), answers.priority))
    refused = []
    for start in starts:
        code = start_checked(view, int(start.entry), int(start.option))
        if code:
            refused.append((start, code))
    return refused


def start_checked(view: View, entry: int, option: int) -> int:
    """Start an entry in the driver's arrays, or return why not (``kernels/actions.py``): the start of a pass."""
    start = view._start  # noqa: SLF001 - private to parts
    if start is None:
        start = view._start = act.bind(act.start_checked, view._own)  # noqa: SLF001
    return start(entry, option)


def replay_instant(driver: Driver, needs: Capabilities, answers: InstantResult) -> bool:
    """Do again, on another driver, what a policy did at one instant, without asking its parts.

    Returns whether everything was carried out. A recorded round is replayed so, and a round in which jobs get more
    nodes than at first.
    """
    whole = True
    if needs.margin_w is not None:
        set_margin(driver.kernel, answers.margin_before_w)
    for action in answers.actions:
        whole = carry_out(driver.abilities.actions, driver, action, driver) == "" and whole
    hold_starts(driver.kernel, held=answers.holds_starts)
    if answers.pass_answers is None:
        return whole
    if needs.margin_w is not None:
        set_margin(driver.kernel, answers.pass_answers.margin_w)
    refused = run_pass(driver, driver.view(NOTHING), needs, answers.pass_answers)
    return whole and not refused


def _refused_by(refusing: Sequence[Callable[[View, Action], str]], view: View, action: Action) -> str:
    """Return why a control refuses an action; empty where none does."""
    with suppress(TypeError, ValueError, OverflowError, IndexError):  # no job, option or watts: the driver says so
        return next((reason for refuses in refusing if (reason := refuses(view, action))), "")
    return ""


def _notes(refusals: Mapping[str, int], lifted: int, controls: Sequence[object]) -> dict[str, int]:
    """Return the number of refused actions by reason and of lifted limits, and what controls have to say."""
    found = {f"refused: {reason}": count for reason, count in sorted(refusals.items())}
    found |= {LIFTED: lifted} if lifted else {}
    for control in controls:
        found |= stated(control, "notes", dict)()
    return found
