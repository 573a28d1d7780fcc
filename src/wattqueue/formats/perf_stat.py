"""Lines of ``perf stat -x,``: the count of one event in one interval.

Fields, in the order of perf's manual page: time stamp, socket and number of CPUs (with ``--per-socket``), value, unit,
event, run time of the counter, share of the interval in which it ran, further ones that are not read. perf extends the
hardware counters to 64 bits itself: its counts do not wrap. Values ``<not counted>`` and
``<not supported>`` become gaps. An event whose own name has commas (``cpu/event=0x3c,umask=0/``) needs ``-x;``.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.source import shown
from wattqueue.model.plain_numbers import number_of

_SOCKET = re.compile(r"^S([0-9]+)(-D[0-9]+)?$")
_PART = re.compile(r"^(S[0-9]|CPU[0-9])")
_GAPS = ("<not counted>", "<not supported>")
_SCALED_BELOW = 99.0
"""Share in per cent below which a count was scaled up by perf."""
RECORD = "record with: perf stat -x, -I 1000 -a --per-socket -e EVENTS"


class PerfCount(NamedTuple):
    """One line of ``perf stat -x``: the value is NaN for an event that was not counted."""

    line: int
    time_s: float
    socket: int
    event: str
    value: float
    scaled: bool


def count_of_line(text: str, path: Path, line: int) -> PerfCount:
    """Return the count of one line; ``path`` and ``line`` are where it comes from. Raises: InputError."""
    fields = [f.strip() for f in text.split(";" if ";" in text else ",")]
    place = f"{path}:{line}"
    # Without a time stamp a unit, which is never a number, stands in the second field.
    if len(fields) < 4 or not (_is_value(fields[1]) or _PART.match(fields[1])):
        raise InputError(f"{shown(text)} is no line of perf stat -x with -I", where=place, hint=RECORD)
    time_s, rest = _number(fields[0], place), fields[1:]
    socket = _SOCKET.match(rest[0])
    if socket is None and _PART.match(rest[0]):
        raise InputError("counts of single CPUs or cores", where=place, hint=RECORD)
    rest = rest[2:] if socket else rest
    if len(rest) < 3 or not rest[2] or not _is_value(rest[0]):
        raise InputError(f"{shown(text)} is no line of perf stat -x", where=place, hint=RECORD)
    value = np.nan if rest[0] in _GAPS else _number(rest[0], place)
    share = _number(rest[4].rstrip("%"), place) if len(rest) > 4 and rest[4] else 100.0
    scaled = share < _SCALED_BELOW and bool(np.isfinite(value))
    return PerfCount(line, time_s, int(socket[1]) if socket else 0, rest[2], value, scaled)


def _is_value(field: str) -> bool:
    """Return whether a field is a count or one of perf's words for none."""
    return field in _GAPS or bool(re.fullmatch(r"[0-9]+(\.[0-9]+)?", field))


def _number(field: str, place: str) -> float:
    """Return a field as a number. Raises: InputError."""
    value = number_of(field)
    if math.isnan(value):
        raise InputError(f"{shown(field)} is not a number", where=place, hint=RECORD)
    return value
