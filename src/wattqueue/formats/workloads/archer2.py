"""Benchmarks on ARCHER2 at two frequencies, as EPCC publishes them: joules by Slurm, step by step.

Used by the prediction study: the same application at 2.0 GHz and at 2.25 GHz (with turbo), which shows how watts
and run times depend on the frequency. A row is a job step and has no submit time: steps are taken one after the
other, so that everything earlier has ended when a step is predicted. ``.batch`` and ``.extern`` steps are skipped.

What is read (``COLUMNS``):

- ``JobID``: job and step, such as ``3175012.0``;
- ``NNodes``, ``nodes_from_scripts``: nodes of the step as Slurm has them, else as the job script requested them;
- ``ReqCPUFreq``: the requested frequency, as text; it becomes part of the application's name, since a step at
  another frequency has other watts and another run time;
- ``ElapsedRaw``, ``ConsumedEnergyRaw``: seconds, and joules of all nodes of the step together;
- ``app``, ``case``: the program and its input; together they stand in for the user.

Watts of a step are joules / seconds / nodes. The watts are measured: the benchmarks ran on whole nodes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.source import opened
from wattqueue.formats.unusable import Unusable, known
from wattqueue.formats.workload import MEASURED, QUALITY, Workload
from wattqueue.formats.workload_format import WorkloadFormat, csv_with
from wattqueue.model.bounds import DURATION_S, UNIT_W, UNITS
from wattqueue.model.jobs import Jobs, Labels

COLUMNS = ("JobID", "NNodes", "ReqCPUFreq", "ElapsedRaw", "ConsumedEnergyRaw", "app", "case", "nodes_from_scripts")
NOTES = (
    "ARCHER2's rows are job steps with Slurm's joules; their nodes are those of the row, or of its script.",
    "ARCHER2's rows have no submit time: they are taken one after the other, in order of job and step.",
    "ARCHER2's rows are benchmarks of one team: application and case are used in place of the user.",
    "An application at another frequency counts as another one.",
)
STEP = r"^([0-9]+)\.([0-9]+)$"
"""Ids of numbered steps; .batch and .extern count the same joules again (see ``slurm.energy``)."""


def read_archer2(path: Path) -> Workload:
    """Return steps with joules and a known number of nodes (CSV, also gzipped); the others are listed.

    Failed counters are left as they are: what is plausible is for the caller to decide. Only watts outside
    ``bounds.UNIT_W`` become unknown. Steps come in order of job and step; their submit times are the sums of the run
    times before them, in seconds from 0. Lines of unusable steps count from 1, the header.

    Raises: InputError naming what is missing or not a number.

    Reference: EPCC, archer2-frequency-benchmarks.
    """
    import polars as pl

    with opened(path) as source:
        text = source.read()
    # Line 2 of the file is the first row. Steps are picked before numbers are parsed: other rows may hold anything.
    try:
        frame = pl.read_csv(text, columns=list(COLUMNS), infer_schema=False).with_row_index("line", offset=2)
        frame = frame.filter(pl.col("JobID").str.contains(STEP)).with_columns(
            pl.col("JobID").str.extract(STEP, 1).cast(pl.Int64).alias("job"),
            pl.col("JobID").str.extract(STEP, 2).cast(pl.Int64).alias("step"),
            pl.coalesce("NNodes", "nodes_from_scripts").cast(pl.Float64, strict=False).alias("nodes"),
            pl.col("ElapsedRaw", "ConsumedEnergyRaw").cast(pl.Float64),
            pl.concat_str("app", pl.col("case").fill_null(""), separator=" ").str.strip_chars().alias("user"),
            pl.concat_str("app", pl.col("ReqCPUFreq").fill_null(""), separator=" at ").alias("app_at"),
        )
    except pl.exceptions.PolarsError as error:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        raise InputError(
            f"is not a listing of ARCHER2: {reason}", where=path, hint=f"needs {', '.join(COLUMNS)}"
        ) from error
    # Sorted as numbers: as text, step 10 would stand before step 2.
    frame = frame.sort("job", "step")
    # Columns in the order of the steps, NaN for gaps. Shape (n,).
    number = {n: frame[n].fill_null(float("nan")).to_numpy() for n in ("nodes", "ElapsedRaw", "ConsumedEnergyRaw")}
    # Steps without joules or nodes tell nothing about watts.
    usable = UNITS.holds(number["nodes"]) & DURATION_S.holds(number["ElapsedRaw"]) & (number["ConsumedEnergyRaw"] > 0)
    nodes, run = number["nodes"][usable], number["ElapsedRaw"][usable]
    kept = frame.filter(pl.Series(usable))
    # One after the other: everything earlier has ended when a step is predicted.
    submit = np.concatenate(([0.0], np.cumsum(run)[:-1])) if len(run) else run
    jobs = Jobs.build(
        submit,
        nodes,
        run,
        job_id=np.array(kept["JobID"].to_list(), object),
        user=Labels.of(kept["user"].to_list()),
        app=Labels.of(kept["app_at"].to_list()),
        mean_power_w=known(number["ConsumedEnergyRaw"][usable] / run / nodes, UNIT_W),
        extra={
            "frequency": np.array(kept["ReqCPUFreq"].to_list(), object),
            QUALITY: np.full(len(run), MEASURED, object),
        },
    )
    out = frame.filter(pl.Series(~usable))
    # One reason per step: a known number of nodes leaves joules (or a run time of 0) as the fault.
    reasons = np.where(number["nodes"][~usable] >= 1, "no joules", "unknown number of nodes")
    listed = Unusable(
        out["line"].to_numpy().astype(np.int64), np.array(out["JobID"].to_list(), object), Labels.of(reasons)
    )
    return Workload(jobs, listed, "archer2", len(frame), NOTES)


FORMAT = WorkloadFormat(
    "archer2",
    "EPCC's frequency benchmarks on ARCHER2 (CSV)",
    csv_with(*COLUMNS),
    lambda file, _: read_archer2(file.path),
)
