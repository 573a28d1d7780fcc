"""The checks of parts that are called during a run: custom passes, ranks that change, ledgers, controls.

They simulate a small generated workload with a ``Probe`` in the part's place. The workload is crowded (twice the work
that the machine can do in its span) and runs under a cap with a failing node, so that queues, refusals and requeues
occur. Leaks are looked for in two ways:

``no_leak``      at every call, a copy of the part sees a view with other jobs to come and must decide the same. Precise
                 about the instant, but a part that kept the table of an earlier call is not fooled by a changed one.
``same_until``   the whole run is repeated with a workload that differs only in what lies after some instant, and all
                 decisions up to that instant must be equal. Nothing that a part keeps can help it. Run times and watts
                 differ, too: a part cannot read them, but the driver might tell it too early.

Both skip parts that declare ``knows_future = True``. Every run is bounded (``probe.Progress``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from wattqueue.checks.common import Check, Make, by_unit, expect_small, fail, no_jobs, sample_prediction
from wattqueue.checks.perturb import change_later, lengthen
from wattqueue.checks.probe import METHOD, EnoughError, Probe, Record, result_of
from wattqueue.checks.work import expect_done, expect_nobody_passed
from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.parts.oracles import is_oracle, jobs_for
from wattqueue.policy.capabilities import EVENT_BITS, GREEDY, resolve
from wattqueue.policy.interfaces import method_of, stated
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation
from wattqueue.sim.truth import NodeEvents, actual_power

MOST_JOBS = 60
"""Jobs of a run: a part in plain Python is called several times per event."""
CAP_SHARE = 0.5
"""The cap, as a share of the machine's maximum."""
LOAD = 2.0
"""Work of the workload over what the machine can do in its span."""
STEPS = ("answers", "pure", "deterministic", "no_leak", "same_until", "empty", "bounded_memory")
"""Checks in order; those that run the workload look for less first."""
CUTS = (0.35, 0.7)
"""Where in the sequence of calls the future begins, as a share of them."""


def run_checks(axis: str) -> Iterator[tuple[str, Check]]:
    """Yield name and function of every check of ``order`` (rerank), ``backfill``, ``ledger`` or ``controls``."""
    yield "check_attributes", _attributes(axis)
    for step in STEPS:
        yield f"check_{NAMES.get(step, step)}", _step(axis, step)
    if axis == "backfill":
        yield "check_nobody_passed", _nobody_passed


NAMES = {"same_until": "no_leak_in_a_run"}
"""Names of steps where they differ from the step."""


def _attributes(axis: str) -> Check:
    """Return the check of what the engine reads of a part before it calls it."""

    def check(make: Make, _jobs: Jobs, _machine: Machine) -> None:
        """Check the attributes that the engine reads."""
        expect_attributes(axis, make())

    return check


def _nobody_passed(make: Make, _jobs: Jobs, machine: Machine) -> None:
    """Check that no job waits while later ones start that are equal to it."""
    expect_nobody_passed(make(), machine)


def _step(axis: str, step: str) -> Check:
    """Return one check that runs the workload."""

    def check(make: Make, jobs: Jobs, machine: Machine) -> None:
        part = make()
        # Two idle cases: a call with an empty queue, and a whole run without jobs.
        if step == "empty":
            call_idle(axis, part, jobs, machine)
            run_with(axis, part, no_jobs(jobs), machine, frozenset())
            return
        few = crowded(jobs.take(np.arange(min(MOST_JOBS, len(jobs)))), machine)
        if step == "same_until":
            expect_same_until(axis, make, few, machine)
            return
        run_with(axis, part, few, machine, frozenset({step}))
        if step == "bounded_memory":
            expect_small(part, len(few))

    return check


