"""Correct predicted quantiles by how far they missed before: conformal, one-sided, user by user.

The score of a finished job is its watts less the quantile that was predicted for it. Of n scores, the
one of rank ceil((n + 1) q) is what must be added so that q of exchangeable jobs lie below. A user whose
own scores are too few (for that rank, or to be worth it) gets the correction from everybody's. Only the
latest scores count: they stand in a ring, and sorted beside it.

Reference: Romano, Patterson and Candes, Conformalized quantile regression (2019), one side of eq. 6-8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wattqueue.kernels._jit import entry, kernel
from wattqueue.kernels.state import Array


class Scores(NamedTuple):
    """The latest scores of each owner (users, and everybody in the last row), by quantile.

    ``quantile`` (Q,); ``fewest`` (1,) int64: so many scores of his own a user needs; ``start``
    (owners + 1,) int64 rows of an owner; ``seen`` (owners,) int64 scores ever taught; ``ring`` (rows, Q)
    as they came; ``sorted`` (rows, Q), each column rising.
    """

    quantile: Array
    fewest: Array
    start: Array
    seen: Array
    ring: Array
    sorted: Array


class Walk(NamedTuple):
    """A trace: rows ``by_submit`` and ``by_end`` in those orders; the other columns (n,)."""

    by_submit: Array
    by_end: Array
    submit_s: Array
    end_s: Array
    owner: Array
    watts: Array


@kernel
def conformal_insert(scores: Scores, begin: int, held: int, q: int, score: float) -> None:
    """Put a score among the ``held`` sorted ones from row ``begin`` on."""
    at = begin + held
    while at > begin and scores.sorted[at - 1, q] > score:
        scores.sorted[at, q] = scores.sorted[at - 1, q]
        at -= 1
    scores.sorted[at, q] = score


@kernel
def conformal_remove(scores: Scores, begin: int, held: int, q: int, score: float) -> None:
    """Take one such score out of the ``held`` sorted ones from row ``begin`` on."""
    low = begin
    high = begin + held
    while low < high:
        middle = (low + high) // 2
        if scores.sorted[middle, q] < score:
            low = middle + 1
        else:
            high = middle
    for at in range(low, begin + held - 1):
        scores.sorted[at, q] = scores.sorted[at + 1, q]


@kernel
def conformal_teach(scores: Scores, owner: int, q: int, score: float) -> None:
    """A new score of one quantile takes the place of the oldest where the ring is full."""
    begin = scores.start[owner]
    room = scores.start[owner + 1] - begin
    held = scores.seen[owner]
    row = begin + held % room
    if held >= room:
        conformal_remove(scores, begin, room, q, scores.ring[row, q])
        held = room - 1
    scores.ring[row, q] = score
    conformal_insert(scores, begin, held, q, score)


@kernel
def conformal_rank(held: int, quantile: float) -> int:
    """Place, from 0, of the score that covers the next job with this probability; ``held`` where too few."""
    return math.ceil((held + 1) * quantile - 1e-9) - 1


@kernel
def conformal_shift(scores: Scores, owner: int, q: int) -> float:
    """Watts to add to a quantile; the greatest score where all together are too few, 0 without any."""
    everybody = len(scores.seen) - 1
    if owner >= 0:
        begin = scores.start[owner]
        held = min(scores.seen[owner], scores.start[owner + 1] - begin)
        rank = conformal_rank(held, scores.quantile[q])
        if held >= scores.fewest[0] and rank < held:
            return float(scores.sorted[begin + rank, q])
    begin = scores.start[everybody]
    held = min(scores.seen[everybody], scores.start[everybody + 1] - begin)
    if held == 0:
        return 0.0
    rank = min(conformal_rank(held, scores.quantile[q]), held - 1)
    return float(scores.sorted[begin + rank, q])


@kernel
def conformal_correct(scores: Scores, owner: int, raw: Array, out: Array, job: int) -> None:
    """Corrected quantiles of a job, rising from one to the next and never below 0; NaN stays NaN."""
    floor = 0.0
    for q in range(len(scores.quantile)):
        watts = raw[job, q] + conformal_shift(scores, owner, q)
        if watts < floor:
            watts = floor
        out[job, q] = watts
        if watts > floor:
            floor = watts


@kernel
def conformal_learn(scores: Scores, owner: int, raw: Array, watts: float, job: int) -> None:
    """A job ended: its scores go to its owner and to everybody; without watts or prediction, to nobody."""
    if not watts > 0.0 or math.isnan(raw[job, 0]):
        return
    everybody = len(scores.seen) - 1
    for q in range(len(scores.quantile)):
        if owner >= 0:
            conformal_teach(scores, owner, q, watts - raw[job, q])
        conformal_teach(scores, everybody, q, watts - raw[job, q])
    if owner >= 0:
        scores.seen[owner] += 1
    scores.seen[everybody] += 1


@entry
def conformal_answer(scores: Scores, owners: Array, raw: Array, out: Array) -> None:
    """Correct the quantiles of jobs that arrive now. Shapes: ``owners`` (k,); ``raw``, ``out`` (k, Q)."""
    for i in range(len(owners)):
        conformal_correct(scores, owners[i], raw, out, i)


@entry
def conformal_take(scores: Scores, owners: Array, raw: Array, watts: Array) -> None:
    """Learn finished jobs in order. Shapes: ``owners``, ``watts`` (k,); ``raw`` (k, Q) as first predicted."""
    for i in range(len(owners)):
        conformal_learn(scores, owners[i], raw, watts[i], i)


@entry
def conformal_walk(scores: Scores, walk: Walk, raw: Array, out: Array) -> None:
    """Correct every job's quantiles at its submission with the scores of jobs that had ended by then.

    Shapes: ``raw`` and ``out`` (n, Q).
    """
    taught = 0
    for i in range(len(walk.by_submit)):
        job = walk.by_submit[i]
        while taught < len(walk.by_end) and walk.end_s[walk.by_end[taught]] <= walk.submit_s[job]:
            done = walk.by_end[taught]
            conformal_learn(scores, walk.owner[done], raw, walk.watts[done], done)
            taught += 1
        conformal_correct(scores, walk.owner[job], raw, out, job)
