"""Choose the estimators that predict inside the compiled loop, and prepare their state.

An online estimator is called at every batch of submissions. Where its class states that the history kernel answers
for it (``HistoryBase.loop_kernel``), the loop does that itself (``kernels/history_prediction.py``), with the same
result; every other one, subclasses included, is called through the session.
"""

from __future__ import annotations

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.kernels.in_loop import BY_UNIT, CORRECTED, MARGIN, HistoryState, no_history
from wattqueue.kernels.recent_runs import RecentRuns, no_recent_runs
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Estimator, LoopTerms, Prediction, RunTime
from wattqueue.parts.history import HistoryBase
from wattqueue.parts.oracles import jobs_for
from wattqueue.policy.capabilities import Capabilities, resolve
from wattqueue.policy.corrected import Corrected, base_of
from wattqueue.policy.interfaces import method_of
from wattqueue.policy.registry import Policy


def own_rows(prediction: Prediction, estimator: Estimator) -> Prediction:
    """Give each job a row of its own where an estimator is called again: its later predictions are written there.

    Static predictions may share rows (``Prediction.row``): one for each (application, size), say.
    """
    if estimator.asked == "once" or prediction.row is None:
        return prediction
    return prediction.take(np.arange(len(prediction.row), dtype=np.int32))


def recall(estimator: Estimator, needs: Capabilities, past: Past) -> None:
    """Let an estimator that learns start from a past; one that is called once has nothing to learn.

    Called after ``predict``, which resets the estimator, and before the first submission.

    Raises: PolicyError for one that learns and has no ``remember``.
    """
    if estimator.asked == "once":
        return
    if needs.remember is None:
        raise PolicyError(
            "an estimator that learns, without a way to start from a past",
            where=type(estimator).__name__,
            hint="add a method remember(past), or use a history estimator",
        )
    needs.remember(past)


def recall_runs(runtime: RunTime, needs: Capabilities, past: Past) -> None:
    """Let a run-time part that learns start from a past.

    Raises: PolicyError for one that learns and has no ``remember_runs``.
    """
    if needs.plans_online is None:
        return
    remember = method_of(runtime, "remember_runs")
    if remember is None:
        raise PolicyError(
            "a run-time part that learns, without a way to start from a past",
            where=type(runtime).__name__,
            hint="add a method remember_runs(past), or use a part that looks at recent jobs",
        )
    remember(past)


def check_recall(policy: Policy, machine: Machine) -> None:
    """Check that a policy's estimator can start from a past, with one job and an empty past.

    Raises: PolicyError as ``recall``.
    """
    estimator = policy.estimator
    if estimator.asked != "once":
        jobs = Jobs.build([0.0], [1], [1.0])
        estimator.predict(jobs_for(estimator, jobs), machine)
        recall(estimator, resolve(policy), Past(jobs.take(slice(0)), np.zeros(0)))


def recent_runs_of(runtime: object) -> RecentRuns:
    """Return the state of a part that the loop predicts run times for, shared with it; else one switched off."""
    if not vars(type(runtime)).get("in_loop"):
        return no_recent_runs()
    from wattqueue.parts.recent_runs import RecentBase

    return runtime.loop_state() if isinstance(runtime, RecentBase) else no_recent_runs()


def history_prediction_of(estimator: Estimator, runtime: RunTime, jobs: Jobs) -> HistoryState:
    """Return the state of a history estimator and of a run-time part, shared with the loop.

    For every other one, a state that is switched off: kernels need arguments of one type.
    """
    runs = recent_runs_of(runtime)
    base = base_of(estimator)
    terms = estimator.loop_terms() if isinstance(estimator, Corrected) else LoopTerms()
    if isinstance(base, HistoryBase) and base.in_loop and terms is not None:
        found = base.loop_state()
        found.rule[[BY_UNIT, CORRECTED]] = terms.by_unit, base is not estimator
        found.knob[MARGIN] = terms.margin
        peak = jobs.peak_power_w()
        greatest = peak if peak is not None else np.zeros(0)
        scale = found.scale
        user = np.ascontiguousarray(jobs.user.codes, np.int32)
        pair = np.ascontiguousarray(found.pair, np.int32)
        own = (found.state, user, found.by_app, pair)
        figures = scale.idle_w, scale.max_w, scale.dynamic, scale.held_w
        return HistoryState(found.rule, found.knob, *own, greatest, *figures, runs)
    return no_history(runs)