def expect_attributes(axis: str, part: Any) -> None:
    """Check the numbers and sets that the engine reads of a part before it calls it.

    A control that nothing wakes (no period, no events) would be silently without effect, and is refused too.

    Raises: PolicyError for what is missing or out of range.
    """
    if axis == "backfill" and method_of(part, "schedule") is None:
        code = stated(part, "code", None)
        if code not in (*GREEDY, codes.CONSERVATIVE):
            fail(part, f"code is {code!r}, and there is no schedule()", "name a compiled pass, or write schedule(view)")
        if int(stated(part, "queue_depth", -1)) < 0:
            fail(part, "queue_depth is not 0 or more", "0 tries the whole queue")
    if axis == "backfill" and not float(stated(part, "pass_interval_s", 0.0)) >= 0:
        fail(part, "pass_interval_s is not 0 or more", "0 gives a pass at every event")
    if axis == "controls":
        period = float(stated(part, "period_s", -1.0))
        if not (period >= 0 and np.isfinite(period)):
            fail(part, "period_s is not a finite number of 0 or more", "0 means no period")
        events = stated(part, "events", {"?"})
        if not set(events) <= set(EVENT_BITS):
            fail(part, f"events are {events!r}", f"a frozenset of {', '.join(sorted(EVENT_BITS))}")
        if period == 0 and not events:
            fail(part, "nothing wakes it: no period_s and no events", "set period_s, or name events")


def run_with(
    axis: str, part: Any, jobs: Jobs, machine: Machine, steps: frozenset[str], record: Record | None = None,
    events: NodeEvents | None = None,
) -> None:  # fmt: skip
    """Run the jobs under a cap with the part in its place, a node failing on the way.

    Args:
        axis: The part's axis.
        part: The part; a probe takes its place if the event loop calls it.
        jobs: The workload.
        machine: The machine; its maximum gives the cap.
        steps: Checks that the probe makes (``probe.Probe``).
        record: Receives the decisions, if given.
        events: Node failures and returns, instead of one failure.

    Raises: PolicyError where the part breaks a rule, or the simulator cannot carry it out.
    """
    called = method_of(part, METHOD[axis]) is not None
    probe = Probe(axis, part, steps, record) if called else part
    simulation = Simulation(
        jobs, machine, policy_with(axis, probe), capped(machine), actual_power(jobs, machine), events or failure(jobs)
    )
    if called:
        probe.log = lambda: simulation.log
    with suppress(EnoughError):
        simulation.go()
    notes = simulation.session.notes()
    if axis == "backfill" and notes and record is None:
        fail(part, f"starts what cannot start ({next(iter(notes))})", "read view.free and view.available_w")
    if "answers" in steps:
        same = Simulation(jobs, machine, easy(), capped(machine), actual_power(jobs, machine), events or failure(jobs))
        same.go()
        expect_done(part, simulation, same)


def run_in_place(axis: str, part: Any, jobs: Jobs, machine: Machine) -> None:
    """Run the jobs once with a part of any axis in its place; nothing of it is observed.

    Finds what only the simulator refuses: a choice that the contracts allow and nothing carries out yet.

    Raises: PolicyError.
    """
    few = crowded(jobs.take(np.arange(min(MOST_JOBS, len(jobs)))), machine)
    truth = actual_power(few, machine)
    try:
        run = Simulation(few, machine, policy_with(axis, part), Cap.none(), truth, NodeEvents.none())
        run.go()
    except PolicyError as error:
        if error.where == type(part).__name__:
            raise
        fail(part, f"cannot be carried out: {error.what}", error.hint or "use a choice that the simulator supports")
    same = Simulation(few, machine, easy(), Cap.none(), truth, NodeEvents.none())
    same.go()
    expect_done(part, run, same)


