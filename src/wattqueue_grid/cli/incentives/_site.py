"""The site of a design or an offer from the options of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattqueue.runs.task import Task
    from wattqueue_grid.incentives.site_runs import SimulatedSite


def site_of(task: Task, start: str | None) -> tuple[SimulatedSite, float | None]:
    """Return the site of a task, and the Unix time of the clock's 0, None where it is not known.

    Raises: InputError, MachineError or PolicyError as ``runs.perform.load``.
    """
    from wattqueue.formats.epoch import parse_date, trace_epoch_s
    from wattqueue.runs.perform import load
    from wattqueue_grid.incentives.site_runs import SimulatedSite

    inputs = load(task)
    path = Path(task.workload)
    epoch = parse_date(start, "--start") if start is not None else None
    if epoch is None and path.is_file():
        epoch = trace_epoch_s(path, inputs.jobs.submit_s)
    site = SimulatedSite(inputs.jobs, inputs.machine, task.policy, inputs.cap, epoch or 0.0)
    return site, epoch
