"""Running jobs that outlive their planned time: when the next one does, and what is planned for it then.

Rule 3 of docs/semantics.md: a job that still runs when its planned time is over gets a new one, by the rule that the
policy's run-time part states (``correction``). It is an event directly after the completions of that instant. A job
that is planned at its walltime cannot be corrected further.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, kernel, separate
from wattqueue.kernels.running import running_insert, running_net, running_remove
from wattqueue.kernels.state import KernelView

INF = float("inf")
STEPS_S = (0.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0, 72000.0, 180000.0, 360000.0)
"""Seconds that the k-th correction in steps adds to the prediction; behind the last one the walltime holds."""


@kernel
def next_overrun(view: KernelView) -> int:
    """Return the running job whose planned time is over first, of those not planned at their walltimes; -1 for none.

    Rows stand by expected end, so the first one found is the first to be over.
    """
    running = view.running
    for at in range(view.now.blocks):
        block = as_int64(running.order[at])
        for k in range(running.filled[block]):
            job = as_int64(running.job[block, k])
            if view.planned.seconds[job] < view.walltime[job]:
                return int(job)
    return -1


@separate
def overrun_time(view: KernelView) -> float:
    """Return when the next planned time is over that can be corrected, inf for none."""
    job = next_overrun(view)
    return INF if job < 0 else float(view.held.end[job])


@kernel
def corrected_s(view: KernelView, job: int) -> float:
    """Return the planned seconds at reference speed that follow the present ones of a job which outlived them."""
    limit = float(view.walltime[job])
    k = view.planned.overruns[job]
    if view.now.correction != codes.STEPS_AT_OVERRUN or k + 1 >= len(STEPS_S):
        return limit
    return min(limit, float(view.planned.seconds[job]) - STEPS_S[k] + STEPS_S[k + 1])


@separate
def correct_overruns(view: KernelView) -> None:
    """Give every running job whose planned time is over a new one, until none is over that can be corrected."""
    job = as_int64(next_overrun(view))
    while job >= 0 and view.held.end[job] <= view.now.time_s:
        net = as_int64(running_net(view, job))
        running_remove(view, job)
        seconds = corrected_s(view, job)
        view.held.end[job] += (seconds - view.planned.seconds[job]) * view.held.factor[job]
        view.planned.seconds[job] = seconds
        view.planned.overruns[job] += 1
        running_insert(view, job, net)
        view.now.dirty = 1
        job = as_int64(next_overrun(view))
