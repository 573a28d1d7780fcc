"""Slurm's lists of host names, names and back: ``n[1-3,07],login``.

``expand`` is for short lists, name by name. For accounting dumps with millions of lists see ``hosts``.

The notation: names are separated by commas outside of brackets; a bracket holds numbers and rising ranges; the zeros in
front of a number count (``n[08-10]`` is n08, n09, n10); several brackets in one name give all combinations, the last
one varying fastest (``r[1-2]n[1-2]`` is r1n1, r1n2, r2n1, r2n2).

``compress`` and ``expand`` agree: ``expand(compress(names))`` holds the names of ``names`` and no others.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable
from functools import lru_cache

from wattqueue.errors import InputError

MOST_NAMES = 1_000_000
"""Names that one list may hold: far more than any machine has nodes, and few enough to fit in memory."""
NO_HOSTS = ("", "none assigned", "(null)", "none", "n/a", "unknown")
"""What the list of a job without nodes holds, in small letters."""
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]+)$")


@lru_cache(maxsize=4096)
def expand(text: str) -> tuple[str, ...]:
    """Return every name of a host list, in its order; none for an empty list.

    The result is cached, since live code expands the same few lists in every round. It is a tuple, so that no caller
    can change what the cache holds.

    Raises: InputError for text that is no host list, or one of more than a million names.
    """
    if text.lower() in NO_HOSTS:
        return ()
    names = expand_hosts(text)
    if not names:
        raise InputError(f"{text[:80]!r} is not a list of hosts", hint="expected names such as n[1-3,7],login")
    return tuple(names)


def expand_hosts(text: str, most: int = MOST_NAMES) -> list[str]:
    """Return the names of ``n[01-03,7],login1``; none where it cannot be read, or holds more than ``most``.

    The product of all brackets is checked before any name is built, so that ``n[1-9999][1-9999]`` costs nothing. One
    unreadable item makes the whole list unreadable: a part of the nodes of a job would be a wrong figure.
    """
    names: list[str] = []
    # A comma that a closing bracket follows before any opening one stands inside a bracket.
    for item in re.split(r",(?![^\[]*\])", text):
        # Texts and the bodies of brackets in turn, beginning and ending with a text, which may be empty.
        pieces = re.split(r"\[([0-9,-]+)\]", item)
        if not item or re.search(r"[\[\]\s,+]", "".join(pieces[::2])):
            return []
        choices = [_numbers(p, most) if i % 2 else [p] for i, p in enumerate(pieces)]
        if not 0 < math.prod(len(c) for c in choices) <= most - len(names):
            return []
        names += ["".join(parts) for parts in itertools.product(*choices)]
    return names


def _numbers(body: str, most: int) -> list[str]:
    """Return the numbers of ``08-11,20`` with the padding of the lower ends; none if unreadable.

    The list ends soon after ``most`` numbers: the caller then finds that there are too many.
    """
    names: list[str] = []
    # Digits are limited to nine by the pattern, so that no range is too long to count.
    for part in body.split(","):
        ends = _RANGE.fullmatch(part)
        low, high = (ends[1], ends[2] or ends[1]) if ends else ("1", "0")
        if int(high) < int(low):
            return []
        last = min(int(high), int(low) + most - len(names))
        names += [str(number).zfill(len(low)) for number in range(int(low), last + 1)]
    return names


def compress(names: Iterable[str]) -> str:
    """Return a short host list of these names, sorted by name and number; ``expand`` returns the names.

    Numbers with leading zeros are grouped by their width: ``n01`` and ``n1`` are different nodes.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in names:
        found = _NUMBERED.fullmatch(name)
        if found is None:
            plain.append(name)
            continue
        head, digits = found.groups()
        # Width 0: numbers without leading zeros, whose lengths may differ inside a range (n[9-11]).
        width = len(digits) if digits.startswith("0") else 0
        groups.setdefault((head, width), []).append(int(digits))
    pieces = sorted(plain)
    for (head, width), numbers in sorted(groups.items()):
        ranges = [_range(low, high, width) for low, high in _runs(sorted(set(numbers)))]
        # One number needs no bracket: n7, and not n[7].
        single = len(ranges) == 1 and "-" not in ranges[0]
        pieces.append(head + (ranges[0] if single else f"[{','.join(ranges)}]"))
    return ",".join(pieces)


def _range(low: int, high: int, width: int) -> str:
    """Return ``low-high``, or one number, padded with zeros to ``width`` (0: no padding)."""
    first = str(low).zfill(width)
    return first if low == high else f"{first}-{str(high).zfill(width)}"


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Return the runs (low, high) of consecutive numbers in a sorted list without repetitions.

    ``[1, 2, 3, 7]`` gives ``[(1, 3), (7, 7)]``.
    """
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
