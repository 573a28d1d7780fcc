"""``replay``: the schedule of a run or of a live recording once more, without a policy (``sim/replay.py``)."""

from __future__ import annotations

from pathlib import Path

from wattqueue.api.inputs import PathLike, of_arguments, text
from wattqueue.api.jobs import JobsLike, job_table
from wattqueue.api.run import RunResult
from wattqueue.api.simulate import CAP_HINT
from wattqueue.model.signals import Cap
from wattqueue.runs.replay import perform_replay, read_source, source_of, workload_of
from wattqueue.sim.replay import Starts


@of_arguments
def replay(
    schedule: RunResult | PathLike,
    jobs: JobsLike | None = None,
    *,
    starts: Starts = "places",
    cap: str | Cap | None = None,
) -> RunResult:
    """Replay a recorded schedule: submissions and places as they were, no policy.

    The figures are those of ``wattqueue replay``. A cap delays nothing: the metrics show its excess.

    Args:
        schedule: A run, the folder of one, or the recording of a live controller.
        jobs: Workload that gives run times and watts, matched by job id. None takes those of the record.
        starts: ``"places"``: each job starts as early as its units are free; ``"recorded"``: start times are fixed too.
        cap: Cap that the power is compared with, as ``simulate`` takes it. None takes the record's.

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        again = wq.replay("run", starts="recorded")
        again.metrics["machine_energy_j"]
    """
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
