"""Correct predicted quantiles by how far they missed before: conformal, one-sided, user by user.

The score of a finished job is its watts less the quantile that was predicted for it. Of n scores, the
one of rank ceil((n + 1) q) is what must be added so that a share q of exchangeable jobs lies below. A user whose
own scores are too few (for that rank, or for ``fewest``) gets the correction from the scores of all users.

Only the latest scores count. They are kept twice, for each owner and quantile: in a ring in order of arrival, which
gives the oldest score, and sorted, which gives the score of a rank. A new score replaces the oldest one in both:
O(room) to shift the sorted rows, a few hundred at most.

Reference: Romano, Patterson and Candes, Conformalized quantile regression (2019), one side of eq. 6-8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wattqueue.kernels._numba import entry, kernel, referenced
from wattqueue.kernels.state import Array


@referenced
class ConformityScores(NamedTuple):
    """The latest scores of each owner (one row a user, and one for all users together, the last), by quantile.

    ``quantile`` (Q,); ``fewest`` (1,) int64: a user with fewer scores gets everybody's correction; ``start``
    (owners + 1,) int64 rows of an owner; ``seen`` (owners,) int64 scores ever learned; ``ring`` (rows, Q)
    in order of arrival, ``seen % room`` is the oldest; ``sorted`` (rows, Q), each column rising.
    """

    quantile: Array
    fewest: Array
    start: Array
    seen: Array
    ring: Array
    sorted: Array


@referenced
class ReplayOrder(NamedTuple):
    """A trace to replay: rows ``by_submit`` and ``by_end`` in those orders; the other columns (n,)."""

    by_submit: Array
    by_end: Array
    submit_s: Array
    end_s: Array
    owner: Array
    watts: Array


@kernel
def conformal_insert(scores: ConformityScores, begin: int, held: int, q: int, score: float) -> None:
    """Insert a score among the ``held`` sorted ones from row ``begin`` on."""
    at = begin + held
    while at > begin and scores.sorted[at - 1, q] > score:
        scores.sorted[at, q] = scores.sorted[at - 1, q]
        at -= 1
    scores.sorted[at, q] = score


@kernel
def conformal_remove(scores: ConformityScores, begin: int, held: int, q: int, score: float) -> None:
    """Remove one such score from the ``held`` sorted ones from row ``begin`` on."""
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
def conformal_add_score(scores: ConformityScores, owner: int, q: int, score: float) -> None:
    """Add a score of one quantile; where the ring is full, it replaces the oldest.

    ``seen`` counts jobs, not scores: the caller raises it when all quantiles of a job have been added.
    """
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
    """Return the place, from 0, of the score that covers the next job with this probability.

    ``held`` or more where there are too few scores. The small constant keeps (n + 1) q from being rounded up past a
    whole number.
    """
    return math.ceil((held + 1) * quantile - 1e-9) - 1


@kernel
def conformal_shift(scores: ConformityScores, owner: int, q: int) -> float:
    """Return the watts to add to a quantile.

    The owner's own score of the right rank where there are enough; else that of all users. The greatest score of all
    where even these are too few, 0 without any.
    """
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
def conformal_correct(scores: ConformityScores, owner: int, raw: Array, out: Array, job: int) -> None:
    """Write the corrected quantiles of a job, rising from one to the next and never below 0; NaN stays NaN.

    Each quantile is shifted by itself, so that two may cross; a quantile is at least the one before it.
    """
    floor = 0.0
    for q in range(len(scores.quantile)):
        watts = raw[job, q] + conformal_shift(scores, owner, q)
        if watts < floor:
            watts = floor
        out[job, q] = watts
        if watts > floor:
            floor = watts


@kernel
def conformal_learn(scores: ConformityScores, owner: int, raw: Array, watts: float, job: int) -> None:
    """Learn that a job ended: its scores go to its owner and to all.

    Without watts, or without a prediction, nothing is learned.
    """
    if not watts > 0.0 or math.isnan(raw[job, 0]):
        return
    everybody = len(scores.seen) - 1
    for q in range(len(scores.quantile)):
        if owner >= 0:
            conformal_add_score(scores, owner, q, watts - raw[job, q])
        conformal_add_score(scores, everybody, q, watts - raw[job, q])
    if owner >= 0:
        scores.seen[owner] += 1
    scores.seen[everybody] += 1


@entry
def conformal_correct_rows(scores: ConformityScores, owners: Array, raw: Array, out: Array) -> None:
    """Correct the quantiles of jobs that arrive now. Shapes: ``owners`` (k,); ``raw``, ``out`` (k, Q)."""
    for i in range(len(owners)):
        conformal_correct(scores, owners[i], raw, out, i)


@entry
def conformal_learn_rows(scores: ConformityScores, owners: Array, raw: Array, watts: Array) -> None:
    """Learn finished jobs in order. Shapes: ``owners``, ``watts`` (k,); ``raw`` (k, Q) as first predicted."""
    for i in range(len(owners)):
        conformal_learn(scores, owners[i], raw, watts[i], i)


@entry
def conformal_replay(scores: ConformityScores, order: ReplayOrder, raw: Array, out: Array) -> None:
    """Correct every job's quantiles at its submission with the scores of jobs that had ended by then.

    Shapes: ``raw`` and ``out`` (n, Q).
    """
    taught = 0
    for i in range(len(order.by_submit)):
        job = order.by_submit[i]
        while taught < len(order.by_end) and order.end_s[order.by_end[taught]] <= order.submit_s[job]:
            done = order.by_end[taught]
            conformal_learn(scores, order.owner[done], raw, order.watts[done], done)
            taught += 1
        conformal_correct(scores, order.owner[job], raw, out, job)
