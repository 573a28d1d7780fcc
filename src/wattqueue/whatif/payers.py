"""Who pays for a cap: extra waiting by user and partition, and the hours of submission that cost most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.whatif.digest import HOUR_S

NOBODY = "(unknown)"
WORST = 3


@dataclass(frozen=True, slots=True, eq=False)
class Extra:
    """What a cap costs each job against the run without one. Shapes (n,); NaN where it ran in one of them only.

    ``wait_s`` is the longer wait, ``run_s`` the longer run (slower clocks), ``lost`` whether it ran only uncapped.
    """

    wait_s: Floats
    run_s: Floats
    lost: NDArray[np.bool_]

    @classmethod
    def of(cls, plain: tuple[Floats, Floats], capped: tuple[Floats, Floats]) -> Extra:
        """From starts and ends without and with the cap."""
        wait = capped[0] - plain[0]
        run = (capped[1] - capped[0]) - (plain[1] - plain[0])
        return cls(wait, run, np.isfinite(plain[0]) & ~np.isfinite(capped[0]))


@dataclass(frozen=True, slots=True, eq=False)
class Payers:
    """Sums by name, those with most extra waiting first. Shapes (g,).

    ``wait_node_h``: nodes times extra wait, summed; ``wait_share`` its share of all that is above 0 in sum,
    ``work_share`` the share of node-hours run; ``wait_mean_s`` the mean extra wait of a job; ``run_node_h`` node-hours
    run in addition; ``lost`` jobs that no longer run.
    """

    kind: str
    name: tuple[str, ...]
    jobs: NDArray[np.int64]
    wait_node_h: Floats
    wait_share: Floats
    work_share: Floats
    wait_mean_s: Floats
    run_node_h: Floats
    lost: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of submissions: its begin on the trace's clock, and what the cap costs the jobs submitted in it."""

    begin_s: float
    jobs: int
    delayed: int
    wait_node_h: float
    wait_mean_s: float
    plain_wait_mean_s: float


def payers(kind: str, group: Labels, jobs: Jobs, extra: Extra, ran_s: Floats) -> Payers:
    """Sum over the jobs of each name; ``ran_s`` is each job's run time without a cap. Shapes (n,)."""
    names = (*group.names, NOBODY)
    code = np.where(group.codes < 0, len(group.names), group.codes)
    both = np.isfinite(extra.wait_s)
    size = len(names)

    def total(weight: Floats) -> Floats:
        return np.asarray(np.bincount(code[both], weight[both], size), np.float64)

    jobs_ran = np.bincount(code[both], minlength=size)
    wait = total(jobs.nodes * extra.wait_s) / HOUR_S
    work = np.bincount(code, np.where(np.isfinite(ran_s), jobs.nodes * ran_s, 0.0), size)
    lost = np.bincount(code[extra.lost], minlength=size)
    order = np.argsort(-wait, kind="stable")
    order = order[(jobs_ran + lost)[order] > 0]
    all_wait = float(np.maximum(wait, 0.0).sum())
    return Payers(
        kind,
        tuple(names[k] for k in order),
        jobs_ran[order].astype(np.int64),
        wait[order],
        wait[order] / all_wait if all_wait > 0 else np.zeros(len(order)),
        work[order] / max(float(work.sum()), 1e-300),
        total(extra.wait_s)[order] / np.maximum(jobs_ran[order], 1),
        total(jobs.nodes * extra.run_s)[order] / HOUR_S,
        lost[order].astype(np.int64),
    )


def hour_of(submit_s: Floats, zero_s: float = 0.0) -> tuple[Floats, NDArray[np.int64]]:
    """Begins of the hours in which jobs were submitted, and each job's place among them. Shapes (h,), (n,)."""
    begins, place = np.unique(np.floor((submit_s - zero_s) / HOUR_S), return_inverse=True)
    return zero_s + begins * HOUR_S, place.astype(np.int64)


def cost_of_hours(jobs: Jobs, extra: Extra, zero_s: float = 0.0) -> tuple[Floats, Floats]:
    """Begin of each hour with submissions, and the node-hours of extra wait of the jobs submitted in it. (h,)"""
    begins, place = hour_of(jobs.submit_s, zero_s)
    held = np.where(np.isfinite(extra.wait_s), jobs.nodes * extra.wait_s, 0.0)
    return begins, np.bincount(place, held, len(begins)) / HOUR_S


def worst_hours(jobs: Jobs, extra: Extra, plain_start_s: Floats, zero_s: float = 0.0) -> tuple[Hour, ...]:
    """The hours whose submissions the cap costs most node-hours of waiting, the worst first; none that costs none."""
    begins, cost = cost_of_hours(jobs, extra, zero_s)
    place = hour_of(jobs.submit_s, zero_s)[1]
    found = []
    for row in np.argsort(-cost, kind="stable")[:WORST]:
        if cost[row] <= 0:
            break
        here = (place == row) & np.isfinite(extra.wait_s)
        found.append(
            Hour(
                float(begins[row]),
                int(here.sum()),
                int((extra.wait_s[here] > 0).sum()),
                float(cost[row]),
                float(extra.wait_s[here].mean()),
                float((plain_start_s - jobs.submit_s)[here].mean()),
            )
        )
    return tuple(found)
