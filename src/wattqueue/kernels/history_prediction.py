"""History predictions inside the event loop: made at arrivals, learned at completions, without a stop for Python.

A stop costs some 5 µs, more than all the rest of an event; the published policies of paper 4 predict at every
submission. The arithmetic is that of the Python way (``parts/estimator`` and ``sim/python_hooks.py``), step by step,
so that both give the same microwatts; a test holds that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.kernels._jit import as_int64, inlined, kernel
from wattqueue.kernels.entries import row_of
from wattqueue.kernels.history import (
    History,
    history_last,
    history_learn,
    history_predict,
    history_spread,
)
from wattqueue.kernels.state import Array, KernelView, Log

# Slots of HistoryPrediction.rule.
ON = 0
PREVIOUS_JOB = 1  # the user's last job stands for the next one, as LastJob does
GREATEST = 2  # the greatest watts are learned, not the mean
BY_APP = 3  # the user's jobs of the same application count, where there are any
RULE_SLOTS = 4

# Slots of HistoryPrediction.knob.
SPREADS = 0  # standard deviations that are added
LEAST_SPREAD = 1  # a standard deviation counts as at least this share of the prediction
KNOB_SLOTS = 2


class HistoryPrediction(NamedTuple):
    """What the loop predicts with.

    ``rule`` (4,) int64, ``knob`` (2,) float64 (see the constants); ``history`` by ``user`` (n,) int32, ``by_app`` by
    ``pair`` (n,) int32, a number for each (user, application); ``peak_w`` (n,) greatest watts that a meter would show,
    NaN unknown; ``idle_w``, ``max_w``, ``dynamic`` (O,): figures of a unit by option. ``rule[ON]`` 0: every other
    array is empty, and the loop predicts nothing.
    """

    rule: Array
    knob: Array
    history: History
    user: Array
    by_app: History
    pair: Array
    peak_w: Array
    idle_w: Array
    max_w: Array
    dynamic: Array


@kernel
def predicted_watts(history: HistoryPrediction, job: int, now: float) -> float:
    """Return the watts of a job that arrives now, at the highest frequency; NaN where nothing is known.

    In order: the mean over the user's history, the user's last job, the user's jobs of the same application; then the
    spreads on top.
    """
    user = as_int64(history.user[job])
    watts = history_predict(history.history, user, now)
    if history.rule[PREVIOUS_JOB] != 0:
        last = history_last(history.history, user)
        if not math.isnan(last):
            watts = last
    pair = -1  # whose spread it is: this pair's, else the user's
    if history.rule[BY_APP] != 0:
        own = as_int64(history.pair[job])
        if not math.isnan(history_last(history.by_app, own)):
            predicted = history_predict(history.by_app, own, now)
            if not math.isnan(predicted):
                watts, pair = predicted, own
    if history.knob[SPREADS] > 0.0:
        spread = history_spread(history.by_app, pair) if pair >= 0 else history_spread(history.history, user)
        least = history.knob[LEAST_SPREAD] * watts
        if spread < least:
            spread = least
        watts += history.knob[SPREADS] * spread
    return float(watts)


@inlined
def predict_from_history(view: KernelView, history: HistoryPrediction, job: int) -> None:
    """Write the predicted microwatts of a job that arrives now, at every option.

    Unknown watts are the unit's maximum. Watts above idle shrink with the frequency, as in every estimator.
    """
    watts = predicted_watts(history, job, view.num[codes.NOW])
    row = row_of(view.predicted, view.predicted.power_uw, job)
    for option in range(len(history.idle_w)):
        power = history.max_w[option] if math.isnan(watts) else watts
        idle = min(history.idle_w[option], power)
        uw = round((idle + (power - idle) * history.dynamic[option]) * codes.MICRO)
        view.predicted.power_uw[row, option] = uw


@inlined
def learn_end(view: KernelView, log: Log, history: HistoryPrediction, job: int) -> None:
    """Learn a job that ended now: its measured watts of one unit, mean or greatest."""
    watts = log.energy_j[job] / (log.end[job] - log.start[job]) / view.nodes[job]
    if history.rule[GREATEST] != 0 and history.peak_w[job] > watts:
        watts = history.peak_w[job]
    history_learn(history.history, as_int64(history.user[job]), log.end[job], watts)
    if history.rule[BY_APP] != 0:
        history_learn(history.by_app, as_int64(history.pair[job]), log.end[job], watts)
