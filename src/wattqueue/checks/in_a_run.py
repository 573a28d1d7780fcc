"""The checks of parts that are asked while a run goes on: custom passes, ranks that change, ledgers, controls.

They run a small generated workload in the simulator and put a probe in the part's place. The probe asks the
part itself, and copies of it that see the same view, or one whose future is another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from wattqueue.checks.common import Check, Make, contents, copied, expect_small, fail, nobody, sample_prediction
from wattqueue.checks.leak import change_future
from wattqueue.kernels import codes, state
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import State
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Start
from wattqueue.parts.timeline import Timeline
from wattqueue.policy.actions import Action
from wattqueue.policy.policy import Policy, load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation
from wattqueue.sim.truth import NodeEvents, actual_power

METHOD = {"order": "rerank", "backfill": "schedule", "ledger": "margin_w", "controls": "act"}
EVENTS = {"arrival", "completion", "signal", "node"}
MOST_JOBS = 60
"""A part in plain Python is asked several times an event, so a few jobs suffice."""
CAP_SHARE = 0.5
LOAD = 2.0
STEPS = ("answers", "pure", "deterministic", "no_leak", "empty", "bounded_memory")


def run_checks(axis: str) -> Iterator[tuple[str, Check]]:
    """Name and function of every check of ``order`` (rerank), ``backfill``, ``ledger`` or ``controls``."""
    yield "check_attributes", _attributes(axis)
    for step in STEPS:
        yield f"check_{step}", _step(axis, step)


def _attributes(axis: str) -> Check:
    def check(make: Make, _jobs: Jobs, _machine: Machine) -> None:
        """What the engine reads of a part before it asks it."""
        expect_attributes(axis, make())

    return check


def _step(axis: str, step: str) -> Check:
    def check(make: Make, jobs: Jobs, machine: Machine) -> None:
        part = make()
        if step == "empty":
            ask_idle(axis, part, jobs, machine)
            run_with(axis, part, nobody(jobs), machine, frozenset())
            return
        few = crowded(jobs.take(np.arange(min(MOST_JOBS, len(jobs)))), machine)
        run_with(axis, part, few, machine, frozenset({step}))
        if step == "bounded_memory":
            expect_small(part, len(few))

    return check


def expect_attributes(axis: str, part: Any) -> None:
    """Raises PolicyError where a number or set that the engine reads is missing or out of range."""
    if axis == "backfill" and not callable(getattr(part, "schedule", None)):
        code = getattr(part, "code", None)
        if code not in (codes.NO_BACKFILL, codes.FIRST_FIT, codes.EASY, codes.CONSERVATIVE):
            fail(part, f"code is {code!r}, and there is no schedule()", "name a compiled pass, or write schedule(view)")
        if int(getattr(part, "queue_depth", -1)) < 0:
            fail(part, "queue_depth is not 0 or more", "0 tries the whole queue")
    if axis == "backfill" and not float(getattr(part, "pass_interval_s", 0.0)) >= 0:
        fail(part, "pass_interval_s is not 0 or more", "0 gives a pass at every event")
    if axis == "ledger" and getattr(part, "code", None) not in (codes.PREDICTED, codes.MEASURED, codes.CHANCE):
        fail(part, f"code is {getattr(part, 'code', None)!r}", "0 counts predictions, 1 measurements")
    if axis == "controls":
        if not float(getattr(part, "period_s", -1.0)) >= 0:
            fail(part, "period_s is not 0 or more", "0 means no period")
        if not set(getattr(part, "events", {"?"})) <= EVENTS:
            fail(part, f"events are {getattr(part, 'events', None)!r}", f"a frozenset of {', '.join(sorted(EVENTS))}")


class Probe:
    """Stands in a part's place: hands everything on, and looks at what comes back."""

    def __init__(self, axis: str, part: Any, look: frozenset[str]) -> None:
        self.axis, self.part, self.look = axis, part, look
        self.log: Callable[[], state.Log]
        setattr(self, METHOD[axis], self.ask)

    def __getattr__(self, name: str) -> Any:
        if name in ("part", "axis") or (name in METHOD.values() and name != METHOD[self.axis]):
            raise AttributeError(name)
        return getattr(self.part, name)

    def ask(self, view: View) -> Any:
        """The part's answer, checked."""
        again = copied(self.part) if "deterministic" in self.look else None
        blind = copied(self.part) if "no_leak" in self.look else None
        before = contents((view.kernel, view.unit_state)) + contents(view.jobs) if "pure" in self.look else b""
        answer = answer_of(self.axis, self.part, view)
        if before and contents((view.kernel, view.unit_state)) + contents(view.jobs) != before:
            fail(self.part, "changed the view", "copy an array before you write to it")
        if again is not None and answer_of(self.axis, again, view) != answer:
            fail(self.part, "a pickled copy answers differently", "seed what you draw; all state in attributes")
        if blind is not None and answer_of(self.axis, blind, self.with_another_future(view)) != answer:
            fail(
                self.part,
                f"its answer at {view.now_s:g} s hangs on what has not happened yet",
                "use walltimes and predictions: run times and watts of jobs that have not ended are not known",
            )
        return np.array(answer) if self.axis == "order" else answer

    def with_another_future(self, view: View) -> View:
        """The same view with other run times and watts of jobs that have not ended, and other jobs to come."""
        log = self.log()
        over = (log.state == State.COMPLETED) | (log.state == State.KILLED)
        end_s = np.where(over, log.end, np.inf)
        submit_s = view.jobs.submit_s
        line = Timeline(end_s, np.argsort(submit_s, kind="stable"), np.argsort(end_s, kind="stable"))
        jobs = change_future(view.jobs, line, view.now_s, np.random.default_rng(3))
        return replace(view, jobs=jobs)


