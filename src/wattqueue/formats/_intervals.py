"""Sets of units as text, in the form that Batsim writes and evalys reads: ``0-3 7``; both ways, in bulk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHUNK = 100_000
"""Jobs at a time, so that memory stays bounded."""
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


def to_text(start: Int64s, count: Int32s, low: Int32s, high: Int32s) -> list[str]:
    """One text a job: the intervals ``start[j] .. start[j] + count[j] - 1`` of ``low`` and ``high``, empty for none."""
    if len(low) == 0:
        return [""] * len(start)
    digits = _Digits(int(high.max()))
    texts: list[str] = []
    for begin in range(0, len(start), CHUNK):
        some = slice(begin, begin + CHUNK)
        texts += _chunk(start[some], count[some].astype(np.int64), low, high, digits)
    return texts


def from_text(texts: list[str]) -> tuple[Int64s, Int32s, Int32s, Int32s]:
    """The four columns that ``to_text`` took. Raises: ValueError for what is no set of units."""
    if not texts:
        return np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32)
    blob = ("\n".join(texts) + "\n").encode()
    byte = np.frombuffer(blob, np.uint8)
    digit = (byte >= ord("0")) & (byte <= ord("9"))
    if not (digit | np.isin(byte, np.frombuffer(b" -\n", np.uint8))).all() or np.count_nonzero(
        byte == ord("\n")
    ) != len(texts):
        raise ValueError("a set of units is written 0-3 7")
    end = np.flatnonzero(digit[:-1] & ~digit[1:]) + 1
    value = np.array(blob.replace(b"-", b" ").split(), np.int32)
    ranged = byte[end] == ord("-")
    is_high = np.zeros(len(end), np.bool_)
    is_high[1:] = ranged[:-1]
    if (is_high & ranged).any() or ranged[-1:].any() or np.count_nonzero(byte == ord("-")) != ranged.sum():
        raise ValueError("an interval is written low-high")
    first = np.flatnonzero(~is_high)
    low, high = value[first], value[first + ranged[first]]
    if (high < low).any():
        raise ValueError("an interval is written low-high")
    job = np.searchsorted(np.flatnonzero(byte == ord("\n")), end[first])
    count = np.bincount(job, minlength=len(texts)).astype(np.int32)
    return np.cumsum(count, dtype=np.int64) - count, count, low, high


class _Digits:
    """Decimal digits of 0 to ``top``: ``text[v]`` left-aligned, ``size[v]`` of them."""

    def __init__(self, top: int) -> None:
        self.width = len(str(top))
        numbers = np.arange(top + 1)
        self.size = np.searchsorted(10 ** np.arange(1, self.width + 1), numbers, side="right").astype(np.int64) + 1
        self.text = numbers.astype(f"S{self.width}").view(np.uint8).reshape(top + 1, self.width)


def _chunk(start: Int64s, count: Int64s, low: Int32s, high: Int32s, digits: _Digits) -> list[str]:
    """Scatter digits, hyphens and separators into one run of bytes, then cut it at the line ends."""
    rows = np.maximum(count, 1)  # a job without a unit still needs its line end
    last = np.cumsum(rows) - 1
    index = np.repeat(start - (last + 1 - rows), rows) + np.arange(last[-1] + 1)
    none = np.repeat(count == 0, rows)
    index[none] = 0
    a, b = low[index], high[index]
    a_size = np.where(none, 0, digits.size[a])
    b_size = np.where(none | (a == b), 0, digits.size[b])
    hyphen = b_size > 0
    end = np.cumsum(a_size + hyphen + b_size + 1)
    begin = end - (a_size + hyphen + b_size + 1)
    out = np.full(end[-1], ord(" "), np.uint8)
    out[end[last] - 1] = ord("\n")
    out[(begin + a_size)[hyphen]] = ord("-")
    _put(out, begin, a, a_size, digits)
    _put(out, begin + a_size + 1, b, b_size, digits)
    return out.tobytes().decode("ascii").split("\n")[:-1]


def _put(out: NDArray[np.uint8], begin: Int64s, value: Int32s, size: Int64s, digits: _Digits) -> None:
    for place in range(digits.width):
        has = np.flatnonzero(size > place)
        out[begin[has] + place] = digits.text[value[has], place]
