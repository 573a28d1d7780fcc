"""The caps to try: ``60%..100%`` (nine, evenly), ``60%..100%:10%``, ``300kW..500kW:50kW``, or ``60%,80%,400kW``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.cap import QUANTITY, parse_cap
from wattqueue.model.machine import Machine

STEPS = 9
MOST = 200
HOW = "write 60%..100%, 60%..100%:10%, 300kW..500kW:50kW, or a list such as 60%,80%,400kW"


@dataclass(frozen=True, slots=True)
class CapPoint:
    """One cap: as it was written (or computed from a range), and watts in the machine's cap scope."""

    text: str
    cap_w: float


def parse_caps(text: str, machine: Machine) -> tuple[CapPoint, ...]:
    """Caps of ranges and lists, the lowest first, each once.

    Raises: InputError for a text that is none; MachineError for a share of a maximum that is not stated, or
    a cap below what the idle machine draws in its scope.
    """
    texts = [cap for item in text.split(",") for cap in (_range(item) if ".." in item else [_single(item)])]
    if len(texts) > MOST:
        raise InputError(f"{text!r} is {len(texts)} caps", where="--cap", mend=f"at most {MOST}: give a larger step")
    points = {float(parse_cap(t, machine).cap_w[0]): t for t in texts}
    return tuple(CapPoint(points[w], w) for w in sorted(points))


def _single(text: str) -> str:
    if not QUANTITY.fullmatch(text):
        raise InputError(f"{text.strip()!r} is no cap to try", where="--cap", mend=HOW)
    return text.strip()


def _range(text: str) -> list[str]:
    ends, _, step = text.partition(":")
    low, _, high = ends.partition("..")
    found = [QUANTITY.fullmatch(part) for part in (low, high, *([step] if ":" in text else []))]
    if None in found:
        raise InputError(f"{text.strip()!r} is no range of caps", where="--cap", mend=HOW)
    numbers = [float(hit[1]) for hit in found if hit]
    units = {hit[2] for hit in found if hit} - {""}
    if len(units) > 1:
        raise InputError(f"{text.strip()!r} mixes {' and '.join(sorted(units))}", where="--cap", mend="use one unit")
    if numbers[0] >= numbers[1]:
        raise InputError(f"{text.strip()!r} does not rise", where="--cap", mend="write the lower cap first")
    if len(numbers) == 3 and not 0 < numbers[2] <= numbers[1] - numbers[0]:
        raise InputError(
            f"step {step.strip()} of {text.strip()!r}", where="--cap", mend="above 0, and no longer than the range"
        )
    unit = units.pop() if units else ""
    return [f"{value:.10g}{unit}" for value in _values(numbers)]


def _values(numbers: list[float]) -> list[float]:
    """Values of a range, both ends included; the last step may be shorter."""
    low, high = numbers[:2]
    if len(numbers) == 2:
        return [float(v) for v in np.linspace(low, high, STEPS)]
    count = (high - low) / numbers[2]
    if count > MOST:
        raise InputError(f"{count:,.0f} caps", where="--cap", mend=f"at most {MOST}: give a larger step")
    inside = [low + k * numbers[2] for k in range(int(np.floor(count + 1e-9)) + 1)]
    return inside if high - inside[-1] < 1e-9 * high else [*inside, high]
