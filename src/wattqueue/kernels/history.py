"""Predict a job's watts from its user's finished jobs: eq. 1-3 of paper 4, in O(1) a prediction.

Eq. 1 is a weighted mean of the watts P of the user's finished jobs j'; the weight theta of a job grows with its end C'
over the window (eq. 2 and 3): theta = ((C' - (r - s)) / s)**alpha for a job submitted at r and a window of s seconds.

Whole history: s = r - C_first, so theta = ((C' - C_first) / (r - C_first))**alpha. The denominator is
the same for all j' and cancels in eq. 1: two sums a user suffice, and do not depend on r.

Windows with alpha 1 or 2: theta is a polynomial in C', so moments of C' and of P C' suffice. They are
kept as a queue made of two stacks. The newer stack collects jobs that end; jobs leave from the older one. When the
older one is empty, the newer one becomes it, with the moments of each job and all after it (``history_restack``).
Every sum is relative to the oldest job of its stack, and only positive terms are added, never subtracted, so nothing
cancels. Each job is restacked once: O(1) amortized. Another alpha walks the window.

Ends must be learned in their order, and ``now`` must not fall: the caller's duty.

Reference: paper 4, section 5 (eq. 1-3) and Table 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels._numba import entry, kernel, referenced
from wattqueue.kernels.state import Array

# Slots of History.rule and History.total.
ALPHA = 0
WINDOW = 1
ALL_WATTS = 0
ALL_JOBS = 1

# Columns of History.user.
FIRST = 0  # the user's first completion
JOBS = 1
WATTS = 2  # sum of P
WEIGHT = 3  # sum of (C' - C_first)**alpha
WEIGHTED = 4  # sum of (C' - C_first)**alpha P
LAST = 5  # P of the job that finished last
MEAN = 6  # running mean and sum of squared deviations (Welford)
SQUARES = 7
USER_COLUMNS = 8

# Columns of History.slot: a user's jobs stand in rows BEGIN..; FRONT..MID-1 and MID..END-1 are in the window.
BEGIN = 0
FRONT = 1
MID = 2
END = 3
SLOT_COLUMNS = 4

# Columns of the moments: sums of x**k and of P x**k for k = 0, 1, 2.
MOMENTS = 6

# Columns of what a walk gives for each job.
PREDICTED = 0
SPREAD = 1
PREVIOUS = 2
WALK_COLUMNS = 3


@referenced
class History(NamedTuple):
    """What is known of each user's finished jobs.

    ``rule`` (2,): alpha, and the window in seconds (inf: the whole history); ``total`` (2,): watts and number of all
    finished jobs; ``user`` (users, 8) sums, ``slot`` (users, 4) int64 places by column (see the constants). For
    windows alone, else empty: ``time``, ``watts`` (m,) of finished jobs, user by user; ``suffix`` (m, 6) moments of
    the older stack from each job on; ``back`` (users, 6) moments of the newer stack.
    """

    rule: Array
    total: Array
    user: Array
    slot: Array
    time: Array
    watts: Array
    suffix: Array
    back: Array


def new_history(jobs_of_user: NDArray[np.integer], *, alpha: float = 2.0, window_s: float = math.inf) -> History:
    """Return an empty state. ``jobs_of_user`` (users,): most finished jobs that each user's window must hold.

    ``window_s`` inf keeps moments only and needs no room per job.
    """
    users = len(jobs_of_user)
    windowed = window_s != math.inf
    room = int(jobs_of_user.sum()) if windowed else 0
    slot = np.zeros((users, SLOT_COLUMNS), np.int64)
    if windowed and users:
        slot[:] = np.concatenate(([0], np.cumsum(jobs_of_user)[:-1]))[:, np.newaxis]
    return History(
        rule=np.array([alpha, window_s]),
        total=np.zeros(2),
        user=np.zeros((users, USER_COLUMNS)),
        slot=slot,
        time=np.zeros(room),
        watts=np.zeros(room),
        suffix=np.zeros((room, MOMENTS)),
        back=np.zeros((users if windowed else 0, MOMENTS)),
    )


@kernel
def history_theta(x: float, alpha: float) -> float:
    """Return the weight of a job by the seconds x after the start of the window, up to a common factor (eq. 3).

    Square and square root are spelled out: a general power takes ten times as long.
    """
    if alpha == 2.0:
        return x * x
    if alpha == 1.0:
        return x
    if alpha == 0.5:
        return math.sqrt(x)
    return float(x**alpha)


@kernel
def history_append(state: History, user: int, end_s: float, watts: float) -> None:
    """Append a finished job to the newer stack of the user's window.

    Its moments are relative to the stack's oldest job, at ``slot[user, MID]``. An empty stack begins with this one.
    """
    k = state.slot[user, END]
    state.slot[user, END] = k + 1
    state.time[k] = end_s
    state.watts[k] = watts
    mid = state.slot[user, MID]
    if k == mid:
        for c in range(MOMENTS):
            state.back[user, c] = 0.0
    x = end_s - state.time[mid]
    state.back[user, 0] += 1.0
    state.back[user, 1] += x
    state.back[user, 2] += x * x
    state.back[user, 3] += watts
    state.back[user, 4] += x * watts
    state.back[user, 5] += x * x * watts


@kernel
def history_restack(state: History, user: int, first: int, end: int) -> None:
    """Make the jobs ``first`` .. ``end - 1`` the older stack: moments of each and all after it, relative to its time.

    From the last to the first: moments shift by the time d between neighbours, sum (x + d)^2 = sum x^2 + 2 d sum x +
    d^2 n.
    """
    for k in range(end - 1, first - 1, -1):
        for c in range(MOMENTS):
            state.suffix[k, c] = 0.0
        if k + 1 < end:
            d = state.time[k + 1] - state.time[k]
            for c in range(0, MOMENTS, 3):
                state.suffix[k, c] = state.suffix[k + 1, c]
                state.suffix[k, c + 1] = state.suffix[k + 1, c + 1] + d * state.suffix[k + 1, c]
                state.suffix[k, c + 2] = state.suffix[k + 1, c + 2] + d * (
                    2.0 * state.suffix[k + 1, c + 1] + d * state.suffix[k + 1, c]
                )
        state.suffix[k, 0] += 1.0
        state.suffix[k, 3] += state.watts[k]
    state.slot[user, FRONT] = first
    state.slot[user, MID] = end


@kernel
def history_evict(state: History, user: int, now: float) -> None:
    """Remove the jobs that ended before the window began: now - C' > s (eq. 2).

    From the older stack by moving its front. Where that empties it, the newer stack is restacked without the jobs that
    are over, once; so each job is looked at twice in all.
    """
    front = state.slot[user, FRONT]
    mid = state.slot[user, MID]
    end = state.slot[user, END]
    window = state.rule[WINDOW]
    while front < mid and now - state.time[front] > window:
        front += 1
    state.slot[user, FRONT] = front
    if front == mid and mid < end and now - state.time[mid] > window:
        while mid < end and now - state.time[mid] > window:
            mid += 1
        history_restack(state, user, mid, end)


@kernel
def history_moment(sums: Array, k: int, first: int, d: float, alpha: float) -> float:
    """Return the sum of (x + d)**alpha over a stack, times P where ``first`` is 3, from the moments in row k.

    ``d`` shifts from the stack's oldest job to the begin of the window; alpha is 1 or 2.
    """
    if alpha == 1.0:
        return float(sums[k, first + 1] + d * sums[k, first])
    return float(sums[k, first + 2] + d * (2.0 * sums[k, first + 1] + d * sums[k, first]))


@kernel
def history_window(state: History, user: int, now: float) -> float:
    """Return eq. 1 over a window of s seconds; NaN where no job of the user is in it.

    Where every weight is 0 (all ended exactly at the begin of the window), the plain mean.
    """
    history_evict(state, user, now)
    front = state.slot[user, FRONT]
    mid = state.slot[user, MID]
    end = state.slot[user, END]
    alpha = state.rule[ALPHA]
    window = state.rule[WINDOW]
    if front == end:
        return math.nan
    weight = 0.0
    weighted = 0.0
    if alpha == 1.0 or alpha == 2.0:
        if front < mid:
            d = window - (now - state.time[front])
            weight += history_moment(state.suffix, front, 0, d, alpha)
            weighted += history_moment(state.suffix, front, 3, d, alpha)
        if mid < end:
            d = window - (now - state.time[mid])
            weight += history_moment(state.back, user, 0, d, alpha)
            weighted += history_moment(state.back, user, 3, d, alpha)
    else:
        for k in range(front, end):
            theta = history_theta(window - (now - state.time[k]), alpha)
            weight += theta
            weighted += theta * state.watts[k]
    if weight > 0.0:
        return float(weighted / weight)
    plain = 0.0
    for k in range(front, end):
        plain += state.watts[k]
    return float(plain / (end - front))


@kernel
def history_whole(state: History, user: int) -> float:
    """Return eq. 1 over all finished jobs of a user; their plain mean where every weight is 0; NaN for none."""
    jobs = state.user[user, JOBS]
    if jobs == 0.0:
        return math.nan
    weight = state.user[user, WEIGHT]
    if weight > 0.0:
        return float(state.user[user, WEIGHTED] / weight)
    return float(state.user[user, WATTS] / jobs)


@kernel
def history_predict(state: History, user: int, now: float) -> float:
    """Return the watts of a job that ``user`` (-1: unknown) submits now; NaN before any job has finished.

    A user without history gets the mean of all jobs finished so far.
    """
    predicted = math.nan
    if user >= 0:
        if state.rule[WINDOW] == math.inf:
            predicted = history_whole(state, user)
        else:
            predicted = history_window(state, user, now)
    if math.isnan(predicted) and state.total[ALL_JOBS] > 0.0:
        return float(state.total[ALL_WATTS] / state.total[ALL_JOBS])
    return predicted


@kernel
def history_learn(state: History, user: int, end_s: float, watts: float) -> None:
    """Learn that a job of ``user`` ended at ``end_s``, with ``watts`` a unit; 0 W, less or NaN is no measurement.

    Mean and squares follow Welford's update, which does not cancel.
    """
    if not watts > 0.0:
        return
    state.total[ALL_WATTS] += watts
    state.total[ALL_JOBS] += 1.0
    if user < 0:
        return
    if state.user[user, JOBS] == 0.0:
        state.user[user, FIRST] = end_s
    theta = history_theta(max(end_s - state.user[user, FIRST], 0.0), state.rule[ALPHA])
    state.user[user, JOBS] += 1.0
    state.user[user, WATTS] += watts
    state.user[user, WEIGHT] += theta
    state.user[user, WEIGHTED] += theta * watts
    state.user[user, LAST] = watts
    above = watts - state.user[user, MEAN]
    state.user[user, MEAN] += above / state.user[user, JOBS]
    state.user[user, SQUARES] += above * (watts - state.user[user, MEAN])
    if state.rule[WINDOW] != math.inf:
        history_append(state, user, end_s, watts)


@kernel
def history_spread(state: History, user: int) -> float:
    """Return the standard deviation of the watts of a user's finished jobs (Table 1, feature 6); NaN for none."""
    if user < 0 or state.user[user, JOBS] == 0.0:
        return math.nan
    return math.sqrt(max(state.user[user, SQUARES], 0.0) / state.user[user, JOBS])