def expect_same_until(axis: str, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that decisions up to an instant are equal in a run whose workload differs only after it.

    Jobs that have not ended at the instant run longer and draw more in the second run (so that they do not end before
    it either); jobs submitted later differ in everything. Where a part reads power sensors, jobs that run at the
    instant draw the same. Raises: PolicyError.
    """
    part = make()
    if is_oracle(part) or method_of(part, METHOD[axis]) is None:
        return
    reads_sensors = resolve(policy_with(axis, part)).reads_sensors
    first, events = Record(), failure(jobs)
    run_with(axis, part, jobs, machine, frozenset(), first, events)
    rng = np.random.default_rng(7)
    for cut in CUTS if first.now_s else ():
        call = int(cut * (len(first.now_s) - 1))
        now, ended = first.now_s[call], first.ended[call]
        metered = first.running[call] & reads_sensors
        other = change_later(lengthen(jobs, ~ended, rng, metered), jobs.submit_s > now, rng)
        second = Record(until_s=now)
        run_with(axis, make(), other, machine, frozenset(), second, events)
        pairs = zip(first.now_s, first.decided, second.now_s, second.decided, strict=False)
        for at, decided, other_at, other_decided in pairs:
            if at >= now:
                break
            if at != other_at or decided != other_decided:
                fail(
                    part,
                    f"its decision at {at:g} s depends on what happens after {now:g} s",
                    "use what view.queue, view.running and jobs.observed tell; an oracle declares knows_future = True",
                )


def policy_with(axis: str, part: Any) -> Policy:
    """Return EASY with the generated prediction, and one part replaced; a placement has units that differ."""
    if axis == "placement":
        return replace(easy(), estimator=Ready(units_differ=True), placement=part)
    return replace(easy(), controls=(part,)) if axis == "controls" else replace(easy(), **{axis: part})


def easy() -> Policy:
    """Return EASY with the generated prediction."""
    return load_policy("easy", estimator=Ready())


def capped(machine: Machine) -> Cap:
    """Return a cap that makes some jobs wait; none where the machine's maximum is unknown.

    Without a cap a part would never see a refusal for lack of watts, and ``view.available_w`` would be infinite.
    """
    most = machine.scope_max_w()
    return Cap.none() if most is None else Cap.constant(CAP_SHARE * most)


def failure(jobs: Jobs) -> NodeEvents:
    """Return events: unit 0 fails at the median submission and returns an hour later.

    The job on it is requeued (rule 3 of docs/semantics.md): parts must accept a job that runs twice.
    """
    if len(jobs) == 0:
        return NodeEvents.none()
    middle = float(np.median(jobs.submit_s))
    return NodeEvents(np.array([middle, middle + 3_600.0]), np.zeros(2, np.int32), np.array([False, True]))


def crowded(jobs: Jobs, machine: Machine) -> Jobs:
    """Return the same jobs in a shorter time, ``LOAD`` times what the machine can do: a queue builds up."""
    first, span = jobs.submit_s.min(initial=np.inf), float(np.ptp(jobs.submit_s)) if len(jobs) else 0.0
    wanted = float(jobs.nodes @ jobs.runtime_s) / machine.units / LOAD
    squeezed = first + np.round((jobs.submit_s - first) * min(1.0, wanted / max(span, 1.0)))
    return replace(jobs, submit_s=squeezed, start_s=None)


def call_idle(axis: str, part: Any, jobs: Jobs, machine: Machine) -> None:
    """Call the part once while the queue is empty and no job runs.

    Parts that take a maximum over running jobs, or the first entry of the queue, fail here first.

    Raises: PolicyError.
    """
    if method_of(part, METHOD[axis]) is None:
        return
    simulation = Simulation(jobs, machine, policy_with("backfill", load_policy("easy").backfill), Cap.none(),
                            None, NodeEvents.none())  # fmt: skip
    simulation.view.now.time_s = 0.0
    answer = result_of(axis, part, View(jobs_for(part, jobs), machine, simulation.view, simulation.truth.unit_state))
    if axis == "backfill" and answer:
        fail(part, "starts something from an empty queue", "go through view.queue")


class Ready:
    """An estimator that returns the generated prediction; it depends on the number of jobs only."""

    asked: Asked = "once"
    machine_figures = False

    def __init__(self, *, units_differ: bool = False) -> None:
        self.units_differ = units_differ

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return the prediction, with watts by application and unit where units differ."""
        found = sample_prediction(jobs, machine)
        return by_unit(found, len(jobs.app.names), machine) if self.units_differ else found
