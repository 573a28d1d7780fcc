"""``replay``: the schedule of a run or of a live recording once more, without a policy (``sim/replay.py``)."""

from __future__ import annotations

from pathlib import Path

from wattqueue.api.inputs import of_options, text
from wattqueue.api.jobs import job_table
from wattqueue.api.run import RunResult
from wattqueue.api.simulate import CAP_HINT
from wattqueue.model.signals import Cap
from wattqueue.runs.options import ReplayOptions
from wattqueue.runs.replay import perform_replay, read_source, source_of, workload_of


@of_options(ReplayOptions)
def replay(options: ReplayOptions) -> RunResult:
    """Replay a recorded schedule: submissions and places as they were, no policy.

    The figures are those of ``wattqueue replay``. A cap delays nothing: the metrics show its excess. Starts are
    ``"places"`` (each job starts as early as its units are free) or ``"recorded"`` (start times are fixed too).

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        again = wq.replay("run", starts="recorded")
        again.metrics["machine_energy_j"]
    """
    schedule, jobs, starts, cap = options.schedule, options.jobs, options.starts, options.cap
    if isinstance(schedule, RunResult):
        source = source_of(schedule.record)
    else:
        source = read_source(Path(text(schedule, "schedule", "a run, its folder, or a live recording")))
    limit = cap if cap is None or isinstance(cap, Cap) else text(cap, "cap", CAP_HINT)
    if jobs is None:
        kept, notes = perform_replay(source, starts=starts, cap=limit)
    elif isinstance(jobs, str):
        kept, notes = perform_replay(source, jobs=workload_of(source, jobs), starts=starts, cap=limit, workload=jobs)
    else:
        table = job_table(jobs)
        kept, notes = perform_replay(source, jobs=table.workload.jobs, starts=starts, cap=limit, workload=table.name)
    return RunResult(kept, notes)
