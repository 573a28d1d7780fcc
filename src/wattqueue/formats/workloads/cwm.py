"""Traffic of cwm-simulator, which paper 2 ran: submissions of applications on sockets, without run times and watts.

The run time of a job is not published: its estimate counts as run time and as limit. ``workload.variability.traffic``
adds generated watts. The unit is a socket.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import WorkloadFormat, csv_with
from wattqueue.model.bounds import DURATION_S, TIME_S, UNITS
from wattqueue.model.jobs import Jobs, Labels

COLUMNS = ("job_id", "submit_s", "app", "sockets", "estimated_s")
NOTES = (
    "Run times are not published: each job runs as long as its estimate, which is its limit too.",
    "The unit is a socket.",
)


def read_cwm(path: Path) -> Workload:
    """Return the jobs of a traffic (CSV, also gzipped) in the order of the file.

    Rows without id, application, size or estimate are listed.

    Raises: InputError naming what is missing or not a number, and for a file without a usable job.

    Reference: D. Chasapis, cwm-simulator.
    """
    from wattqueue.formats import csv_records

    frame, _ = csv_records.read(path, csv_records.having(COLUMNS), ("submit_s", "sockets", "estimated_s"))
    submit, sockets, run = (frame[n].to_numpy() for n in ("submit_s", "sockets", "estimated_s"))
    named = (frame["app"].is_not_null() & frame["job_id"].is_not_null()).to_numpy()
    usable = TIME_S.holds(submit) & UNITS.holds(sockets) & DURATION_S.holds(run) & named
    if not usable.any():
        raise InputError(f"0 usable jobs in {len(frame)} rows", where=path, hint=f"header: {','.join(COLUMNS)}")
    ids = frame["job_id"].fill_null("").to_numpy()
    jobs = Jobs.build(
        submit[usable],
        sockets[usable],
        run[usable],
        job_id=ids[usable],
        app=Labels.of(frame["app"].fill_null("").to_numpy()[usable]),
    )
    out = np.flatnonzero(~usable)
    reasons = Labels.of(["no id, no application, or no positive size or estimate"] * len(out))
    return Workload(jobs, Unusable(out + 2, ids[out], reasons), "cwm", len(frame), NOTES)


FORMAT = WorkloadFormat(
    "cwm", "a traffic of paper 2's simulator (CSV)", csv_with(*COLUMNS), lambda file, _: read_cwm(file.path)
)
