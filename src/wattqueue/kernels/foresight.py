"""History predictions inside the event loop: asked at arrivals, taught at completions, without Python.

The arithmetic is that of the Python way (parts/estimator/_online.py and sim/answers.py), step by step, so
that both give the same microwatts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.kernels._jit import inlined, wide
from wattqueue.kernels.entries import row_of
from wattqueue.kernels.history import History, history_learn, history_predict, history_previous
from wattqueue.kernels.state import Array, Log, View

# Slots of Foresight.rule.
ON = 0
PREVIOUS_JOB = 1  # the user's last job stands for the next one, as LastJob does
GREATEST = 2  # the greatest watts are learned, not the mean
RULE_SLOTS = 3


class Foresight(NamedTuple):
    """What the loop predicts with.

    ``rule`` (3,) int64; ``user`` (n,) int32; ``peak_w`` (n,) greatest watts that a meter would show, NaN
    unknown; ``idle_w``, ``max_w``, ``dynamic`` (O,): figures of a unit by option.
    """

    rule: Array
    history: History
    user: Array
    peak_w: Array
    idle_w: Array
    max_w: Array
    dynamic: Array


@inlined
def foresee(view: View, foresight: Foresight, job: int) -> None:
    """Write the predicted watts of a job that arrives now, at every option."""
    user = wide(foresight.user[job])
    watts = history_predict(foresight.history, user, view.num[codes.NOW])
    if foresight.rule[PREVIOUS_JOB] != 0:
        last = history_previous(foresight.history, user)
        if not math.isnan(last):
            watts = last
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
