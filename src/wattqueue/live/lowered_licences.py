"""Decide how far licences of running jobs may be lowered, and which have to be raised again (``live.bound``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wattqueue.live.bound import LimitsInForce
from wattqueue.live.licences import HOLDS_WATTS
from wattqueue.live.parking import PARKED
from wattqueue.live.running_jobs import RunningJob
from wattqueue.live.tracking import at_least


class Allotted(NamedTuple):
    """Running jobs with the licences that they may have, and what these leave uncovered."""

    jobs: Sequence[RunningJob]
    withheld_w: int
    """What is uncovered beyond the accepted overshoot, once this round has raised what it raises."""


def allot(running: Sequence[RunningJob], overshoot_w: float, limits: LimitsInForce, *, promised: bool) -> Allotted:
    """Return running jobs whose licences are lowered no further than the bound allows.

    ``promised``: the row's ledger promises a share of time, and the machine's meter corrects it. A job whose nodes have
    limits in force may have any licence; of all others together ``overshoot_w`` may be uncovered, in the order of the
    jobs. A licence that has become too low is raised in this round, whatever the pool: what it stands for is drawn.
    """
    # the common case first: no licence of ten thousand jobs is lowered, or is to be
    if promised or not any(job.start_w > min(job.row.watts, job.counted.licence) for job in running):
        return Allotted(running, 0)
    found, left_w, uncovered_w = [], overshoot_w, 0
    for job in running:
        row, licence = job.row, job.counted.licence
        if row.watts < 0 or job.counted.label == PARKED or job.start_w <= min(licence, row.watts):
            found.append(job)
            continue
        covered = limits.cover(row)
        least_w = 0
        if not covered:
            given_w = int(min(max(0, job.start_w - licence), left_w))
            left_w -= given_w
            least_w = job.start_w - given_w
            job = job._replace(counted=at_least(job.counted, least_w, row.watts), least_w=least_w)
        found.append(job)
        if not (covered and limits.hold_cap):
            raised_w = least_w if row.state in HOLDS_WATTS else 0
            uncovered_w += max(0, job.start_w - max(row.watts, raised_w))
    return Allotted(found, max(0, uncovered_w - math.floor(overshoot_w)))
