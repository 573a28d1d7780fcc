"""History predictions inside the event loop: made at arrivals, learned at completions, without a stop for Python.

A stop costs some 2 µs, and more for what is asked: more than all the rest of an event. The published policies of paper
4 predict at every submission. An estimator of the same kind that is called through Python (``parts/history.py``) uses
the same kernels, so that both give the same microwatts; a test holds that.
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, kernel, separate
from wattqueue.kernels.entries import row_of
from wattqueue.kernels.history import (
    PREDICTED,
    PREVIOUS,
    SPREAD,
    history_last,
    history_learn,
    history_predict,
    history_spread,
)
from wattqueue.kernels.in_loop import (
    BY_APP,
    BY_UNIT,
    CORRECTED,
    GREATEST,
    LEAST_SPREAD,
    MARGIN,
    PREVIOUS_JOB,
    SPREADS,
    HistoryState,
)
from wattqueue.kernels.scale import watts_at_option, without_limit
from wattqueue.kernels.state import Array, KernelView, Log
from wattqueue.kernels.unit_watts import mean_of_units


@kernel
def combined_watts(rule: Array, knob: Array, mean: float, spread: float, last: float) -> float:
    """Return the prediction from three figures of the finished jobs that count; NaN where nothing is known.

    The weighted mean, or the last job where there is one; then the spreads on top, each at least a share of it.
    """
    watts = mean
    if rule[PREVIOUS_JOB] != 0 and not math.isnan(last):
        watts = last
    if knob[SPREADS] > 0.0:
        least = knob[LEAST_SPREAD] * watts
        if spread < least:
            spread = least
        watts += knob[SPREADS] * spread
    return float(watts)


@kernel
def predicted_watts(history: HistoryState, job: int, now: float) -> float:
    """Return the watts of a job that arrives now, at the highest frequency; NaN where nothing is known.

    From the user's jobs of the same application where they alone count and there are any, else from all of the user's.
    """
    if history.rule[BY_APP] != 0:
        pair = as_int64(history.pair[job])
        last = history_last(history.by_app, pair)
        if not math.isnan(last):
            mean, spread = history_predict(history.by_app, pair, now), history_spread(history.by_app, pair)
            return combined_watts(history.rule, history.knob, mean, spread, last)
    user = as_int64(history.user[job])
    mean, spread = history_predict(history.history, user, now), history_spread(history.history, user)
    return combined_watts(history.rule, history.knob, mean, spread, history_last(history.history, user))


@entry
def combine_rows(rule: Array, knob: Array, of_user: Array, of_app: Array, out: Array) -> None:
    """Write the predictions of k jobs to ``out`` (k,), from lags by user (k, 3) and by application (k, 3), or (0, 3).

    The same arithmetic as inside the loop, for the callers in Python. Columns as ``history.PREDICTED`` and those after.
    """
    for i in range(len(out)):
        lags = of_user
        if len(of_app) > 0 and not math.isnan(of_app[i, PREVIOUS]):
            lags = of_app
        out[i] = combined_watts(rule, knob, lags[i, PREDICTED], lags[i, SPREAD], lags[i, PREVIOUS])


@kernel
def corrected_watts(view: KernelView, history: HistoryState, job: int, option: int, power: float, full: float) -> float:
    """Return predicted watts with the margin, within what the worst unit can draw (``corrected.MostWatts``)."""
    most = max(full, power)
    if history.rule[BY_UNIT] != 0:
        p = view.units.option_partition[option]
        most /= view.by_unit.rising[view.by_unit.factors.row[job], view.units.unit_start[p + 1] - 1]
    return float(min(power * history.knob[MARGIN], most))


@separate
def predict_from_history(view: KernelView, history: HistoryState, job: int) -> None:
    """Write the predicted microwatts of a job that arrives now, at every option.

    As ``OnlineBase.apply`` of every other estimator, by the same kernel; then corrected.
    """
    watts = predicted_watts(history, job, view.now.time_s)
    row = row_of(view.predicted, view.predicted.power_uw, job)
    for option in range(len(history.idle_w)):
        idle_w, max_w = history.idle_w[option], history.max_w[option]
        dynamic, held_w = history.dynamic[option], history.held_w[option]
        power = watts_at_option(watts, idle_w, max_w, dynamic, held_w)
        if history.rule[CORRECTED] != 0:
            full = watts_at_option(math.nan, idle_w, max_w, dynamic, held_w)
            power = corrected_watts(view, history, job, option, power, full)
        view.predicted.power_uw[row, option] = round(power * codes.MICRO)


@separate
def learn_end(view: KernelView, log: Log, history: HistoryState, job: int, option: int) -> None:
    """Learn a job that ended now at ``option``: the measured watts of one unit in its last run, mean or greatest.

    Of a unit of factor 1, where its units differ; without the limit of its GPUs, where it has one.
    """
    watts = (log.energy_j[job] - log.past_j[job]) / (log.end[job] - log.start[job]) / view.nodes[job]
    if history.rule[GREATEST] != 0 and len(history.peak_w) > 0 and history.peak_w[job] > watts:
        watts = history.peak_w[job]
    if history.rule[BY_UNIT] != 0:
        held, factors = view.held, view.by_unit.factors
        row, first, count = as_int64(factors.row[job]), as_int64(held.first[job]), as_int64(held.pieces[job])
        watts /= mean_of_units(factors.table, row, first, count, held.low, held.high)
    idle_w, max_w = history.idle_w[option], history.max_w[option]
    watts = without_limit(watts, idle_w, max_w, history.dynamic[option], history.held_w[option])
    history_learn(history.history, as_int64(history.user[job]), log.end[job], watts)
    if history.rule[BY_APP] != 0:
        history_learn(history.by_app, as_int64(history.pair[job]), log.end[job], watts)
