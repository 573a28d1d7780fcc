"""Counts of events over time, from CSV of counters, ``perf stat`` or ``mpstat``.

Columns with other names are events. They hold readings of running counters, which only grow and wrap (the default),
or, with ``cumulative=False``, the events of each interval.

Counts of events over time, and readings of counters that wrap.

``read_perf_stat`` reads the output of ``perf stat -x, -I 1000 -a --per-socket``: counts of events per interval and
socket.

``read_mpstat`` reads the output of ``mpstat -P ALL 1``: mean active cores in each interval.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.formats.perf_stat import RECORD, PerfCount, count_of_line
from wattqueue.formats.source import line_blocks, opened, shown
from wattqueue.model.jobs import Floats
from wattqueue.model.plain_numbers import is_whole, number_of

COUNTER_BITS = 48
"""Width of Intel's general-purpose counters (SDM volume 3B, section 20.2.2)."""


@dataclass(frozen=True, slots=True, eq=False)
class CounterTrace:
    """Events counted in t intervals on one socket.

    Attributes:
        time_s: End of each interval, seconds, ascending. Shape (t,).
        counts: Events in each interval by name, NaN where an event was not counted. Shapes (t,).
        multiplexed: Share of intervals in which perf had to scale a count, since events shared a counter.
    """

    time_s: Floats
    counts: Mapping[str, Floats]
    multiplexed: float = 0.0

    def __len__(self) -> int:
        return len(self.time_s)


def increments(readings: NDArray[np.integer], bits: int = COUNTER_BITS, where: str = "counter") -> Floats:
    """Return the events between successive readings of a counter that wraps at 2**bits. Shape (t,) -> (t - 1,).

    A reading below the one before means that the counter wrapped once. More than half of the range in one interval
    cannot be told from a counter that was set back, so it is refused: at 3 GHz, half of 48 bits is 13 hours.

    Raises: InputError for a reading outside 0 .. 2**bits - 1, and for a counter that was set back.
    """
    values = np.asarray(readings)
    if len(values) and (int(values.min()) < 0 or int(values.max()) >= 2**bits):
        raise InputError(f"a reading is outside 0 to 2**{bits} - 1", where=where, hint="state the counter's bits")
    # Wrapping subtraction of unsigned integers, reduced to the counter's width.
    unsigned = values.astype(np.uint64)
    steps = (unsigned[1:] - unsigned[:-1]) & np.uint64((1 << bits) - 1)
    back = np.flatnonzero(steps > np.uint64(1 << (bits - 1)))
    if len(back):
        raise InputError(
            f"the counter was set back between readings {back[0] + 1} and {back[0] + 2}",
            where=where,
            hint="cut the recording there",
        )
    found: Floats = steps.astype(np.float64)
    return found


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


RECORD_MPSTAT = "record with: mpstat -P ALL 1"


def read_mpstat(path: Path, cpus: Collection[int] | None = None) -> Floats:
    """Return mean active cores in each interval. Shape (t,).

    Args:
        path: Output of mpstat.
        cpus: CPUs of the socket; None for all CPUs.

    Raises: InputError naming file and line for a row that does not fit its header, a CPU of ``cpus`` that is missing
    in an interval, and a file without intervals.
    """
    with opened(path) as source:
        lines = source.read().decode("utf-8", "replace").splitlines()
    intervals: list[tuple[int, dict[int, float]]] = []
    names: list[str] = []
    for line, text in enumerate(lines, start=1):
        words = text.split()
        if "CPU" in words and "%idle" in words:
            names = words[words.index("CPU") :]
            # A block with its own header is an interval; the last ones sum up ("Average:" in mpstat's own language).
            if is_whole(words[0][:1]):
                intervals.append((line, {}))
            else:
                names = []
        elif names and words:
            cells = words[-len(names) :]
            if len(words) < len(names):
                raise InputError(
                    f"{shown(text)} has fewer fields than the header", where=f"{path}:{line}", hint=RECORD_MPSTAT
                )
            if is_whole(cells[0]):
                idle = _share(cells[names.index("%idle")], f"{path}:{line}")
                intervals[-1][1][int(cells[0])] = 1.0 - idle
    if not intervals:
        raise InputError("no interval of mpstat", where=path, hint=RECORD_MPSTAT)
    return np.array([_active(found, cpus, f"{path}:{line}") for line, found in intervals])


def _active(found: dict[int, float], cpus: Collection[int] | None, place: str) -> float:
    """Return the active cores of an interval. Raises: InputError for a missing CPU."""
    lacking = sorted(set(cpus or ()) - set(found))
    if lacking or not found:
        raise InputError(f"no row of CPU {lacking[0] if lacking else 0}", where=place, hint=RECORD_MPSTAT)
    return float(sum(share for cpu, share in found.items() if cpus is None or cpu in cpus))


def _share(cell: str, place: str) -> float:
    """Return a percentage as a share; some languages write a comma for the point. Raises: InputError."""
    value = number_of(cell.replace(",", ".")) / 100.0
    if not 0.0 <= value <= 1.0:
        raise InputError(f"%idle is {shown(cell)}", where=place, hint="it must be 0 to 100")
    return value
