"""Parse the caps to try.

Forms: ``60%..100%`` (nine caps, evenly spaced), ``60%..100%:10%``, ``300kW..500kW:50kW``, or a list:
``60%,80%,400kW``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.cap import QUANTITY, parse_cap
from wattqueue.model.machine import Machine

STEPS = 9  # caps of a range without a step
MOST = 200  # caps of one call: each is a simulation per configuration
HOW = "write 60%..100%, 60%..100%:10%, 300kW..500kW:50kW, or a list such as 60%,80%,400kW"
"""Hint of every error about ``--cap``."""


@dataclass(frozen=True, slots=True)
class CapPoint:
    """One cap to try.

    Attributes:
        text: As it was written, or as computed from a range.
        cap_w: Watts in the machine's cap scope (rule 14 of docs/semantics.md).
    """

    text: str
    cap_w: float


def parse_caps(text: str, machine: Machine) -> tuple[CapPoint, ...]:
    """Return the caps of ranges and lists, the lowest first; caps of equal watts count once.

    Raises:
        InputError: A text that is no cap or range.
        MachineError: A share of a maximum that the machine does not state, or a cap below the idle watts in its
            scope.
    """
    texts = [cap for item in text.split(",") for cap in (_range(item) if ".." in item else [_single(item)])]
    if len(texts) > MOST:
        raise InputError(f"{text!r} is {len(texts)} caps", where="--cap", hint=f"at most {MOST}: give a larger step")
    points = {float(parse_cap(t, machine).cap_w[0]): t for t in texts}
    return tuple(CapPoint(points[w], w) for w in sorted(points))


def _single(text: str) -> str:
    """Return one cap as text without blanks. Raises InputError where it is not a number with a unit."""
    if not QUANTITY.fullmatch(text):
        raise InputError(f"{text.strip()!r} is not a cap", where="--cap", hint=HOW)
    return text.strip()


def _range(text: str) -> list[str]:
    """Return the caps of ``LOW..HIGH`` or ``LOW..HIGH:STEP`` as text.

    A unit may be left out where another part has it.
    """
    ends, _, step = text.partition(":")
    low, _, high = ends.partition("..")
    found = [QUANTITY.fullmatch(part) for part in (low, high, *([step] if ":" in text else []))]
    if None in found:
        raise InputError(f"{text.strip()!r} is not a range of caps", where="--cap", hint=HOW)
    numbers = [float(hit[1]) for hit in found if hit]
    units = {hit[2] for hit in found if hit} - {""}
    if len(units) > 1:
        raise InputError(f"{text.strip()!r} mixes {' and '.join(sorted(units))}", where="--cap", hint="use one unit")
    if numbers[0] >= numbers[1]:
        raise InputError(f"{text.strip()!r} does not rise", where="--cap", hint="write the lower cap first")
    if len(numbers) == 3 and not 0 < numbers[2] <= numbers[1] - numbers[0]:
        raise InputError(
            f"step {step.strip()} of {text.strip()!r}", where="--cap", hint="above 0, and no longer than the range"
        )
    unit = units.pop() if units else ""
    return [f"{value:.10g}{unit}" for value in _values(numbers)]


def _values(numbers: list[float]) -> list[float]:
    """Return the values of a range, both ends included; the last step may be shorter."""
    low, high = numbers[:2]
    if len(numbers) == 2:
        return [float(v) for v in np.linspace(low, high, STEPS)]
    count = (high - low) / numbers[2]
    if count > MOST:
        raise InputError(f"{count:,.0f} caps", where="--cap", hint=f"at most {MOST}: give a larger step")
    # A tolerance of 1e-9 steps: 60 + 4 x 10 must reach 100 although floats miss it by their last digit.
    inside = [low + k * numbers[2] for k in range(int(np.floor(count + 1e-9)) + 1)]
    return inside if high - inside[-1] < 1e-9 * high else [*inside, high]
