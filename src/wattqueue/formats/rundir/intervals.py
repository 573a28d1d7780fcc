"""Sets of units as text, in the form that Batsim writes and evalys reads: ``0-3 7``; both ways, for whole columns.

A run folder has one such text per job. Formatting them one by one in Python would take longer than the simulation,
so both directions work on the bytes of the whole column with numpy.

The form of a text: intervals ``low-high`` with both ends included, a single unit as its number alone, one space between
intervals, an empty text for no unit. ``0-3 7`` is units 0, 1, 2, 3 and 7.

The form of the arrays, here and in ``model.schedule``: ``low`` and ``high`` hold the intervals of all jobs one after
the other (shape (k,) for k intervals), ``start`` and ``count`` (shape (n,) for n jobs) say which of them belong to a
job. For two jobs with the texts ``0-3 7`` and ``5``::

    low   = [0, 7, 5]        start = [0, 2]
    high  = [3, 7, 5]        count = [2, 1]

``from_text`` is the inverse of ``to_text`` up to the order of the intervals in memory, which it makes that of the jobs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHUNK = 100_000
"""Jobs at a time, so that memory stays bounded."""
ALLOWED = np.isin(np.arange(256), np.frombuffer(b"0123456789 -\n", np.uint8))
"""Whether a byte may stand in a set of units."""
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


def to_text(start: Int64s, count: Int32s, low: Int32s, high: Int32s) -> list[str]:
    """Return one text per job: its intervals of ``low`` and ``high``, an empty text for none.

    Job j has intervals ``start[j] .. start[j] + count[j] - 1``.
    """
    if len(low) == 0:
        return [""] * len(start)
    # One table of digits for all chunks: it is as long as the machine has units.
    digits = _digits(int(high.max()))
    texts: list[str] = []
    for begin in range(0, len(start), CHUNK):
        some = slice(begin, begin + CHUNK)
        texts += _chunk(start[some], count[some].astype(np.int64), low, high, digits)
    return texts


def from_text(texts: list[str]) -> tuple[Int64s, Int32s, Int32s, Int32s]:
    """Return the four columns that ``to_text`` took.

    Raises: ValueError or OverflowError for text that is not a set of units; the caller adds the place.
    """
    if not texts:
        return np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32)
    parts = [_parsed(texts[begin : begin + CHUNK]) for begin in range(0, len(texts), CHUNK)]
    count, low, high = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return np.cumsum(count, dtype=np.int64) - count, count, low, high


def _parsed(texts: list[str]) -> tuple[Int32s, Int32s, Int32s]:
    """Return how many intervals each text has, and their ends, by ``from_text``.

    Which numbers are upper ends, and to which job each belongs, follows from the bytes between them (hyphen, space or
    line end).
    """
    byte = np.frombuffer(("\n".join(texts) + "\n").encode(), np.uint8)
    newline = np.flatnonzero(byte == ord("\n"))
    if not ALLOWED[byte].all() or len(newline) != len(texts):
        raise ValueError("a set of units is written 0-3 7")
    # ``end[k]`` is the position behind the k-th number; the byte there says what follows it.
    digit = byte >= ord("0")
    end = np.flatnonzero(digit[:-1] & ~digit[1:]) + 1
    value = _numbers(byte, end, end - np.flatnonzero(digit & ~np.append(False, digit[:-1])))
    ranged = byte[end] == ord("-")
    is_high = np.zeros(len(end), np.bool_)
    is_high[1:] = ranged[:-1]
    # Three faults: ``1-2-3``; a hyphen behind the last number; a hyphen that follows no number.
    if (is_high & ranged).any() or ranged[-1:].any() or np.count_nonzero(byte == ord("-")) != ranged.sum():
        raise ValueError("an interval is written low-high")
    first = np.flatnonzero(~is_high)
    # The upper end is the next number where a hyphen follows, else the number itself.
    low, high = value[first], value[first + ranged[first]]
    if (high < low).any():
        raise ValueError("an interval is written low-high")
    # As many line ends stand before a number as jobs before its own.
    job = np.searchsorted(newline, end[first])
    return np.bincount(job, minlength=len(texts)).astype(np.int32), low, high


def _numbers(byte: NDArray[np.uint8], end: Int64s, digits: Int64s) -> Int32s:
    """Return the numbers of so many digits before each position ``end``. Raises: OverflowError beyond 32 bits."""
    value = np.zeros(len(end), np.int64)
    for place in range(min(int(digits.max(initial=0)), 18)):
        value += np.where(digits > place, byte[end - 1 - place].astype(np.int64) - ord("0"), 0) * 10**place
    if (digits > 18).any() or (value > np.iinfo(np.int32).max).any():
        raise OverflowError("a unit's number is too large")
    return value.astype(np.int32)


def _digits(top: int) -> NDArray[np.uint8]:
    """Return the decimal digits of 0 to ``top`` as ASCII, and a row without digits behind them.

    Shape (top + 2, digits of ``top``); the digits are left-aligned, with zero bytes behind the last one.
    """
    width = len(str(top))
    text = np.zeros((top + 2, width), np.uint8)
    text[:-1] = np.arange(top + 1).astype(f"S{width}").view(np.uint8).reshape(top + 1, width)
    return text


def _chunk(start: Int64s, count: Int64s, low: Int32s, high: Int32s, digits: NDArray[np.uint8]) -> list[str]:
    """Write every interval into a row of fixed width, drop the zero bytes, then cut the text at the line ends.

    The columns of a row are the digits of the lower end, a hyphen, the digits of the upper end, and a separator; what
    an interval does not have is zero. A row is one interval, or the one placeholder of a job without intervals;
    ``last`` is the last row of each job, where its line ends.
    """
    from wattqueue.model.ranges import ranges

    rows = np.maximum(count, 1)  # a job without a unit still needs its line end
    last = np.cumsum(rows) - 1
    index = ranges(start, rows)
    none = last[count == 0]
    index[none] = 0
    a, b = low[index], high[index]
    ranged = a != b
    b[~ranged] = len(digits) - 1  # the row without digits
    width = digits.shape[1]
    text = np.empty((len(index), 2 * width + 2), np.uint8)
    text[:, :width] = digits[a]
    text[:, width] = ranged * np.uint8(ord("-"))
    text[:, width + 1 : -1] = digits[b]
    text[none] = 0
    text[:, -1] = ord(" ")
    text[last, -1] = ord("\n")
    return text.tobytes().translate(None, b"\0").decode("ascii").split("\n")[:-1]
