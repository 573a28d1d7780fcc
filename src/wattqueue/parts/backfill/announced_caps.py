"""Start jobs in queue order, none that would exceed a cap announced for later (PAS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wattqueue.errors import InputError, PolicyError
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.contracts import Floats, Start

if TYPE_CHECKING:
    from wattqueue.policy.view import View

COLUMN = "capped_windows"
"""Column of ``Jobs.extra``: 1 where a job may run while a cap is in force, 0 where it may not.

It may where the column does not exist, or is NaN."""


class AnnouncedCaps:
    """Look ahead to announced caps: a job that reaches into one must fit it beside what already runs into it.

    Entries are tried in queue order, each at the highest frequency of its window at which it fits now and at the begin
    of every announced cap before its planned end. What counts there are the predicted watts of jobs whose expected end
    is later, of the jobs that start in this pass, and the idle watts of today. Where a job ends later at a lower
    frequency, it may reach into a cap that it would not reach at a higher one; each frequency is tested by itself.

    The first entry that does not start ends the pass, or with ``overtake`` is passed over: nothing is reserved.

    Jobs whose user wants no capped window (column ``capped_windows``) start only where no finite cap is in force until
    their planned end.

    Raises: PolicyError for ``overtake`` that is no truth value.
    Reference: paper 3, section 4.1, and rule 13 of docs/semantics.md; the text says that a cap may be set for a future
    window and that users decide (section 2), not how jobs are planned for it: assumed.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("announcements",)

    def __init__(self, *, overtake: bool = False) -> None:
        if not isinstance(overtake, bool):
            raise PolicyError(f"overtake is {overtake!r}", where="announced-caps", hint="true or false")
        self.overtake = overtake

    def schedule(self, view: View) -> Sequence[Start]:
        """Return what starts now, in order."""
        queue = view.queue.tolist()
        if not queue:
            return []
        ahead = _Ahead.of(view)
        capped = willing(view.jobs)
        free, starts, begun = view.free.copy(), [], set()
        for entry in queue:
            job, p = view.entry_job(entry), view.entry_partition(entry)
            if job in begun:
                continue
            size = int(view.jobs.nodes[job])
            option = ahead.highest(view, entry, capped=bool(capped[job])) if size <= free[p] else -1
            if option >= 0:
                ahead.take(view, job, option)
                free[p] -= size
                begun.add(job)
                starts.append(Start(entry, option))
            elif not self.overtake:
                break
        return starts


@dataclass(slots=True, eq=False)
class _Ahead:
    """Watts that are free now, and at the begin of each announced cap. Shapes (k,)."""

    now_w: float
    time_s: Floats
    free_w: Floats
    finite: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @classmethod
    def of(cls, view: View) -> _Ahead:
        """Sum up what runs now, and what of it is planned to run still when each cap comes."""
        time_s, cap_w = view.announced_caps
        running = view.running
        net_w = np.array([view.net_watts(int(job), view.job_option(int(job))) for job in running])
        end_s = view.expected_end_s[running]
        there = np.array([net_w[end_s > at].sum() for at in time_s])
        return cls(view.available_w, time_s, cap_w - view.base_w - there, np.isfinite(cap_w))

    def highest(self, view: View, entry: int, *, capped: bool) -> int:
        """Return the first option of an entry that fits now and later, -1 for none."""
        job = view.entry_job(entry)
        for option in view.entry_options(entry):
            net_w = view.net_watts(job, option)
            reached = self.time_s < view.now_s + view.planned_s(job, option)
            if not capped and (np.isfinite(view.cap_w) or self.finite[reached].any()):
                continue
            if net_w <= self.now_w and (net_w <= self.free_w[reached]).all():
                return option
        return -1

    def take(self, view: View, job: int, option: int) -> None:
        """Count a job that starts now."""
        net_w = view.net_watts(job, option)
        self.now_w -= net_w
        self.free_w[self.time_s < view.now_s + view.planned_s(job, option)] -= net_w


def willing(jobs: KnownJobs) -> Floats:
    """Return which jobs may run under a cap. Shape (n,). Raises: InputError for what is neither 0 nor 1."""
    stated = jobs.extra.get(COLUMN)
    if stated is None:
        return np.ones(len(jobs))
    column = np.asarray(stated, np.float64)
    column = np.where(np.isnan(column), 1.0, column)
    bad = (column != 0) & (column != 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{column[row]:g} is neither 0 nor 1", where=f"column {COLUMN}, row {row + 1}")
    return column
