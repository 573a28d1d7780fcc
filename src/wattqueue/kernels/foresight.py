"""History predictions inside the event loop: asked at arrivals, taught at completions, without Python.

The arithmetic is that of the Python way (parts/estimator/_online.py and sim/answers.py), step by step, so
that both give the same microwatts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.kernels._jit import inlined, kernel, wide
from wattqueue.kernels.entries import row_of
from wattqueue.kernels.history import (
    History,
    history_learn,
    history_predict,
    history_previous,
    history_spread,
)
from wattqueue.kernels.state import Array, Log, View

# Slots of Foresight.rule.
ON = 0
PREVIOUS_JOB = 1  # the user's last job stands for the next one, as LastJob does
GREATEST = 2  # the greatest watts are learned, not the mean
BY_APP = 3  # the user's jobs of the same application count, where there are any
RULE_SLOTS = 4

# Slots of Foresight.knob.
SPREADS = 0  # standard deviations that are added
LEAST_SPREAD = 1  # a standard deviation counts as at least this share of the prediction
KNOB_SLOTS = 2


class Foresight(NamedTuple):
    """What the loop predicts with.

    ``rule`` (4,) int64, ``knob`` (2,) float64; ``history`` by ``user`` (n,) int32, ``by_app`` by ``pair``
    (n,) int32, a number for each (user, application); ``peak_w`` (n,) greatest watts that a meter would show,
    NaN unknown; ``idle_w``, ``max_w``, ``dynamic`` (O,): figures of a unit by option.
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
def foreseen(foresight: Foresight, job: int, now: float) -> float:
    """Watts of a job that arrives now; NaN where nothing is known."""
    user = wide(foresight.user[job])
    watts = history_predict(foresight.history, user, now)
    if foresight.rule[PREVIOUS_JOB] != 0:
        last = history_previous(foresight.history, user)
        if not math.isnan(last):
            watts = last
    pair = -1  # whose spread it is: this pair's, else the user's
    if foresight.rule[BY_APP] != 0:
        own = wide(foresight.pair[job])
        if not math.isnan(history_previous(foresight.by_app, own)):
            predicted = history_predict(foresight.by_app, own, now)
            if not math.isnan(predicted):
                watts, pair = predicted, own
    if foresight.knob[SPREADS] > 0.0:
        spread = history_spread(foresight.by_app, pair) if pair >= 0 else history_spread(foresight.history, user)
        least = foresight.knob[LEAST_SPREAD] * watts
        if spread < least:
            spread = least
        watts += foresight.knob[SPREADS] * spread
    return float(watts)


@inlined
def foresee(view: View, foresight: Foresight, job: int) -> None:
    """Write the predicted watts of a job that arrives now, at every option."""
    watts = foreseen(foresight, job, view.num[codes.NOW])
    row = row_of(view.predicted, view.predicted.power_uw, job)
    for option in range(len(foresight.idle_w)):
        power = foresight.max_w[option] if math.isnan(watts) else watts
        idle = min(foresight.idle_w[option], power)
        uw = round((idle + (power - idle) * foresight.dynamic[option]) * codes.MICRO)
        view.predicted.power_uw[row, option] = uw
        p = wide(view.units.option_partition[option])
        if view.counter[codes.SCOPE_JOBS] == 0 and uw < view.units.idle_uw[p]:
            view.counter[codes.NEGATIVE_NET] = 1


@inlined
def learn_end(view: View, log: Log, foresight: Foresight, job: int) -> None:
    """A job ended now: its measured watts of one unit are learned."""
    watts = log.energy_j[job] / (log.end[job] - log.start[job]) / view.nodes[job]
    if foresight.rule[GREATEST] != 0 and foresight.peak_w[job] > watts:
        watts = foresight.peak_w[job]
    history_learn(foresight.history, wide(foresight.user[job]), log.end[job], watts)
    if foresight.rule[BY_APP] != 0:
        history_learn(foresight.by_app, wide(foresight.pair[job]), log.end[job], watts)
