"""The figure of queue length and utilization over time.

Both stand in one figure because they explain each other: a long queue beside idle nodes means that power, width or a
reservation holds jobs back; a long queue beside a full machine means load.

A job waits from its submission to its start. A requeued job counts as waiting up to its first start only, because the
schedule keeps the last start; a rejected job never waits (rule 4 of docs/semantics.md).
"""

from __future__ import annotations

import numpy as np

from wattqueue.model.schedule import State
from wattqueue.model.steps import Steps
from wattqueue.report import words
from wattqueue.report.figure import Axis, Bins, Figure, span_of_time, time_axis
from wattqueue.report.run import RunData


def figure(run: RunData) -> Figure:
    """Return the number of waiting jobs and the share of busy units.

    Columns, one row per bin (``figure.Bins``):
        time_s: Begin of the bin, seconds since the first submission.
        waiting_min, waiting_mean, waiting_max: Number of waiting jobs within the bin.
        utilization: Mean share of units that run a job, 0..1.

    Minimum and maximum are exact even where bins are merged, so a short peak of the queue stays visible.
    """
    waiting = queue_length(run)
    events = np.union1d(waiting.time_s, run.busy.time_s)
    bins = Bins.of(events, run.first_s, run.last_s)
    columns = {
        "time_s": bins.edge_s[:-1] - run.first_s,
        "waiting_min": waiting.minima(bins.edge_s),
        "waiting_mean": waiting.means(bins.edge_s),
        "waiting_max": waiting.maxima(bins.edge_s),
        "utilization": run.busy.means(bins.edge_s) / run.units,
    }
    return Figure(
        "queue",
        "Queue and utilization",
        says(run, float(waiting.value.max()), columns["waiting_mean"], bins),
        time_axis(run),
        Axis("jobs waiting"),
        columns,
        {
            "time_s": "from",
            "waiting_min": "min waiting",
            "waiting_mean": "mean waiting",
            "waiting_max": "max waiting",
            "utilization": "busy units",
        },
        {"exact": bins.exact, **span_of_time(run)},
    )


def queue_length(run: RunData) -> Steps:
    """Return the number of jobs submitted and not yet started; one row of 0 where every job was rejected."""
    waits = run.state != State.REJECTED
    starts = run.start_s[waits & np.isfinite(run.start_s)]
    submits = run.jobs.submit_s[waits]
    if not len(submits):
        return Steps(np.array([run.first_s]), np.zeros(1))
    change = np.repeat([1.0, -1.0], [len(submits), len(starts)])
    return Steps.of_changes(np.concatenate((submits, starts)), change)


def says(run: RunData, most: float, mean: np.ndarray, bins: Bins) -> str:
    """Return longest and mean queue, and mean utilization.

    The mean queue is weighted by time; the utilization is busy unit-seconds over unit-seconds from the first
    submission to the end of the run, as the metric of the same name.
    """
    length = np.diff(bins.edge_s)
    average = float((mean * length).sum() / length.sum())
    begin, end = run.span_s
    busy = run.busy.integral(begin, end) / (run.units * (end - begin))
    return (
        f"At most {words.count(most, 'job')} waited at once, {words.figures(average)} on average; "
        f"{words.percent(busy)} of the {words.count(run.units, run.unit)} were busy on average."
    )
