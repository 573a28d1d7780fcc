"""What of the limits of numbers (``model.bounds``) small processes check, too, and which texts are numbers.

The guard's process reads tags of users and lists of Slurm. It takes the ranges from here and leaves out how a value
outside of one is described.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple


class PlainRange(NamedTuple):
    """A closed range of numbers."""

    low: float
    high: float


TIME_S = PlainRange(-(2**33), 2**33)
SLOWDOWN = PlainRange(1, 1e6)
PRICE = PlainRange(0, 1e9)
CHECKPOINT = PlainRange(1, 1e9)


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number of 1 to 18 ASCII digits: ``int`` takes it, and int64 holds it.

    ``str.isdigit`` also holds for "²", which ``int`` refuses, for digits of other scripts, and for thousands of digits.
    """
    return len(text) <= 18 and text.isascii() and text.isdecimal()


NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""What counts as a number: no ``nan``, ``inf``, ``1_000``, ``0x10`` or digits of other scripts, as ``float`` takes."""


def number_of(text: str) -> float:
    """Return the number that a text is, spaces around it aside; NaN for anything else. It may be infinite (1e999)."""
    text = text.strip(" \t")
    return float(text) if NUMBER.fullmatch(text) else math.nan
