"""Benchmarks on ARCHER2 at two frequencies, as EPCC publishes them: joules by Slurm, step by step."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats._source import opened
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import MEASURED, QUALITY, Workload
from wattqueue.model.jobs import Jobs, Labels

COLUMNS = ("JobID", "NNodes", "ReqCPUFreq", "ElapsedRaw", "ConsumedEnergyRaw", "app", "case", "nodes_from_scripts")
NOTES = (
    "ARCHER2's rows are job steps with Slurm's joules; their nodes are those of the row, or of its script.",
    "ARCHER2's rows have no submit time: they are taken one after the other, in order of job and step.",
    "ARCHER2's rows are benchmarks of one team: application and case stand in for the user.",
    "An application at another frequency counts as another one.",
)
STEP = r"^(\d+)\.(\d+)$"


def read_archer2(path: Path) -> Workload:
    """Steps with joules and a known number of nodes (CSV, also gzipped); the others are listed.

    Counter glitches are left as they are: what is plausible is the reader's to say.

    Raises: InputError naming what is missing or not a number.

    Reference: EPCC, archer2-frequency-benchmarks.
    """
    import polars as pl

    with opened(path) as source:
        text = source.read()
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
            f"is no listing of ARCHER2: {reason}", where=path, mend=f"needs {', '.join(COLUMNS)}"
        ) from error
    frame = frame.sort("job", "step")
    number = {n: frame[n].fill_null(float("nan")).to_numpy() for n in ("nodes", "ElapsedRaw", "ConsumedEnergyRaw")}
    usable = (number["nodes"] >= 1) & (number["ElapsedRaw"] > 0) & (number["ConsumedEnergyRaw"] > 0)
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
        mean_power_w=number["ConsumedEnergyRaw"][usable] / run / nodes,
        extra={
            "frequency": np.array(kept["ReqCPUFreq"].to_list(), object),
            QUALITY: np.full(len(run), MEASURED, object),
        },
    )
    out = frame.filter(pl.Series(~usable))
    reasons = np.where(number["nodes"][~usable] >= 1, "no joules", "number of nodes not known")
    listed = Unusable(
        out["line"].to_numpy().astype(np.int64), np.array(out["JobID"].to_list(), object), Labels.of(reasons)
    )
    return Workload(jobs, listed, "archer2", len(frame), NOTES)
