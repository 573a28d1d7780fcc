"""Slurm's lists of host names: ``n[1-3,07],login`` and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from wattqueue.errors import InputError

_PART = re.compile(r"([^,\[\]]*)(?:\[([0-9,\-]+)\])?([^,\[\]]*)(?:,|$)")
_NUMBERED = re.compile(r"(.*?)(\d+)$")
LONGEST = 1_000_000


@lru_cache(maxsize=4096)
def expand(text: str) -> tuple[str, ...]:
    """Every name of a host list, in its order; empty for an empty list.

    Raises: InputError for text that is no host list, or one of more than a million names.
    """
    if text in ("", "(null)", "N/A", "None"):
        return ()
    names: list[str] = []
    place = 0
    while place < len(text):
        found = _PART.match(text, place)
        if found is None or found.end() == place:
            raise InputError(f"{text[:80]!r} is no list of hosts", mend="expected names such as n[1-3,7],login")
        head, ranges, tail = found.groups()
        names += [head + number + tail for number in _numbers(ranges, text)] if ranges else [head + tail]
        place = found.end()
    return tuple(names)


def _numbers(ranges: str, text: str) -> list[str]:
    out: list[str] = []
    for piece in ranges.split(","):
        low, _, high = piece.partition("-")
        high = high or low
        if not (low.isdigit() and high.isdigit()) or int(high) < int(low) or int(high) - int(low) > LONGEST:
            raise InputError(f"range {piece!r} in {text[:80]!r}", mend="expected LOW-HIGH")
        out += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return out


def compress(names: Iterable[str]) -> str:
    """A short host list of these names, sorted by name and number. ``expand`` gives them back."""
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in names:
        found = _NUMBERED.fullmatch(name)
        if found is None:
            plain.append(name)
            continue
        head, digits = found.groups()
        width = len(digits) if digits.startswith("0") else 0
        groups.setdefault((head, width), []).append(int(digits))
    pieces = sorted(plain)
    for (head, width), numbers in sorted(groups.items()):
        ranges = [_range(low, high, width) for low, high in _runs(sorted(set(numbers)))]
        single = len(ranges) == 1 and "-" not in ranges[0]
        pieces.append(head + (ranges[0] if single else f"[{','.join(ranges)}]"))
    return ",".join(pieces)


def _range(low: int, high: int, width: int) -> str:
    first = str(low).zfill(width)
    return first if low == high else f"{first}-{str(high).zfill(width)}"


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