@kernel
def history_last(state: History, user: int) -> float:
    """Return the watts of the user's job that finished last (Table 1, feature 7); NaN for none."""
    if user < 0 or state.user[user, JOBS] == 0.0:
        return math.nan
    return float(state.user[user, LAST])


@entry
def history_predict_rows(state: History, users: Array, now: float, out: Array) -> None:
    """Predict jobs that arrive now. Shapes: ``users`` (k,), ``out`` (k, 3): watts, spread, last."""
    for i in range(len(users)):
        user = users[i]
        out[i, PREDICTED] = history_predict(state, user, now)
        out[i, SPREAD] = history_spread(state, user)
        out[i, PREVIOUS] = history_last(state, user)


@entry
def history_learn_rows(state: History, users: Array, end_s: Array, watts: Array) -> None:
    """Learn finished jobs in the order given. Shapes (k,)."""
    for i in range(len(users)):
        history_learn(state, users[i], end_s[i], watts[i])


@entry
def history_replay(
    state: History,
    by_submit: Array,
    by_end: Array,
    submit_s: Array,
    end_s: Array,
    user: Array,
    watts: Array,
    out: Array,
) -> None:
    """Predict every job at its submission, with only what had ended by then.

    Shapes: ``by_submit``, ``by_end`` the rows in order of submissions and of ends (those that are
    learned); ``submit_s``, ``end_s``, ``user``, ``watts`` (n,); ``out`` (n, 3) as in history_predict_rows.
    """
    taught = 0
    for i in range(len(by_submit)):
        job = by_submit[i]
        now = submit_s[job]
        while taught < len(by_end) and end_s[by_end[taught]] <= now:
            done = by_end[taught]
            history_learn(state, user[done], end_s[done], watts[done])
            taught += 1
        out[job, PREDICTED] = history_predict(state, user[job], now)
        out[job, SPREAD] = history_spread(state, user[job])
        out[job, PREVIOUS] = history_last(state, user[job])
