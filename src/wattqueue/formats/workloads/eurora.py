"""Jobs of Eurora as PA-HPC-SIM publishes them: real jobs, watts by a published predictor, no users.

Used by the power-cap study. The unit is a core, since jobs of this machine shared nodes: ``cores_used`` is the
size, and the watts of a job are divided by its cores. ``est_hhmm`` is the limit as hours and minutes. All watts are
the predictor's, so they carry the quality "modelled".

What is read (``COLUMNS``), one row per job:

- ``job_id``: a whole number; ``queue``: the name of the queue, which stands in for the user;
- ``submit``, ``start``: local times such as ``2014-03-31 10:05:22``, read as UTC, since the table states no zone;
- ``est_hhmm``: the walltime, such as ``04:00``; ``runtime_s``: seconds that the job ran;
- ``cores_used``: the size of the job; ``n_nodes``: how many nodes its cores were on, kept as a further column;
- ``power_pred_w``: predicted watts of the whole job.

A row without a usable time, run time, limit or size is left out and listed. A start or watts outside their limits
become unknown, and the job is kept.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.source import opened
from wattqueue.formats.unusable import Unusable, known
from wattqueue.formats.workload import MODELLED, QUALITY, Workload
from wattqueue.formats.workload_format import WorkloadFormat, csv_with
from wattqueue.model.bounds import DURATION_S, TIME_S, UNIT_W, UNITS
from wattqueue.model.jobs import Jobs, Labels

COLUMNS = ("job_id", "queue", "submit", "start", "est_hhmm", "n_nodes", "cores_used", "runtime_s", "power_pred_w")
NOTES = (
    "Eurora's watts are a published predictor's, not measured: an error against them is an error against a model.",
    "Eurora's rows name no user: the queue of a job is used in place of its user.",
    "Eurora's jobs share nodes: the unit is a core, watts are those of one core.",
)


def read_eurora(path: Path) -> Workload:
    """Return the job table (CSV, also gzipped). Times are read as UTC; the unit is a core.

    Jobs come in the order of the file. ``Workload.rows`` counts all rows, the unusable ones included.

    Raises: InputError naming what is missing or not a number.

    Reference: A. Borghesi et al., PA-HPC-SIM (Apache-2.0).
    """
    import polars as pl

    with opened(path) as source:
        text = source.read()
    try:
        frame = pl.read_csv(text, columns=list(COLUMNS))
        # One value of another form makes the cast fail: such a file is not the published table, so it is refused.
        time = [frame[name].str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms") for name in ("submit", "start")]
        hours = frame["est_hhmm"].str.split_exact(":", 1).struct.unnest().cast(pl.Float64)
        ids = frame["job_id"].cast(pl.Int64).to_numpy()
        number = {n: frame[n].cast(pl.Float64).fill_null(float("nan")).to_numpy() for n in COLUMNS[-4:]}
    except pl.exceptions.PolarsError as error:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        raise InputError(
            f"is not a job table of Eurora: {reason}", where=path, hint=f"needs {', '.join(COLUMNS)}"
        ) from error
    # The physical value of a datetime is milliseconds since 1970.
    submit, start = (t.to_physical().to_numpy() / 1_000.0 for t in time)
    walltime = hours["field_0"].to_numpy() * 3_600.0 + hours["field_1"].to_numpy() * 60.0
    # From here on arrays have one entry per row of the table; ``usable`` picks those that become jobs.
    cores, run = number["cores_used"], number["runtime_s"]
    usable = DURATION_S.holds(walltime) & TIME_S.holds(submit) & DURATION_S.holds(run) & UNITS.holds(cores)
    jobs = Jobs.build(
        submit[usable],
        cores[usable],
        run[usable],
        walltime_s=walltime[usable],
        job_id=ids[usable],
        user=Labels.of(frame["queue"].to_numpy()[usable]),
        mean_power_w=known(number["power_pred_w"][usable] / cores[usable], UNIT_W),
        start_s=known(start[usable], TIME_S),
        extra={"nodes": number["n_nodes"][usable], QUALITY: np.full(int(usable.sum()), MODELLED, object)},
    )
    return Workload(jobs, _unusable(ids, usable), "eurora", len(frame), NOTES)


def _unusable(job_id: NDArray[np.int64], usable: NDArray[np.bool_]) -> Unusable:
    """Return the rows without a positive size, run time or limit, by their line in the file; line 1 is the header.

    ``job_id`` and ``usable`` have shape (n,): all rows of the table. One reason stands for all four checks.
    """
    rows = np.flatnonzero(~usable)
    return Unusable(rows + 2, job_id[rows], Labels.of(["no positive size, run time or limit"] * len(rows)))


FORMAT = WorkloadFormat(
    "eurora", "Eurora's job table of PA-HPC-SIM (CSV)", csv_with(*COLUMNS), lambda file, _: read_eurora(file.path)
)
