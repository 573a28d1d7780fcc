"""CSV of activity: one row per interval of a process on a socket, with its watts where they were measured.

    # wattqueue activity schema_version=1
    app,process,socket,time_s,active_cores,fetch,branch,alu,fp,l1,l2,l3,memory,watts
    cholesky,0,s0001,1,16,1.9,0.1,1.1,0.8,0.7,0.05,0.01,0.002,101.4

``wattqueue pmc ratios`` writes such a table, ``wattqueue pmc predict`` reads one of the training kernels and one of the
applications. Files may be joined by appending rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from wattqueue.formats import csv_records
from wattqueue.formats.atomic_write import atomic_write
from wattqueue.model.bounds import UNIT_W
from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.activity import ActivityTrace, SocketRun
from wattqueue_studies.pmc.events import LEVELS

COLUMNS = ("app", "process", "socket", "time_s", *LEVELS, "watts")
"""Header; ``watts`` may be empty."""
MOST_PROCESSES = 10_000_000
"""Greatest number of a process."""
MOST_LEVEL = 1e6
"""Greatest level: events per cycle are below ten, active cores below a thousand."""
LEAST_W = 1e-3
"""Least watts: errors are stated as shares of them."""
NUMBERS = ("process", "time_s", *LEVELS, "watts")


def read_activity(path: Path) -> list[SocketRun]:
    """Return the runs of a table of activity (CSV, also gzipped), in the order of their first rows.

    Raises: InputError naming file, line and column for missing columns, and levels that are negative or missing.
    """
    frame, _ = csv_records.read(path, csv_records.having(COLUMNS[:-1]), NUMBERS)
    level = frame.select(LEVELS).to_numpy()
    counted = np.asarray(((level >= 0) & (level <= MOST_LEVEL)).all(axis=1))
    csv_records.require_rows(path, counted, f"an activity is missing, negative or above {MOST_LEVEL:g}")
    watts: Floats = frame["watts"].to_numpy() if "watts" in frame.columns else np.full(len(frame), np.nan)
    drawn = np.asarray(np.isnan(watts) | ((watts >= LEAST_W) & (watts <= UNIT_W.high)))
    csv_records.require_rows(
        path, drawn, "watts that no socket draws", f"{LEAST_W:g} to {UNIT_W.high:g}, or leave them empty"
    )
    process = frame["process"].fill_nan(0.0).to_numpy()
    whole = (process >= 0) & (process <= MOST_PROCESSES) & (process == np.floor(process))
    csv_records.require_rows(path, whole, "process is no whole number", f"0 to {MOST_PROCESSES:,}")
    named = (frame["app"].fill_null("") != "") & (frame["socket"].fill_null("") != "")
    csv_records.require_rows(path, named.to_numpy(), "a row without app or socket", "name both")
    time_s = frame["time_s"].to_numpy()
    rows: dict[tuple[str, int, str], list[int]] = {}
    keys = zip(frame["app"].to_list(), process.astype(np.int64).tolist(), frame["socket"].to_list(), strict=True)
    for row, (app, which, socket) in enumerate(keys):
        rows.setdefault((app, which, socket), []).append(row)
    return [
        SocketRun(socket, ActivityTrace(app, time_s[at], level[at], which), watts[at])
        for (app, which, socket), at in rows.items()
    ]


def write_activity(path: Path, runs: Iterable[SocketRun]) -> None:
    """Write runs as a table. Raises: OutputError."""
    import polars as pl

    frames = [
        pl.DataFrame(
            {
                "app": [run.trace.name] * len(run.trace.level),
                "process": run.trace.process,
                "socket": run.socket,
                "time_s": run.trace.time_s,
                **{name: run.trace.level[:, k] for k, name in enumerate(LEVELS)},
                "watts": pl.Series(run.watts, dtype=pl.Float64).fill_nan(None),
            },
            schema_overrides={"process": pl.Int64},
        )
        for run in runs
    ]
    with atomic_write(path) as temporary:
        csv_records.write(temporary, pl.concat(frames), "wattqueue activity", {"schema_version": "1"})
