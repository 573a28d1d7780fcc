"""Output of ``mpstat -P ALL 1``: mean active cores in each interval.

A CPU counts as active for the share of the interval in which it was not idle; the sum over a socket's CPUs is its mean
active cores. The text of any version is read by the names in its header; summary rows ("Average:") are left out.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.source import opened, shown
from wattqueue.model.bounds import is_whole, number_of
from wattqueue.model.jobs import Floats

RECORD = "record with: mpstat -P ALL 1"


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
                raise InputError(f"{shown(text)} has fewer fields than the header", where=f"{path}:{line}", hint=RECORD)
            if is_whole(cells[0]):
                idle = _share(cells[names.index("%idle")], f"{path}:{line}")
                intervals[-1][1][int(cells[0])] = 1.0 - idle
    if not intervals:
        raise InputError("no interval of mpstat", where=path, hint=RECORD)
    return np.array([_active(found, cpus, f"{path}:{line}") for line, found in intervals])


def _active(found: dict[int, float], cpus: Collection[int] | None, place: str) -> float:
    """Return the active cores of an interval. Raises: InputError for a missing CPU."""
    lacking = sorted(set(cpus or ()) - set(found))
    if lacking or not found:
        raise InputError(f"no row of CPU {lacking[0] if lacking else 0}", where=place, hint=RECORD)
    return float(sum(share for cpu, share in found.items() if cpus is None or cpu in cpus))


def _share(cell: str, place: str) -> float:
    """Return a percentage as a share; some languages write a comma for the point. Raises: InputError."""
    value = number_of(cell.replace(",", ".")) / 100.0
    if not 0.0 <= value <= 1.0:
        raise InputError(f"%idle is {shown(cell)}", where=place, hint="it must be 0 to 100")
    return value
