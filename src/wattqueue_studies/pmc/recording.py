"""One recording of a socket: counters of perf or of a CSV, active cores of mpstat or of the same CSV, and watts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.source import opened, shown
from wattqueue.model.jobs import Floats
from wattqueue.model.plain_numbers import is_whole
from wattqueue_studies.pmc.events import plain
from wattqueue_studies.pmc.readings import COUNTER_BITS, CounterTrace, read_counters_csv, read_mpstat, read_perf_stat

PACKAGE_ENERGY = "energy-pkg"
"""perf's event of a socket's joules (``power/energy-pkg/``), without the name of its PMU."""
MOST_CPUS = 65_536
"""Numbers of CPUs are below it: eight times as many as Linux is built for at most."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Counters, active cores and watts of one socket in the same intervals; watts are NaN where not measured."""

    counters: CounterTrace
    active_cores: Floats
    watts: Floats

    def watts_at(self, time_s: Floats) -> Floats:
        """Return the watts of the intervals that end at these times. Shape (k,)."""
        return self.watts[np.searchsorted(self.counters.time_s, time_s)]


def read_recording(
    path: Path, socket: int = 0, mpstat: Path | None = None, cpus: str = "", bits: int = COUNTER_BITS
) -> Recording:
    """Return one socket of a recording.

    Args:
        path: Output of ``perf stat -x``, or a CSV of readings (its header names ``time_s``).
        socket: The socket to take.
        mpstat: Output of mpstat; None where the CSV has active cores.
        cpus: CPUs of the socket in mpstat, such as ``0-15,32-47``; empty for all.
        bits: Width of the counters of a CSV.

    Intervals of perf and mpstat are paired in order; the longer recording is cut by at most two intervals, since two
    commands never start and stop together.

    Raises: InputError naming the file for what cannot be used, a socket without counters, and missing active cores.
    """
    with opened(path) as source:
        is_csv = b"time_s" in source.read(4096)
    if is_csv:
        found = _socket(read_counters_csv(path, bits=bits), socket, path)
        counters, cores, watts = found.counters, found.active_cores, found.watts
    else:
        counters, cores = _socket(read_perf_stat(path), socket, path), None
        watts = package_watts(counters)
    if mpstat is not None:
        cores = read_mpstat(mpstat, cpu_numbers(cpus) if cpus else None)
    if cores is None:
        raise InputError("no active cores", where=path, hint="give the output of mpstat -P ALL 1 as --mpstat")
    t = min(len(cores), len(counters))
    if max(len(cores), len(counters)) - t > 2:
        raise InputError(
            f"{len(counters)} intervals of counters, {len(cores)} of mpstat", where=path, hint="record both together"
        )
    counters = CounterTrace(counters.time_s[:t], {e: c[:t] for e, c in counters.counts.items()}, counters.multiplexed)
    return Recording(counters, cores[:t], np.full(t, np.nan) if watts is None else watts[:t])


def package_watts(trace: CounterTrace) -> Floats | None:
    """Return the socket's watts from perf's event ``power/energy-pkg/``; None where it was not recorded. Shape (t,)."""
    joules = next((c for event, c in trace.counts.items() if plain(event) == PACKAGE_ENERGY), None)
    if joules is None:
        return None
    watts: Floats = joules / np.diff(trace.time_s, prepend=0.0)
    return watts


def cpu_numbers(text: str) -> set[int]:
    """Return the CPUs of a list such as ``0-15,32``. Raises: InputError."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (is_whole(first) and is_whole(last) and int(first) <= int(last) < MOST_CPUS):
            raise InputError(
                f"{shown(text)} is no list of CPUs", where="--cpus", hint=f"such as 0-15,32-47, below {MOST_CPUS:,}"
            )
        found.update(range(int(first), int(last) + 1))
    return found


def _socket(found: Mapping[int, T], socket: int, path: Path) -> T:
    """Return one socket of a file. Raises: InputError."""
    if socket not in found:
        raise InputError(f"no counters of socket {socket}", where=path, hint=f"it has {', '.join(map(str, found))}")
    return found[socket]
