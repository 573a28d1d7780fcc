"""The real date of a trace's time 0: from its file, or from a date as people write it.

Traces count seconds from their own beginning, prices and carbon intensities have dates. The epoch of a trace is the
Unix time of its second 0, with which the two are put on one clock: trace seconds + epoch = Unix seconds. Where it is
unknown, a series with dates cannot be used (``series``).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.source import opened, shown
from wattqueue.formats.workloads.swf import read_header
from wattqueue.model.jobs import Floats

DATED_FROM_S = 631_152_000.0
"""1 January 1990 in Unix time: a trace that begins later than this counts in Unix time."""
SWF_KEY = "UnixStartTime"
"""The header comment of an SWF trace that holds its epoch."""
HEAD_BYTES = 1 << 18
"""How much of a trace is searched for that comment."""


def trace_epoch_s(path: Path, submit_s: Floats) -> float | None:
    """Return the Unix time of the trace's second 0, None where it is unknown.

    ``submit_s`` are the submissions of the trace. 0 for a trace that counts in Unix time: its first submission
    would otherwise be 20 years after its beginning. Else ``UnixStartTime`` of an SWF header, if it is plausible
    (some traces have 0 there, for unknown).

    Raises: InputError where the file cannot be read.
    """
    if len(submit_s) and float(submit_s.min()) >= DATED_FROM_S:
        return 0.0
    with opened(path) as source:
        block = source.read(HEAD_BYTES)
    # Only SWF has comments that begin with a semicolon; no other format is searched for an epoch.
    if not block.lstrip().startswith(b";"):
        return None
    try:
        found = float(read_header(block).get(SWF_KEY, "").split()[0])
    except (ValueError, IndexError):
        return None
    return found if found >= DATED_FROM_S else None


def epoch_of(workload: str, submit_s: Floats, start: str | None) -> float | None:
    """Return the Unix time of a workload's 0, None where it is unknown. ``submit_s``: its submissions.

    ``start`` (``--start``) is the date of time 0. A trace whose own clock is Unix time (epoch 0) is moved instead, so
    that its first submission falls on that date. Generated workloads, and jobs that a program made, have no date of
    their own.

    Raises: InputError for a text that is no date, or a trace that cannot be read.
    """
    path = Path(workload)
    own = trace_epoch_s(path, submit_s) if path.is_file() else None
    if start is None:
        return own
    begin = parse_date(start, "--start")
    # A trace in Unix time is moved as a whole, so that its first submission falls on the date.
    return begin - float(submit_s.min()) if own == 0.0 else begin


def parse_date(text: str, option: str) -> float:
    """Return the Unix time of an ISO 8601 date; without an offset it is UTC. Raises: InputError."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{shown(text)} is not a date",
            where=option,
            hint="write it like 2023-01-01T00:00+01:00 (without offset: UTC)",
        ) from error


def date_words(unix_s: float) -> str:
    """Return a date as people read it: ``Mon 2023-01-02 14:00 UTC``."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%a %Y-%m-%d %H:%M UTC")
