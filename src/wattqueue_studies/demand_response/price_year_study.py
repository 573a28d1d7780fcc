"""The study of a year on real prices: several policies and shares of consent, as a report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from wattqueue.report.document import Table
from wattqueue_studies.demand_response.price_year import (
    COMMITTED_SHARE,
    DAYS_BEFORE,
    HOURS,
    LIMIT_SHARE,
    MULTIPLE,
    PriceYear,
    YearRow,
    read_prices,
)
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples

POLICIES = ("dr-easy", "dr-easy-ahead", "dr-easy-ramp")
USER_SHARES = (0.25, 0.5, 1.0)
HEADS = (
    "policy, users",
    "settled\nevents",
    "delivered\nMWh",
    "against\nreplay MWh",
    "paid\nEUR",
    "energy bill\nEUR less",
    "consenting:\nadded s",
    "others:\nadded s",
    "all:\nnode-h",
    "within\nlimit %",
)
NO_EVENT = ("no event", "–", "0.0", "0.0", "0", "0", "0", "0", "0", "–")
"""The row with which all others are compared."""


@dataclass(frozen=True, slots=True)
class PriceYearStudy:
    """A year of load targets at the dearest hours of a price series.

    Attributes:
        prices: CSV file of hourly day-ahead prices in EUR/MWh.
        load: Load that is offered to the machine.
        policies: Policies to compare.
        user_shares: Shares of users who consent.
    """

    prices: Path
    load: float = 0.6
    policies: tuple[str, ...] = POLICIES
    user_shares: tuple[float, ...] = USER_SHARES

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate the year. Raises: InputError for prices that are not hourly, or without a dear day."""
        year = PriceYear.of(read_prices(self.prices), load=self.load)
        cases = [(policy, share) for policy in self.policies for share in self.user_shares]
        rows = []
        for k, (policy, share) in enumerate(cases):
            rows.append(year.row(policy, share))
            if progress:
                progress(k + 1, len(cases))
        return self.report(year, rows)

    def report(self, year: PriceYear, rows: list[YearRow]) -> StudyReport:
        """Return the table and how to read it."""
        told = published("wattqueue_studies.demand_response")
        judged = replace(told, claims=[]).judge(Samples({}))
        best = max(rows, key=lambda row: row.paid)
        note = (
            f"Targets: the {HOURS} dearest neighbouring hours of a day, where they cost {MULTIPLE:g} times the mean of "
            f"the {DAYS_BEFORE} days before; the limit is {100 * LIMIT_SHARE:g} % of the mean power without targets, "
            f"{100 * COMMITTED_SHARE:g} % of it are committed. Paid: delivery against CAISO 10-in-10, "
            "at the day-ahead price; events with too few days before them are not settled. Bill: the change of the "
            "year's energy at the same prices. Added: turnaround against a replay, gains included."
        )
        table = Table(HEADS, [NO_EVENT, *map(_cells, rows)], "A year on day-ahead prices", note, key="year")
        return told.report(
            judged,
            about=(
                f"{len(year.site.jobs):,} generated jobs on {year.site.machine.units} nodes, {len(year.targets)} "
                f"targets from {self.prices.name}; {year.mean_w / 1e3:,.0f} kW on average without targets."
            ),
            lede=f"A year of load targets at the dearest hours pays at most {best.paid:,.0f} EUR, no event 0 EUR; one "
            "generated year gives no verdict, and what users lose is not in it.",
            parts=[table],
            figures={
                "generated": True,
                "prices_sha256": year.prices.sha256,
                "mean_w": year.mean_w,
                "limit_w": float(year.targets.limit[0]),
                "year": [asdict(row) for row in rows],
            },
            notes=[note],
            origin="generated workload, real prices",
        )


def _cells(row: YearRow) -> list[str]:
    """Return one row of the table."""
    return [
        f"{row.policy} {100 * row.users_share:g} %",
        f"{row.settled} of {row.events}",
        f"{row.delivered_mwh:,.1f}",
        f"{row.counterfactual_mwh:,.1f}",
        f"{row.paid:,.0f}",
        f"{row.bill_saved:,.0f}",
        f"{row.consenting_s:,.0f}",
        f"{row.bound_s:,.0f}",
        f"{row.node_h:,.0f}",
        f"{row.within_percent:.1f}",
    ]
