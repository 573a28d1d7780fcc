"""CSV of counters: one row per reading, ``time_s``, perhaps ``socket``, ``active_cores`` and ``watts``, then events.

Columns with other names are events. They hold readings of running counters, which only grow and wrap (the default),
or, with ``cumulative=False``, the events of each interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.counters import COUNTER_BITS, CounterTrace, increments

FIXED = ("time_s", "socket", "active_cores", "watts")
"""Columns that are no events."""


@dataclass(frozen=True, slots=True, eq=False)
class SocketReadings:
    """Counters of one socket, with what was recorded beside them; None where the file has no such column.

    Attributes:
        counters: Events in each interval.
        active_cores: Mean active cores in each interval. Shape (t,).
        watts: Watts of the socket in each interval. Shape (t,).
    """

    counters: CounterTrace
    active_cores: Floats | None
    watts: Floats | None


def read_counters_csv(path: Path, *, cumulative: bool = True, bits: int = COUNTER_BITS) -> dict[int, SocketReadings]:
    """Return the counters of each socket (CSV, also gzipped).

    Args:
        path: The file.
        cumulative: Whether events are readings of running counters; the first row is then the start.
        bits: Width of the counters, at which readings wrap.

    Raises: InputError naming file and column for missing columns, a counter that was set back, times that do not
    ascend, and fewer than two readings of a running counter.
    """
    names: list[str] = []

    def check(where: str, found: list[str]) -> None:
        names.extend(found)
        if "time_s" not in found or not set(found) - set(FIXED):
            raise InputError("needs time_s and a column per event", where=where, hint="header: time_s,cycles,...")
        if len(set(found)) < len(found):
            raise InputError("a column occurs twice", where=where, hint="name each event once")

    # All columns are numbers, and ``csv_records.read`` wants their names before it parses rows.
    header = next(csv_records.records(path, csv_records.first_comments(path)), (1, []))[1]
    frame, _ = csv_records.read(path, check, [n.strip() for n in header])
    column = {n: frame[n].to_numpy() for n in names}
    socket = column.get("socket", np.zeros(len(frame)))
    if not np.isfinite(socket).all() or not np.isfinite(column["time_s"]).all():
        raise InputError("a row without time or socket", where=path, hint="complete the row")
    events = [n for n in names if n not in FIXED]
    return {
        int(s): _of_socket({n: v[socket == s] for n, v in column.items()}, events, cumulative, bits, path)
        for s in np.unique(socket)
    }


def _of_socket(
    column: dict[str, NDArray[np.float64]], events: list[str], cumulative: bool, bits: int, path: Path
) -> SocketReadings:
    """Return the rows of one socket. Raises: InputError."""
    time_s, first = column["time_s"], int(cumulative)
    if not (np.diff(time_s) > 0).all():
        raise InputError("times do not ascend", where=f"{path}, column time_s", hint="sort the rows by time")
    if len(time_s) < 1 + first:
        raise InputError("fewer than two readings", where=path, hint="a running counter needs two")
    counts = {}
    for name in events:
        values = column[name]
        if not cumulative:
            counts[name] = values
            continue
        if not np.isfinite(values).all() or (values >= 2.0**63).any() or (values < 0).any():
            raise InputError(
                "a gap, a negative reading or one of 2**63 or more", where=f"{path}, column {name}", hint="see --bits"
            )
        counts[name] = increments(values.astype(np.int64), bits, f"{path}, column {name}")
    cores, watts = (column[n][first:] if n in column else None for n in ("active_cores", "watts"))
    return SocketReadings(CounterTrace(time_s[first:], counts), cores, watts)
