"""Withdrawals of consent from CSV: when, and of which user or job.

::

    time_s,user,job_id
    37800,ada,
    39000,,4711

Times are on the clock of the jobs. Each row has a user or a job.
"""

from __future__ import annotations

from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats._csv import NUMBER, first_comments, records
from wattqueue.formats.source import shown
from wattqueue.model.bounds import TIME_S

COLUMNS = ["time_s", "user", "job_id"]


def read_withdrawals(path: Path) -> list[tuple[float, str, str]]:
    """Return (time, user, job) of each row. Raises: InputError naming file and line."""
    rows = records(path, first_comments(path))
    line, names = next(rows, (1, []))
    if [name.strip() for name in names] != COLUMNS:
        raise InputError(f"columns {shown(','.join(names))}", where=f"{path}:{line}", hint="write time_s,user,job_id")
    found = []
    for line, fields in rows:
        where = f"{path}:{line}"
        if len(fields) != len(COLUMNS):
            raise InputError(f"{len(fields)} fields, {len(COLUMNS)} columns", where=where, hint="correct the line")
        time, user, job = (field.strip() for field in fields)
        if not NUMBER.fullmatch(time):
            raise InputError(f"time_s is {shown(time)}, not a number", where=where, hint="seconds on the jobs' clock")
        if bool(user) == bool(job):
            raise InputError("needs a user or a job", where=where, hint="leave the other field empty")
        found.append((TIME_S.require(float(time), "time_s", where=where), user, job))
    return found
