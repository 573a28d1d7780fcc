"""A probe that stands in a part's place during a simulation and checks every call.

The engine calls the probe as it would call the part: ``act``, ``schedule``, ``rerank`` or ``margin_w`` with a view. The
probe calls the part, and depending on which checks are wanted also copies of it: with the same view (deterministic,
picklable) and with a view in which other jobs are submitted later (leaks). It records what the part decided
(``Record``), and for controls it watches that the run makes progress (``Progress``), since a control that requeues
every job in every period would keep the run from ever ending.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from wattqueue.checks.common import contents, copied, fail
from wattqueue.checks.perturb import other_requests
from wattqueue.kernels import state
from wattqueue.model.schedule import State
from wattqueue.parts.actions import Action, Requeue, StopNode
from wattqueue.parts.contracts import Start
from wattqueue.parts.oracles import is_oracle
from wattqueue.policy.view import View

METHOD = {"order": "rerank", "backfill": "schedule", "ledger": "margin_w", "controls": "act"}
"""Method of each axis that the event loop calls."""
MOST_INTERRUPTIONS = 20
"""Requeues and node stops per job of the workload between two ends of jobs. A control that needs more is endless."""
MOST_CALLS = 100_000
"""Calls of a control between two ends of jobs; more would keep the check busy for minutes."""


@dataclass(slots=True)
class Record:
    """What a part decided in the course of a run, call by call."""

    now_s: list[float] = field(default_factory=list)
    """Time of each call."""
    decided: list[Any] = field(default_factory=list)
    """Decision of each call, in a form that can be compared."""
    ended: list[NDArray[np.bool_]] = field(default_factory=list)
    """Jobs that had ended at each call. Shapes (n,)."""
    running: list[NDArray[np.bool_]] = field(default_factory=list)
    """Jobs that ran at each call. Shapes (n,)."""
    until_s: float = np.inf
    """Time after which the run may stop: later calls raise ``EnoughError``."""


class EnoughError(Exception):
    """Ends a run whose remaining calls are not needed."""


class Progress:
    """Watches that jobs end while a control acts."""

    def __init__(self) -> None:
        """Start with no call and no end."""
        self.ended, self.calls, self.interruptions = 0, 0, 0

    def count(self, ended: int, answer: Any) -> None:
        """Count a call and its interruptions; ``ended`` jobs have ended so far. An end resets the counts."""
        if ended > self.ended:
            self.ended, self.calls, self.interruptions = ended, 0, 0
        self.calls += 1
        self.interruptions += sum(isinstance(action, Requeue | StopNode) for action in answer)

    def refuse_endless(self, part: object, jobs: int) -> None:
        """Raise PolicyError if the control has acted too often since a job last ended."""
        if self.interruptions > MOST_INTERRUPTIONS * max(jobs, 10):
            fail(
                part,
                f"requeued jobs or stopped nodes {self.interruptions:,} times without a job ending: the run never ends",
                "requeue a job at most once, or only while it has made progress",
            )
        if self.calls > MOST_CALLS:
            fail(part, f"was called {self.calls:,} times without a job ending", "take a longer period_s")


class Probe:
    """Stands in a part's place: calls the part, and checks what it returns.

    ``steps`` are the wanted checks out of pure, deterministic and no_leak. Every other attribute is the part's own, so
    that the engine reads codes, periods and events through the probe.
    """

    def __init__(self, axis: str, part: Any, steps: frozenset[str], record: Record | None = None) -> None:
        """Take the place of ``part``. ``log`` must be set before the run: it tells which jobs have ended."""
        self.axis, self.part, self.steps, self.record = axis, part, steps, record
        self.log: Callable[[], state.Log]
        self.progress = Progress()
        setattr(self, METHOD[axis], self.call)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the part; not the methods of other axes, which the engine would call unchecked.

        ``part`` and ``axis`` are refused as well: unpickling asks for attributes before ``__init__`` has set them, and
        would recurse for ever.
        """
        if name in ("part", "axis") or (name in METHOD.values() and name != METHOD[self.axis]):
            raise AttributeError(name)
        if name in ("metered", "corrects_by_samples"):  # what is measured of jobs that run differs between two runs
            raise AttributeError(name)
        return getattr(self.part, name)

    def call(self, view: View) -> Any:
        """Return the part's result, checked.

        Copies are made before the part is called, because the call may change its state; they are called after it, so
        that an error of the part itself is reported first.

        Raises: PolicyError where the part breaks a rule; EnoughError once the run has been compared.
        """
        self._stop_when_enough(view)
        view = replace(view, jobs=replace(view.jobs, reader=type(self.part).__name__))
        again = copied(self.part) if "deterministic" in self.steps else None
        blind = copied(self.part) if "no_leak" in self.steps and not is_oracle(self.part) else None
        before = self._contents(view) if "pure" in self.steps else b""
        answer = result_of(self.axis, self.part, view)
        if before and self._contents(view) != before:
            fail(self.part, "changed the view", "copy an array before writing to it")
        if again is not None and result_of(self.axis, again, view) != answer:
            fail(self.part, "a pickled copy returns other results", "seed random draws; keep all state in attributes")
        if blind is not None:
            self._expect_blind(blind, view, answer)
        self._note(view, answer)
        return np.array(answer) if self.axis == "order" else answer

    def _expect_blind(self, copy: Any, view: View, answer: Any) -> None:
        """Check that a copy of the part decides the same where other jobs are to come. Raises: PolicyError."""
        later = view.jobs.submit_s > view.now_s
        other = replace(view, jobs=other_requests(view.jobs, later, np.random.default_rng(3)))
        if decision(self.axis, result_of(self.axis, copy, other)) != decision(self.axis, answer):
            fail(
                self.part,
                f"its decision at {view.now_s:g} s depends on jobs that are submitted later",
                "look at jobs that wait or run only: go through view.queue and view.running",
            )

    def ended(self) -> NDArray[np.bool_]:
        """Return which jobs have ended. Shape (n,)."""
        log = self.log()
        return np.asarray((log.state == State.COMPLETED) | (log.state == State.KILLED), np.bool_)

    def _note(self, view: View, answer: Any) -> None:
        """Record the decision, and watch a control's progress."""
        if self.record is not None:
            self.record.now_s.append(view.now_s)
            self.record.decided.append(decision(self.axis, answer))
            self.record.ended.append(self.ended())
            self.record.running.append(np.isin(np.arange(len(view.jobs)), view.running))
        if self.axis == "controls":
            self.progress.count(int(self.ended().sum()), answer)
            self.progress.refuse_endless(self.part, len(view.jobs))

    def _stop_when_enough(self, view: View) -> None:
        """Raise EnoughError once the run has passed the instant up to which it is compared."""
        if self.record is not None and view.now_s > self.record.until_s:
            raise EnoughError

    @staticmethod
    def _contents(view: View) -> bytes:
        """Return everything that a part could write to, as bytes."""
        return contents((view.kernel, view.unit_state)) + contents(view.jobs)


def decision(axis: str, answer: Any) -> Any:
    """Return what an answer decides: for re-ranking the order of the entries, not the values of their priorities."""
    if axis == "order":
        return np.unique(np.array(answer), return_inverse=True)[1].tolist()
    return answer


def result_of(axis: str, part: Any, view: View) -> Any:
    """Return a part's result in a form that can be compared. Raises: PolicyError for one of the wrong kind."""
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
