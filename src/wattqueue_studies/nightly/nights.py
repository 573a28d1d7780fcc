"""Compare rows over many nights: paired, with an interval, and never over fewer than 30."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.report.compare.stats import Estimate, estimate

NIGHTS = 30
"""Least nights of a verdict."""
KEY = "nightly"
"""What a file of a night has its figures under."""
NOTHING_SHOWN = "no difference shown"
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """What many nights say of a row's mean wait beside the site's own.

    Attributes:
        row: Its name.
        nights: Nights on which the two may be compared.
        change: Mean of the differences, nights alike; None for no night, or fewer than 30 for the interval.
    """

    row: str
    nights: int
    change: Estimate | None = None

    @property
    def word(self) -> str:
        """Return ``better``, ``worse``, or that no difference is shown: without an interval there is none."""
        words = {-1: "better", 1: "worse"}
        return NOTHING_SHOWN if self.change is None else words.get(self.change.side or 0, NOTHING_SHOWN)

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        change = None if self.change is None else self.change.document()
        return {"row": self.row, "nights": self.nights, "change_s": change, "verdict": self.word}


def kept_nights(files: Iterable[tuple[str, Any]]) -> list[Values]:
    """Return the nights among the JSON files of a folder, by date; other files are passed over.

    Raises: InputError naming both files of a night that is there twice, and a file of a night that is damaged.
    """
    found: dict[str, tuple[str, Values]] = {}
    for name, content in files:
        if not isinstance(content, dict) or KEY not in content:
            continue
        night = content[KEY]
        if not isinstance(night, dict) or not isinstance(night.get("others"), list) or "day" not in night:
            raise InputError("is no whole night", where=name, hint="delete it, and run nightly for that day again")
        day = str(night["day"])
        if day in found:
            raise InputError(f"holds {day}, which {found[day][0]} holds too", where=name, hint="delete one of the two")
        found[day] = name, night
    return [night for _, (_, night) in sorted(found.items())]


def verdicts(nights: Sequence[Values], last: Values) -> list[RowVerdict]:
    """Return the verdict on each row of the ``last`` night, over the nights of its machine and its own row."""
    alike = [night for night in nights if (night["machine"], night["policy"]) == (last["machine"], last["policy"])]
    return [verdict(row["row"], alike) for row in (last["plain"], *last["others"])]


def verdict(name: str, nights: Iterable[Values]) -> RowVerdict:
    """Return what nights say of a row."""
    changes = []
    for night in nights:
        rows = [night["plain"], *(row for row in night["others"] if row["row"] in night["compared"])]
        changes += [row["change_s"] for row in rows if row["row"] == name and row["change_s"] is not None]
    if not changes:
        return RowVerdict(name, 0)
    if len(changes) < NIGHTS:
        return RowVerdict(name, len(changes), Estimate(len(changes), float(np.mean(changes))))
    return RowVerdict(name, len(changes), estimate(changes))
