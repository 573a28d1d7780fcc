"""The simulator: replay one workload on one machine under one policy and one cap, to the last end.

Main flow of ``simulate``:

1. The policy's parts are called once, over all jobs: estimator -> order -> frequency. Entries that can never run are
   dropped, choices that nothing carries out are refused.
2. ``policy/build.py`` and ``sim/truth.py`` turn the result into the two trees of arrays that kernels work on: the view
   (what the scheduler may know) and the truth. They never meet outside the kernels' loop and its actions.
3. ``go`` calls the compiled loop. It returns when it needs Python: more room in a buffer, a progress report, or a part
   in plain Python, which the session calls (``policy/session.py``). Then the loop resumes (``kernels/loop.py``).
4. ``result`` takes the schedule and the power series from the log (``sim/outcome.py``).

Identical inputs give identical results: events are totally ordered (rule 2 of docs/semantics.md), sums are integers,
and nothing reads a clock or a global random state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import EngineError, InputError
from wattqueue.kernels import codes
from wattqueue.kernels.arrays import lengthened
from wattqueue.kernels.calls import bind_long, run, set_budget
from wattqueue.kernels.fresh import new_log, no_curves, wider_plan
from wattqueue.kernels.in_loop import ON, InLoop, no_history
from wattqueue.kernels.mode import LIBRARY_PROBLEM, WITHOUT_COMPILER
from wattqueue.kernels.padding import check_padding
from wattqueue.kernels.recent_runs import PREDICTS, no_recent_runs
from wattqueue.kernels.state import KernelView, Log, Truth
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs, Past
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import PowerSeries, Reason, Schedule
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.oracles import jobs_for
from wattqueue.policy.actions import NO_POWER, ActionLimits
from wattqueue.policy.build import build_view, check_entries, check_prediction
from wattqueue.policy.by_unit import with_worst_case, without_factors
from wattqueue.policy.capabilities import require_carried_out, resolve
from wattqueue.policy.consent_windows import KEPT_NEAREST, consented_windows, jobs_without_options
from wattqueue.policy.effects import Situation, without_effect
from wattqueue.policy.registry import Policy
from wattqueue.policy.session import Session
from wattqueue.sim.begin import (
    begin_predictions,
    meter_of,
    notes_of_domains,
    set_least_margin,
    show_announced,
    signals_of,
    step_of,
    with_what_is_read,
)
from wattqueue.sim.offered import drop_too_wide, drop_unoffered, require_known_watts
from wattqueue.sim.outcome import power_of, schedule_of, targets_exceeded
from wattqueue.sim.rejection import rejections
from wattqueue.sim.truth import NodeEvents, actual_power, build_truth
from wattqueue.sim.world import ABILITIES, SimulatedWorld

if TYPE_CHECKING:
    from wattqueue.model.physics import Physics
    from wattqueue.sim.physics import TrueFigures

Ints = NDArray[np.integer]
Progress = Callable[[int, int], None]
_EVENTS_A_STEP = 400_000
_EVENTS_IN_PYTHON = 400
"""The same where progress is told and parts in Python act, which may take a millisecond an event."""


NO_FACTORS = "jobs whose application has no unit factors (a unit's stated maximum counted)"
"""Key of the note of a run that counts them, as it is printed."""
BASE_COUNTED = "jobs whose application has no unit factors (the base's prediction counted on every unit)"
"""The same where factors correct another estimator (rule 12)."""
WORST_UNITS_EXCEED_CAP = "jobs that were promised no start, because their worst units exceed the cap"
"""Key of the note that counts them (rule 12 of docs/semantics.md)."""
BROKEN_PROMISES = "jobs that started later than their first reservation promised"
"""Key of the note that counts them, where run times are predicted (rule 8)."""
TARGETS_EXCEEDED = "load targets above which the machine drew power while they were in force"
"""Key of the note that counts them (rule 20)."""
OVERRUNS = "times that a running job outlived its planned time"
"""Key of the note that counts them (rule 3)."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The result of a simulation: its inputs, the schedule, the power series."""

    jobs: Jobs
    """The workload that was replayed."""
    machine: Machine
    """The machine that it ran on."""
    cap: Cap
    """The cap; infinite where there was none."""
    schedule: Schedule
    """Start, end, option, energy and units of each job."""
    power: PowerSeries
    """The machine's power as steps, from the first submission to the last end."""
    notes: dict[str, int] = field(default_factory=dict)
    """Counts of what a reader should know, by text: jobs above the stated maximum, refused actions by reason."""
    phases_s: float | None = None
    """Seconds between two samples of the power profiles that true watts followed in the run; None: constant watts."""
    promised_s: NDArray[np.float64] | None = None
    """Start that each job's first reservation promised, inf for none; None where no run times are predicted."""
    overruns: NDArray[np.int16] | None = None
    """Times that each job outlived its planned time; empty where no run times are predicted."""
    checkpointed_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Seconds of work at reference speed that requeues of each job kept. Shape (n,), empty for none."""
    actual: Prediction | None = None
    """True watts and time factors that the caller gave; None where they are the trace's and the machine's."""
    without_effect: tuple[str, ...] = ()
    """A sentence for each part of the policy that could not act (``policy/effects.py``)."""
    sources: dict[str, int] = field(default_factory=dict)
    """For how many jobs each source of physics was used, by text; they are among the notes. Empty without physics."""

    @property
    def parked_s(self) -> NDArray[np.float64]:
        """Return the seconds for which each job was suspended: part of its run time, not of its wait. Shape (n,)."""
        parked = self.schedule.parked_s
        return np.zeros(len(self.jobs)) if parked is None else parked


MOST_IN_PYTHON = 2_000
"""Jobs of a run whose kernels are plain Python for want of a library and of numba: some ten seconds."""


def simulate(
    jobs: Jobs,
    machine: Machine,
    policy: Policy,
    *,
    cap: Cap | None = None,
    targets: LoadTargets | None = None,
    actual: Prediction | Physics | None = None,
    events: NodeEvents | None = None,
    past: Past | None = None,
    phases_s: float | None = None,
    progress: Progress | None = None,
) -> Run:
    """Replay ``jobs`` on ``machine`` under ``policy`` and ``cap`` (None: no cap).

    ``targets`` limit as the cap does while they are in force; the run's ``cap`` is the lower of both.
    ``actual`` gives true watts and time factors by option, or physics that states them, where the trace's own figures
    and the machine's exponents are not the truth; ``events`` failures and returns; ``past`` what had ended before
    the first submission, which an estimator that learns begins with; ``phases_s`` lets true watts follow the jobs'
    power profiles in the run itself, sampled at each whole multiple of so many seconds; ``progress`` is called with
    (jobs ended or rejected, n) from time to time.

    Raises: MachineError if a cap applies to watts that are not known; PolicyError for a part that breaks its contract,
    a choice that nothing carries out, or an estimator that learns but cannot start from a past; InputError for physics
    that does not fit jobs and machine (``sim.physics.true_figures``), or that the machine states and nobody read.

    Example::

        run = simulate(jobs, machine, load_policy("easy"), cap=Cap.constant(1e6))
    """
    require_machine_code(len(jobs))
    events = events or NodeEvents.none()
    if machine.physics is not None and actual is None:
        raise InputError(
            "the machine file states physics",
            where=machine.name,
            hint="use a verb that reads it, hand it in as actual=, or take [physics] out",
        )
    given = actual if actual is None or isinstance(actual, Prediction) else figures_of(actual, jobs, machine)
    simulation = Simulation(
        jobs, machine, policy, cap or Cap.none(), given, events, past=past, phases_s=phases_s, targets=targets
    )
    simulation.go(progress)
    run = simulation.result()
    return run if given is None or isinstance(given, Prediction) else with_sources(run, given)


def figures_of(physics: Physics, jobs: Jobs, machine: Machine) -> TrueFigures:
    """Return what physics says of these jobs. Raises: InputError as ``sim.physics.true_figures``."""
    from wattqueue.sim.physics import true_figures

    return true_figures(physics, jobs, machine)


def require_machine_code(jobs: int) -> None:
    """Refuse a long run where kernels are plain Python because nothing else is installed.

    Raises: InputError above ``MOST_IN_PYTHON`` jobs.
    """
    if WITHOUT_COMPILER and jobs > MOST_IN_PYTHON:
        raise InputError(
            f"{jobs:,} jobs: plain Python runs {MOST_IN_PYTHON:,} jobs at most ({LIBRARY_PROBLEM})",
            hint="install the wheel for this processor (make wheel), or numba (pip install 'wattqueue[parts]')",
        )


def with_sources(run: Run, truth: TrueFigures) -> Run:
    """Return the run with the number of its jobs for which each source of physics was used, among its notes, too."""
    used = truth.notes(run.schedule)
    return replace(run, sources=used, notes={**run.notes, **used})


class Simulation:
    """A run under way: its world (view, truth, log), and the session that asks the policy's Python parts.

    Tests and checks use it directly to look at a run between steps; everybody else calls ``simulate``.
    """

    def __init__(
        self, jobs: Jobs, machine: Machine, policy: Policy, cap: Cap, actual: Prediction | TrueFigures | None,
        events: NodeEvents, *,
        past: Past | None = None, phases_s: float | None = None, targets: LoadTargets | None = None,
    ) -> None:  # fmt: skip
        """Evaluate the policy's static parts and build the arrays; nothing runs yet.

        Arguments as in ``simulate``, without defaults.
        """
        curves = no_curves()
        if not (actual is None or isinstance(actual, Prediction)):
            curves, actual = actual.curves, actual.actual
        needs = resolve(policy)
        signals = signals_of(cap, targets, machine, jobs, needs.domain_terms)
        cap = signals.limit()
        self.jobs, self.machine, self.policy, self.cap = jobs, machine, policy, cap
        self.session = Session(policy, needs, begin_s=float(jobs.submit_s.min(initial=np.inf)))
        prediction = self.session.begin(jobs_for(policy.estimator, jobs), machine)
        planned_s, history = None, no_history(no_recent_runs())
        if policy.estimator.asked != "once" or needs.plans is not None or past is not None:
            prediction, planned_s, history = begin_predictions(policy, needs, prediction, jobs, machine, past)
        self.session.predicts_in_loop = history.rule[ON] != 0
        self.session.plans_in_loop = history.runs.rule[PREDICTS] != 0
        self.without_factors = int(without_factors(jobs.app, prediction).sum())
        known = KnownJobs.of(jobs)
        if prediction.unit_factor is not None and not self.session.estimation.keeps_base:
            prediction = with_worst_case(jobs.app, machine, prediction)
            check_prediction(known, machine, prediction)
        entries = policy.order.entries(jobs_for(policy.order, jobs), prediction, machine)
        told = jobs_for(policy.frequency, jobs), entries, prediction, machine, signals
        window = consented_windows(policy.frequency, *told)
        self.without_options = jobs_without_options(policy.frequency, *told)
        check_entries(known, machine, entries, window)
        if actual is not None:
            check_prediction(known, machine, actual)
        entries, window = drop_too_wide(*drop_unoffered(entries, window, prediction), jobs, machine)
        require_carried_out(policy, needs, ABILITIES, len(jobs.app.names), machine, prediction)
        self.without_effect = without_effect(
            Situation(policy, machine, known, signals, window, as_recorded=actual is None)
        )
        if cap.limited:
            require_known_watts(entries, window, prediction, machine)
        settings = needs.pass_settings(machine.cap_scope)
        rank = policy.placement.rank(len(jobs.app.names), machine, prediction)
        view = build_view(
            known, machine, prediction, entries, window, settings, rank=rank, planned_s=planned_s, checked=True,
            stores_work=needs.views,
        )  # fmt: skip
        # Before the truth is built, from the machine's own figures: a learned prediction never rejects a job (rule 4).
        reject = rejections(
            jobs, view, cap, machine, machine_figures=needs.machine_figures, switches_off=needs.switches_off
        )
        view, reading = with_what_is_read(view, machine, needs)
        truth = build_truth(
            jobs, machine, actual or actual_power(jobs, machine), reject, signals, events, phases_s, reading,
            stores_work=needs.views,
        )._replace(curves=curves)  # fmt: skip
        self.phases_s, self.actual, self.limits = phases_s, actual, ActionLimits(machine.units)
        self.world = SimulatedWorld(jobs, machine, view, truth, new_log(len(jobs)), signals)
        self.parts = InLoop(history, step_of(self.session, self.world, cap), meter_of(needs.metered))
        self._set_stops()
        set_least_margin(self.world, needs, nodes_fail=len(events.time_s) > 0)
        show_announced(self.world, needs)
        self._first_cap()

    @property
    def view(self) -> KernelView:
        """Return what the scheduler may know."""
        return self.world.kernel

    @property
    def truth(self) -> Truth:
        """Return what jobs really do."""
        return self.world.truth

    @property
    def log(self) -> Log:
        """Return what has happened."""
        return self.world.log

    def _set_stops(self) -> None:
        """Tell the loop what to stop for, when passes may run, and when the first controls are due."""
        truth, session = self.truth, self.session
        truth.loop.stop_mask = session.stops()
        session.asks_in_loop = session.asks_at_starts
        truth.loop.pass_interval_s = session.needs.pass_interval_s
        truth.loop.pass_at_completion = session.needs.pass_at_completion
        truth.loop.control_at_s = session.next_due_s()
        truth.loop.control_steps_left = codes.IDLE_CONTROL_STEPS if session.needs.controls else 0
        self.world.observe(learned=session.learns, timed=session.plans, seen=session.needs.views)

    def _first_cap(self) -> None:
        """Put the first value of the cap in force: it holds before its first row, too (rule 1 of docs/semantics.md)."""
        first = int(self.truth.signal_uw[0])
        self.view.now.cap_uw = first
        self.view.now.in_target = self.truth.signal_target[0]
        steps = self.truth.announced
        self.view.now.ahead_s = steps.ahead_s[0]
        self.view.now.has_ramp = self.session.needs.ramped
        self.view.now.stated_cap_uw, self.view.now.full_cap_uw = first, steps.full_uw[0]
        set_budget(self.view)
        self.truth.loop.next_signal = 1

    def go(self, progress: Progress | None = None, *, until_s: float = np.inf) -> None:
        """Run to the end, or to an event at or after ``until_s``: then there is no ``result``.

        ``progress`` is called each ``_EVENTS_A_STEP`` events, more often where parts in Python act.

        The loop returns that often without it, too: only here does Python act on a signal such as SIGTERM.
        """
        loop = self.truth.loop
        often = (progress and self.session.needs.views) or until_s < np.inf
        loop.event_limit = _EVENTS_IN_PYTHON if often else _EVENTS_A_STEP
        world, resume, act = self.world, self._bound_run(), self._bound_controls()
        while True:
            code = resume()
            if code == codes.DONE:
                break
            if code == codes.NEED_CONTROL:
                act()
            elif code == codes.NEED_ROOM:
                self._make_room()
                resume = self._bound_run()
            elif code == codes.PROGRESS:
                if self.view.now.time_s >= until_s:
                    return
                if progress:
                    progress(int(loop.next_arrival - self.truth.ends.filled[0]), len(self.jobs))
            elif code == codes.NEED_PASS:
                self.session.schedule(world)
            else:
                self._predict()
        if progress:
            progress(len(self.jobs), len(self.jobs))
        self._leave_suspended()
        if (self.log.state == codes.RUNNING_NOW).any():
            raise EngineError("the run ended while jobs were running")

    def _leave_suspended(self) -> None:
        """Count jobs that were suspended and not resumed as never ran; what they drew stays in their energy."""
        log, parked = self.log, self.view.held.parked
        left = np.flatnonzero((log.state == codes.RUNNING_NOW) & (parked != 0))
        now_s = self.view.now.time_s
        log.energy_j[left] += (now_s - log.start[left]) * (self.truth.uw[left] / codes.MICRO)
        log.parked_s[left] += now_s
        log.state[left] = codes.WAITING
        log.reason[left] = Reason.SUSPENDED

    def _bound_run(self) -> Callable[[], int]:
        """Return the loop, bound to the arrays of this run; to be asked for again when one of them was replaced."""
        return bind_long(run, self.view, self.truth, self.log, self.parts)

    def _predict(self) -> None:
        """Have the parts that predict learn completions up to this instant, then predict its submissions (rule 2)."""
        session, world = self.session, self.world
        rows = world.arrivals()
        if session.learns:
            watts = session.predict(world.finished(), rows, world.now_s, len(self.machine.option_partition))
            world.take_prediction(rows, watts)
        if session.plans and session.needs.plans_online is not None:
            from wattqueue.policy.run_times import ask_run_times

            finished = world.finished_runs()
            world.take_planned(rows, ask_run_times(session.needs.plans_online, finished, rows, world.now_s))

    def _bound_controls(self) -> Callable[[], None]:
        """Return a function that calls the controls of an instant; it has at hand what it needs, as it is called often.

        Calls without effect use up ``control_steps_left``, and so do limits while no job runs: a queue that nothing
        else can move does not keep the run alive for ever.
        """
        world, session, limits, truth = self.world, self.session, self.limits, self.truth
        loop, arrivals = truth.loop, len(truth.arrival)
        now, step = self.view.now, self.parts.step.now

        def act() -> None:
            now_s = now.time_s
            limits.at(now_s, moves=truth.ends.filled[0] > 0 or loop.next_arrival < arrivals)
            step.acted = 0
            done = session.control(world, now_s, loop.happened, limits.count)
            loop.control_at_s = session.next_due_s()
            if session.target_limits.before_w:
                loop.stop_mask |= codes.STOP_ON_START
            step.for_target = int(bool(session.target_limits.before_w))
            if limits.moved or ((done or step.acted) and truth.ends.filled[0] > 0):
                loop.control_steps_left = codes.IDLE_CONTROL_STEPS
            else:
                loop.control_steps_left -= 1

        return act

    def _make_room(self) -> None:
        """Enlarge the buffer that may run full, to at least what the next instant needs.

        The plan comes last: where another buffer was full, the plan may not be (the loop returns again if it is).
        """
        loop, held, plan, log = self.truth.loop, self.view.held, self.view.plan, self.log
        hidden = not self.world.views  # no part has arrays that show this memory
        if self.view.now.intervals + self.machine.units > len(held.low):
            held = lengthened(held, len(held.low) // 16 + self.machine.units, "low", "high", in_place=hidden)
            self.world.replace(kernel=self.view._replace(held=held))
        elif loop.power_rows + 1 >= len(log.time):
            columns = ("time", "jobs_uw", "other_uw", "busy_idle_uw", "busy")
            self.world.replace(log=lengthened(log, len(log.time) // 16 + 1024, *columns))
        else:
            self.world.replace(kernel=check_padding(self.view._replace(plan=wider_plan(plan, in_place=hidden))))

    def result(self) -> Run:
        """Return the schedule and the power series of the finished run.

        They take over the log's columns instead of copying them, so call it once.

        Raises: PolicyError where an estimator predicted more than bounds the power domains left out.
        """
        beyond = int(self.view.by_unit.beyond.sum())
        schedule, power = schedule_of(self.world, self.cap), power_of(self.world)
        unprofiled = BASE_COUNTED if self.session.estimation.keeps_base else NO_FACTORS
        counts = {unprofiled: self.without_factors, WORST_UNITS_EXCEED_CAP: beyond, KEPT_NEAREST: self.without_options}
        counts |= self._plan_counts() | notes_of_domains(self.policy.name, self.world, self.session, schedule)
        counts[TARGETS_EXCEEDED] = targets_exceeded(self.world.signals.targets, power, self.machine)
        if self.parts.step.now.refused:
            self.session.refused[NO_POWER] += int(self.parts.step.now.refused)
        notes = {**self.session.notes(), **{text: count for text, count in counts.items() if count}}
        promised = self.view.planned.promise
        more = (promised if len(promised) else None, self.view.planned.overruns, self.log.checkpointed_s)
        of = self.jobs, self.machine, self.cap, schedule, power, notes, self.phases_s, *more, self.actual
        return Run(*of, without_effect=tuple(self.without_effect))

    def _plan_counts(self) -> dict[str, int]:
        """Return how often planned times and promised starts turned out wrong, where run times are predicted."""
        planned = self.view.planned
        broken = int((self.log.start > planned.promise).sum()) if len(planned.promise) else 0
        return {OVERRUNS: int(planned.overruns.sum()), BROKEN_PROMISES: broken}
