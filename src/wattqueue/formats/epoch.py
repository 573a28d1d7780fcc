"""The real date of a trace's time 0: what its file says of it, and dates as people write them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats._source import opened, shown
from wattqueue.formats.swf import read_header
from wattqueue.model.jobs import Floats

DATED_FROM_S = 631_152_000.0
"""1 January 1990 in Unix time: a trace that begins later than this counts in Unix time."""
SWF_KEY = "UnixStartTime"
HEAD_BYTES = 1 << 18


def trace_epoch_s(path: Path, submit_s: Floats) -> float | None:
    """Unix time of the trace's 0, None where nobody knows.

    0 for a trace that counts in Unix time (its first submission would else be 20 years after its beginning);
    ``UnixStartTime`` of an SWF header.

    Raises: InputError where the file cannot be read.
    """
    if len(submit_s) and float(submit_s.min()) >= DATED_FROM_S:
        return 0.0
    with opened(path) as source:
        block = source.read(HEAD_BYTES)
    if not block.lstrip().startswith(b";"):
        return None
    try:
        found = float(read_header(block).get(SWF_KEY, "").split()[0])
    except (ValueError, IndexError):
        return None
    return found if found >= DATED_FROM_S else None


def parse_date(text: str, option: str) -> float:
    """Unix time of an ISO 8601 date; without an offset it is UTC. Raises: InputError."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{shown(text)} is no date", where=option, mend="write it like 2023-01-01T00:00+01:00 (without offset: UTC)"
        ) from error


def date_words(unix_s: float) -> str:
    """``Mon 2023-01-02 14:00 UTC``."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%a %Y-%m-%d %H:%M UTC")
