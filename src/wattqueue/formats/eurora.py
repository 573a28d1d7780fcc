"""Jobs of Eurora as PA-HPC-SIM publishes them: real jobs, watts by a published predictor, no users."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._source import opened
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import MODELLED, QUALITY, Workload
from wattqueue.model.jobs import Jobs, Labels

COLUMNS = ("job_id", "queue", "submit", "start", "est_hhmm", "n_nodes", "cores_used", "runtime_s", "power_pred_w")
NOTES = (
    "Eurora's watts are a published predictor's, not measured: an error against them is an error against a model.",
    "Eurora's rows name no user: a job's queue stands in for its user.",
    "Eurora's jobs share nodes: the unit is a core, watts are those of one core.",
)


def read_eurora(path: Path) -> Workload:
    """The job table (CSV, also gzipped). Times are read as UTC; the unit is a core.

    Raises: InputError naming what is missing or not a number.

    Reference: A. Borghesi et al., PA-HPC-SIM (Apache-2.0).
    """
    import polars as pl

    with opened(path) as source:
        text = source.read()
    try:
        frame = pl.read_csv(text, columns=list(COLUMNS))
        time = [frame[name].str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms") for name in ("submit", "start")]
        hours = frame["est_hhmm"].str.split_exact(":", 1).struct.unnest().cast(pl.Float64)
    except pl.exceptions.PolarsError as error:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        raise InputError(
            f"is no job table of Eurora: {reason}", where=path, mend=f"needs {', '.join(COLUMNS)}"
        ) from error
    number = {n: frame[n].cast(pl.Float64).fill_null(float("nan")).to_numpy() for n in COLUMNS[-4:]}
    submit, start = (t.to_physical().to_numpy() / 1_000.0 for t in time)
    walltime = hours["field_0"].to_numpy() * 3_600.0 + hours["field_1"].to_numpy() * 60.0
    cores, run = number["cores_used"], number["runtime_s"]
    usable = (cores >= 1) & (run > 0) & (walltime > 0)
    jobs = Jobs.build(
        submit[usable],
        cores[usable],
        run[usable],
        walltime_s=walltime[usable],
        job_id=frame["job_id"].to_numpy()[usable],
        user=Labels.of(frame["queue"].to_numpy()[usable]),
        mean_power_w=number["power_pred_w"][usable] / cores[usable],
        start_s=start[usable],
        extra={"nodes": number["n_nodes"][usable], QUALITY: np.full(int(usable.sum()), MODELLED, object)},
    )
    return Workload(jobs, _unusable(frame["job_id"].to_numpy(), usable), "eurora", len(frame), NOTES)


def _unusable(job_id: NDArray[np.int64], usable: NDArray[np.bool_]) -> Unusable:
    rows = np.flatnonzero(~usable)
    return Unusable(rows + 2, job_id[rows], Labels.of(["no positive size, run time or limit"] * len(rows)))
