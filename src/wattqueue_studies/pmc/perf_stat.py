"""Output of ``perf stat -x, -I 1000 -a --per-socket``: counts of events per interval and socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.perf_stat import RECORD, PerfCount, count_of_line
from wattqueue.formats.source import line_blocks
from wattqueue_studies.pmc.counters import CounterTrace


def read_perf_stat(path: Path) -> dict[int, CounterTrace]:
    """Return the counts of each socket; a file without ``--per-socket`` has socket 0 alone.

    Raises: InputError naming file and line for what is no line of perf, per-CPU output, an event that occurs twice in
    an interval, and time stamps that go back.
    """
    found: dict[int, dict[float, dict[str, PerfCount]]] = {}
    for count in _counts(path):
        intervals = found.setdefault(count.socket, {})
        if count.time_s not in intervals and intervals and count.time_s < next(reversed(intervals)):
            raise InputError("the time goes back", where=f"{path}:{count.line}", hint="one recording per file")
        interval = intervals.setdefault(count.time_s, {})
        if count.event in interval:
            raise InputError(f"event {count.event} occurs twice", where=f"{path}:{count.line}", hint=RECORD)
        interval[count.event] = count
    if not found:
        raise InputError("no counts", where=path, hint=RECORD)
    return {socket: _trace(intervals) for socket, intervals in sorted(found.items())}


def _trace(intervals: dict[float, dict[str, PerfCount]]) -> CounterTrace:
    """Return the counts of one socket as columns; an event that an interval lacks is a gap there."""
    events = dict.fromkeys(event for interval in intervals.values() for event in interval)
    rows = list(intervals.values())
    counts = {e: np.array([row[e].value if e in row else np.nan for row in rows]) for e in events}
    scaled = np.mean([any(c.scaled for c in row.values()) for row in rows])
    return CounterTrace(np.array(list(intervals)), counts, float(scaled))


def _counts(path: Path) -> Iterator[PerfCount]:
    """Yield the count of each line. Raises: InputError."""
    for first, block in line_blocks(path):
        for line, raw in enumerate(block.decode("utf-8", "replace").splitlines(), start=first):
            text = raw.strip()
            if text and not text.startswith("#"):
                yield count_of_line(text, path, line)
