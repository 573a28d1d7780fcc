"""Queue length and utilization over time."""

from __future__ import annotations

import numpy as np

from wattqueue.model.schedule import State
from wattqueue.report import words
from wattqueue.report.figure import Axis, Figure, time_axis
from wattqueue.report.run import Run
from wattqueue.report.steps import Bins, pulses


def figure(run: Run) -> Figure:
    """Jobs that wait, and the share of units that are busy."""
    time, waiting = queue_length(run)
    series = run.series
    events = np.union1d(time, series.time_s)
    bins = Bins.of(events, run.first_s, run.last_s)
    columns = {
        "time_s": bins.edge_s[:-1] - run.first_s,
        "waiting_min": bins.least(time, waiting),
        "waiting_mean": bins.mean(time, waiting),
        "waiting_max": bins.greatest(time, waiting),
        "utilization": bins.mean(series.time_s, series.busy_units / run.units),
    }
    return Figure(
        "queue",
        "Queue and utilization",
        says(run, float(waiting.max(initial=0)), columns["waiting_mean"], bins),
        time_axis(run),
        Axis("jobs waiting"),
        columns,
        {
            "time_s": "from",
            "waiting_min": "least waiting",
            "waiting_mean": "mean waiting",
            "waiting_max": "most waiting",
            "utilization": "busy units",
        },
        {"exact": bins.exact, "end_s": run.last_s - run.first_s},
    )


def queue_length(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Jobs submitted and not yet started, as a step series; rejected jobs never wait."""
    waits = run.state != State.REJECTED
    starts = run.start_s[waits & np.isfinite(run.start_s)]
    submits = run.jobs.submit_s[waits]
    if not len(submits):
        return np.array([run.first_s]), np.zeros(1)
    return pulses(np.concatenate((submits, starts)), np.repeat([1.0, -1.0], [len(submits), len(starts)]))


def says(run: Run, most: float, mean: np.ndarray, bins: Bins) -> str:
    """Longest and mean queue, and how busy the machine was."""
    length = np.diff(bins.edge_s)
    average = float((mean * length).sum() / length.sum())
    series = run.series
    held = np.diff(series.time_s)
    busy = float((series.busy_units[:-1] * held).sum() / (run.units * max(run.last_s - run.first_s, 1e-9)))
    return (
        f"At most {words.count(most, 'job')} waited at once, {words.figures(average)} in the mean; "
        f"{words.percent(busy)} of the {words.count(run.units, run.unit)} were busy in the mean."
    )
