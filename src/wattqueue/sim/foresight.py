"""Which online estimators run inside the compiled loop, and with what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.kernels.foresight import (
    BY_APP,
    GREATEST,
    KNOB_SLOTS,
    LEAST_SPREAD,
    ON,
    PREVIOUS_JOB,
    RULE_SLOTS,
    SPREADS,
    Foresight,
)
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.past import Past
from wattqueue.parts.contracts import Estimator, Prediction
from wattqueue.parts.estimator._history import HistoryBase, new_history


def own_rows(prediction: Prediction, estimator: Estimator) -> Prediction:
    """A row for each job where an estimator will be asked again: its answers are written there."""
    if estimator.asked == "once" or prediction.row is None:
        return prediction
    row = prediction.row
    quantiles = {q: watts[row] for q, watts in prediction.quantiles.items()}
    power, time = prediction.power_w[row], prediction.time_factor[row]
    return replace(prediction, power_w=power, time_factor=time, row=None, quantiles=quantiles)


def recall(estimator: Estimator, past: Past) -> None:
    """Let an estimator that learns begin with a past; one that is asked once has nothing to remember.

    Raises: PolicyError for one that learns and has no ``remember``.
    """
    if estimator.asked == "once":
        return
    remember = getattr(estimator, "remember", None)
    if remember is None:
        raise PolicyError(
            "learns, but cannot begin with what ended before the run",
            where=type(estimator).__name__,
            mend="give it a method remember(past), or use a history estimator",
        )
    remember(past)


def check_recall(estimator: Estimator, machine: Machine) -> None:
    """Whether an estimator can begin with a past: asked of it with one job, and a past of none.

    Raises: PolicyError as ``recall``.
    """
    if estimator.asked != "once":
        jobs = Jobs.build([0.0], [1], [1.0])
        estimator.predict(jobs, machine)
        recall(estimator, Past(jobs.take(slice(0)), np.zeros(0)))


def foresight_of(estimator: Estimator, jobs: Jobs) -> Foresight:
    """The state of a history estimator, shared with the loop; one that is off for every other estimator."""
    if isinstance(estimator, HistoryBase) and estimator.in_loop:
        found = estimator.loop_state()
        peak = jobs.peak_power_w()
        rule = np.zeros(RULE_SLOTS, np.int64)
        rule[ON] = 1
        rule[PREVIOUS_JOB] = estimator.column != 0
        rule[GREATEST] = estimator.target == "max" and peak is not None
        rule[BY_APP] = estimator.by_app
        knob = np.zeros(KNOB_SLOTS)
        knob[SPREADS], knob[LEAST_SPREAD] = estimator.spreads, estimator.least_spread
        greatest = peak if peak is not None else np.zeros(0)
        scale = found.scale
        user = np.ascontiguousarray(jobs.user.codes, np.int32)
        pair = np.ascontiguousarray(found.pair, np.int32)
        own = (found.state, user, found.by_app, pair)
        return Foresight(rule, knob, *own, greatest, scale.idle_w, scale.max_w, scale.dynamic)
    nothing = np.zeros(0)
    nobody = np.zeros(0, np.int32)
    none = (new_history(nobody), nobody)
    off = np.zeros(RULE_SLOTS, np.int64)
    return Foresight(off, np.zeros(KNOB_SLOTS), *none, *none, nothing, nothing, nothing, nothing)
