"""The cap as a process with rights reads it itself, and texts like ``400kW``; the standard library alone."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.live.files.stamp import Stamp, stamp_of

QUANTITY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?(W|kW|MW|GW|%)")
UNITS_W = {"W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9}


def quantity_of(text: str, name: str) -> tuple[float, str]:
    """Return number and unit of a text like ``400kW`` or ``2%``. Raises: InputError."""
    found = QUANTITY.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{text!r} is no number of watts", where=name, hint="write 500W, 2kW or 5%")
    return float(found[1]), found[2]


def watts_of(text: str, name: str) -> float:
    """Return the watts of a text like ``400kW``. Raises: InputError, for a share, too: no machine is known here."""
    number, unit = quantity_of(text, name)
    if unit == "%":
        raise InputError(f"{text!r} is a share", where=name, hint="write watts: 400kW")
    return number * UNITS_W[unit]


@dataclass
class OwnCap:
    """The cap as the guard reads it: a figure, or a CSV of time_s,cap_w that is read again when it changes.

    A file that cannot be read leaves the last cap in force; where there was none, the cap is 0.
    """

    text: str
    problem: str = ""
    _steps: list[tuple[float, float]] = field(default_factory=list)
    _stamp: Stamp = ()

    def in_force_w(self, now_s: float) -> float:
        """Return the cap at a time (seconds since the epoch); inf for none."""
        if self.text == "none":
            return math.inf
        try:
            if not self.text.startswith("/"):
                return watts_of(self.text, "cap")
            self._read_again()
        except (InputError, OSError, ValueError, LookupError, TypeError, csv.Error) as error:
            self.problem = f"cap: {error}"
        earlier = [watts for time_s, watts in self._steps if time_s <= now_s] or [w for _, w in self._steps[:1]]
        return earlier[-1] if earlier else 0.0

    def _read_again(self) -> None:
        """Read the file where it changed. Raises: OSError, ValueError, LookupError, TypeError or csv.Error."""
        path = Path(self.text)
        stamp = stamp_of(path)
        if stamp and stamp == self._stamp:
            return
        text = "" if path.exists() and not path.is_file() else path.read_text(encoding="utf-8")  # a pipe may not end
        rows = list(csv.DictReader(line for line in text.splitlines() if line.strip() and not line.startswith("#")))
        steps = [(float(row["time_s"]), _watts(row["cap_w"])) for row in rows]
        times = [time_s for time_s, _ in steps]
        rising = all(a < b for a, b in pairwise(times))
        if not steps or not all(map(math.isfinite, times)) or not rising:
            raise ValueError(f"{self.text} is no series of time_s,cap_w")
        self._steps, self._stamp, self.problem = steps, stamp, ""


def _watts(text: str | None) -> float:
    """Return the watts of a row; inf where it lifts the cap. Raises: ValueError."""
    word = (text or "").strip().lower()
    watts = math.inf if word in ("none", "inf") else float(word)
    if math.isnan(watts) or watts < 0:
        raise ValueError(f"{text!r} is no cap")
    return watts
