"""What a design of incentives shows: whether an event pays, at which rate, and what is within the error.

No event is the row that every rate is compared with: its sum is 0. Rates share their draws of users, so two of them are
compared draw by draw; a difference whose 95 % interval holds 0 is a tie. Below ``FEWEST_DRAWS`` nothing is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.report.compare.stats import FEWEST_DRAWS, estimate
from wattqueue_grid.incentives.design import DesignRow
from wattqueue_grid.money import words as money


@dataclass(frozen=True, slots=True)
class DesignVerdict:
    """The answer to "at which rate?".

    Attributes:
        row: The rate that leaves both best off; None for no event, or for no verdict.
        about: The rate of which the sentence speaks.
        tied: Rates whose sums differ from its sum by less than the error.
        sentence: The answer, without the full stop.
    """

    row: DesignRow | None
    about: DesignRow
    tied: tuple[DesignRow, ...]
    sentence: str


def verdict(rows: Sequence[DesignRow], currency: str) -> DesignVerdict:
    """Return what the rates that have figures show. ``rows`` hold one at least."""
    known = [row for row in rows if not row.why]
    most, draws = max(known, key=lambda row: row.total), min(len(row.totals) for row in known)
    nothing = f"with no event both have {money(0, currency)}"
    if draws < FEWEST_DRAWS:
        said = f"No verdict from {draws} draws of users, {FEWEST_DRAWS} are the least (--draws {FEWEST_DRAWS})"
        said += f": the greatest sum is {_sum(most, currency)} at {most.multiple:f}; {nothing}"
        return DesignVerdict(None, most, (), said)
    sums = {row.multiple: estimate(row.totals) for row in known}
    paying = [row for row in known if sums[row.multiple].side == 1]
    if not paying:
        if all(sums[row.multiple].side == -1 for row in known):
            least = f"the least loss is {money(-most.total, currency)}"
            said = f"At no rate does an event pay: both sides together lose at each; {least}"
        else:
            said = f"At no rate is an event shown to pay: the greatest sum is {_sum(most, currency)}"
        return DesignVerdict(None, most, (), f"{said}, at {most.multiple:f} times the rates; {nothing}")
    fair = [row for row in paying if row.centre >= 0 and row.users >= 0]
    best = max(fair or paying, key=lambda row: row.total)
    tied = tuple(row for row in paying if row is not best and _tie(best, row))
    said = f"Best off together at {best.multiple:f} times the rates: {sides(best, currency)}, both "
    said += f"{_sum(best, currency)}; {nothing}"
    if tied:
        said += f"; {' and '.join(f'{row.multiple:f}' for row in tied)} differ from it by less than the error"
    if not fair:
        said += "; at every rate that pays one side loses"
    return DesignVerdict(best, best, tied, said)


def sides(row: DesignRow, currency: str) -> str:
    """Return what each side gains or loses: ``the centre gains 9.00 EUR, users lose 1.00 EUR``."""
    each = (("the centre", "gains", "loses", row.centre), ("users", "gain", "lose", row.users))
    return ", ".join(
        f"{who} {gains if amount >= 0 else loses} {money(abs(amount), currency)}" for who, gains, loses, amount in each
    )


def _sum(row: DesignRow, currency: str) -> str:
    """Return the sum of both sides with its 95 % interval."""
    found = estimate(row.totals)
    text = money(row.total, currency)
    if found.low is None or found.high is None or found.high == found.low:
        return text
    return f"{text} (95 %: {money(round(found.low), currency)} to {money(round(found.high), currency)})"


def _tie(best: DesignRow, other: DesignRow) -> bool:
    """Return whether two rates differ by less than the error, draw by draw."""
    return estimate(np.subtract(best.totals, other.totals)).side == 0
