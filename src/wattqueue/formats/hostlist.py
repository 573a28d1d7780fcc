"""Slurm's lists of host names: ``n[1-3,07],login``, names and back."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable
from functools import lru_cache

from wattqueue.errors import InputError

MOST_NAMES = 1_000_000
"""Names that one list may hold."""
NO_HOSTS = ("", "none assigned", "(null)", "none", "n/a", "unknown")
"""What stands in the list of a job that has no nodes (in small letters)."""
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_NUMBERED = re.compile(r"(.*?)(\d+)$")


@lru_cache(maxsize=4096)
def expand(text: str) -> tuple[str, ...]:
    """Every name of a host list, in its order; empty for an empty list.

    Raises: InputError for text that is no host list, or one of more than a million names.
    """
    if text.lower() in NO_HOSTS:
        return ()
    names = expand_hosts(text)
    if not names:
        raise InputError(f"{text[:80]!r} is no list of hosts", mend="expected names such as n[1-3,7],login")
    return tuple(names)


def expand_hosts(text: str, most: int = MOST_NAMES) -> list[str]:
    """The names of ``n[01-03,7],login1``; empty where it cannot be read, or holds more than ``most``."""
    names: list[str] = []
    for item in re.split(r",(?![^\[]*\])", text):
        pieces = re.split(r"\[([\d,-]+)\]", item)
        if not item or re.search(r"[\[\]\s,+]", "".join(pieces[::2])):
            return []
        choices = [_numbers(p, most) if i % 2 else [p] for i, p in enumerate(pieces)]
        if not 0 < math.prod(len(c) for c in choices) <= most - len(names):
            return []
        names += ["".join(parts) for parts in itertools.product(*choices)]
    return names


def _numbers(body: str, most: int) -> list[str]:
    """``08-11,20`` spelled out with the padding of its lower ends, some ``most`` at most; empty if unreadable."""
    names: list[str] = []
    for part in body.split(","):
        ends = _RANGE.fullmatch(part)
        low, high = (ends[1], ends[2] or ends[1]) if ends else ("1", "0")
        if int(high) < int(low):
            return []
        last = min(int(high), int(low) + most - len(names))
        names += [str(number).zfill(len(low)) for number in range(int(low), last + 1)]
    return names


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