def answer_of(axis: str, part: Any, view: View) -> Any:
    """A part's answer in a form that can be compared. Raises: PolicyError for one of the wrong kind."""
    answer = getattr(part, METHOD[axis])(view)
    if axis == "order":
        ranks = np.asarray(answer, np.float64)
        if ranks.shape != view.queue.shape or np.isnan(ranks).any():
            fail(part, f"{ranks.shape} priorities for {len(view.queue)} entries, or NaN", "one for each of view.queue")
        return ranks.tolist()
    if axis == "ledger":
        margin = float(answer)
        if not (np.isfinite(margin) and margin >= 0):
            fail(part, f"a margin of {margin} W", "give finite watts of 0 or more")
        return margin
    wanted: Any = Start if axis == "backfill" else get_args(Action)
    if not isinstance(answer, Sequence) or not all(isinstance(each, wanted) for each in answer):
        fail(part, f"returned {answer!r}", "a list of Start" if axis == "backfill" else "a list of actions")
    return list(answer)


def run_with(axis: str, part: Any, jobs: Jobs, machine: Machine, look: frozenset[str]) -> None:
    """Run the jobs under a cap with the part in its place, a node failing on the way."""
    asked = callable(getattr(part, METHOD[axis], None))
    probe = Probe(axis, part, look) if asked else part
    simulation = Simulation(
        jobs, machine, policy_with(axis, probe), capped(machine), actual_power(jobs, machine), failure(jobs)
    )
    if asked:
        probe.log = lambda: simulation.log
    simulation.go()
    notes = simulation.answers.notes()
    if axis == "backfill" and notes:
        fail(part, f"starts what cannot start ({next(iter(notes))})", "look at view.free and view.available_w")


def policy_with(axis: str, part: Any) -> Policy:
    """EASY with the generated prediction, and one part replaced."""
    easy = load_policy("easy", estimator=Ready())
    return replace(easy, controls=(part,)) if axis == "controls" else replace(easy, **{axis: part})


def capped(machine: Machine) -> Cap:
    """A cap that makes some jobs wait; none where the machine's maximum is unknown."""
    most = machine.scope_max_w()
    return Cap.none() if most is None else Cap.constant(CAP_SHARE * most)


def failure(jobs: Jobs) -> NodeEvents:
    """Unit 0 fails amid the run and returns an hour later."""
    if len(jobs) == 0:
        return NodeEvents.none()
    middle = float(np.median(jobs.submit_s))
    return NodeEvents(np.array([middle, middle + 3_600.0]), np.zeros(2, np.int32), np.array([False, True]))


def crowded(jobs: Jobs, machine: Machine) -> Jobs:
    """The same jobs in a shorter time, ``LOAD`` times what the machine can do: a queue builds up."""
    first, span = jobs.submit_s.min(initial=np.inf), float(np.ptp(jobs.submit_s)) if len(jobs) else 0.0
    wanted = float(jobs.nodes @ jobs.runtime_s) / machine.units / LOAD
    squeezed = first + np.round((jobs.submit_s - first) * min(1.0, wanted / max(span, 1.0)))
    return replace(jobs, submit_s=squeezed, start_s=None)


def ask_idle(axis: str, part: Any, jobs: Jobs, machine: Machine) -> None:
    """Ask once while the queue is empty and nothing runs."""
    if not callable(getattr(part, METHOD[axis], None)):
        return
    simulation = Simulation(jobs, machine, policy_with("backfill", load_policy("easy").backfill), Cap.none(),
                            None, NodeEvents.none())  # fmt: skip
    simulation.view.num[codes.NOW] = 0.0
    answer = answer_of(axis, part, View(jobs, machine, simulation.view, simulation.truth.unit_state))
    if axis == "backfill" and answer:
        fail(part, "starts something from an empty queue", "go through view.queue")


class Ready:
    """An estimator that gives the generated prediction."""

    asked = "once"
    machine_figures = False
    predict: Callable[..., Any] = staticmethod(sample_prediction)
