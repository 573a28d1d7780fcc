"""A year on real prices: load targets at the dearest hours, what they earned, and what users lost.

The rule, which needs nothing that is not known the day before: on each local day the ``HOURS`` neighbouring hours with
the highest mean price are taken; they become a target where that mean is at least ``MULTIPLE`` times the mean price of
the 28 days before. Day-ahead prices are published at about 13:00 of the day before, which is the notice. The limit is a
share of the mean power of the same site without targets.

Money: each event is settled as a contract would, by the baseline of ``BASELINE`` from hourly meter data of the run, at
the day-ahead prices; beside it stands what the counterfactual run says, and the change of the year's bill for energy at
the same prices. What users lose is added turnaround against that counterfactual, apart for those who consent and those
who do not; what a job gains is counted against it, because backfilling moves most jobs a little by any change, and the
sum of the losses alone would count that as harm. The workload is generated, the prices are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import load_machine
from wattqueue.formats.tariff import Tariff, parse_source, read_tariff
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.steps import Steps
from wattqueue.sim.engine import Run
from wattqueue.workload.generated import generate
from wattqueue_grid.incentives.acceptance import with_consent_of
from wattqueue_grid.incentives.participation import consenting
from wattqueue_grid.incentives.site_runs import SimulatedSite, metered, same_work
from wattqueue_grid.meter import MeterData
from wattqueue_grid.settlement.calendar import SiteCalendar, zone_of
from wattqueue_grid.settlement.contract import Contract
from wattqueue_grid.settlement.energy_price import energy_bill
from wattqueue_grid.settlement.events import called_events
from wattqueue_grid.settlement.load_history import LoadHistory
from wattqueue_grid.settlement.statement import EventStatement, settle_event

HOURS, MULTIPLE, DAYS_BEFORE = 3, 1.5, 28
"""Length of a target, and how dear its hours must be: assumed."""
PUBLISHED_H = 13
"""Local hour of the day before at which day-ahead prices are known."""
LIMIT_SHARE, COMMITTED_SHARE, RAMP_S = 0.85, 0.10, 1_800.0
"""Limit and commitment as shares of the mean power without targets, and the seconds in which it may rise back."""
BASELINE = "caiso-10-in-10"
ESTIMATOR = "oracle-mean"
"""Jobs draw a third of a node's maximum, which the policies would count otherwise; predictions here are exact."""
ZONE = "Europe/Berlin"
HOUR_S = 3_600
FULL_HZ, SLOW_HZ = 2.6e9, 2.08e9
"""Clocks of the slow-down: assumed, with watts above idle cubic in frequency."""
MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class YearRow:
    """A year under one policy and share of consent. Money in EUR."""

    policy: str
    users_share: float
    events: int
    settled: int
    delivered_mwh: float
    counterfactual_mwh: float
    paid: float
    bill_saved: float
    consenting_s: float
    """Mean added turnaround of jobs whose users consent, in seconds; jobs that gain are counted, too."""
    bound_s: float
    """The same of all other jobs."""
    node_h: float
    """Added turnaround times nodes, of all jobs together."""
    within_percent: float
    """Share of the targets' time in which the limit was held."""


def machine_of_year() -> Machine:
    """Return 980 nodes of Marconi100, metered whole, with two assumed clocks."""
    machine = load_machine("marconi100")
    part = replace(machine.partitions[0], frequencies_hz=(FULL_HZ, SLOW_HZ), dvfs_alpha=3.0)
    return replace(machine, partitions=(part,), cap_scope="machine")


def jobs_of_year(load: float, length_s: float, seed: int) -> Jobs:
    """Return generated jobs, submitted over so many seconds, without power profiles."""
    rng = np.random.default_rng(seed)
    return replace(generate(f"marconi:days={length_s / 86_400.0:g},load={load:g}", rng), profiles=None)


def read_prices(path: Path) -> Tariff:
    """Return day-ahead prices in Unix time. Raises: InputError for prices that are not hourly."""
    tariff = read_tariff(parse_source(path, "EUR/MWh", "--prices"), 0.0, repair=True)
    if len(tariff.series.time_s) < 48 or (np.diff(tariff.series.time_s) != HOUR_S).any():
        raise InputError("a year of targets needs hourly prices without gaps", where=path, hint="one row an hour")
    return tariff


def dear_hours(tariff: Tariff) -> list[tuple[float, float]]:
    """Return begin and notice of each target in Unix time, by the rule of this module."""
    calendar, price = SiteCalendar(zone_of(ZONE, "prices"), frozenset()), tariff.series.value
    local = [calendar.local(int(t)) for t in tariff.series.time_s.tolist()]
    day = np.array([date.toordinal() for date, _ in local])
    found = []
    for today in range(int(day[0]) + DAYS_BEFORE, int(day[-1]) + 1):
        before = (day >= today - DAYS_BEFORE) & (day < today)
        rows = np.flatnonzero(day == today)
        means = np.convolve(price[rows], np.full(HOURS, 1.0 / HOURS), "valid")
        at = int(np.argmax(means))
        if means[at] >= MULTIPLE * price[before].mean():
            row = int(rows[at])
            # An hour more or less on the two days on which clocks are changed.
            notice_s = local[row][1] + (24 - PUBLISHED_H) * HOUR_S
            found.append((float(tariff.series.time_s[row]), float(notice_s)))
    return found


def targets_of(hours: Sequence[tuple[float, float]], plain: Run, epoch_s: float, mean_w: float) -> LoadTargets:
    """Return the load targets on the clock of the jobs."""
    limit = max(LIMIT_SHARE * mean_w, plain.machine.idle_w)
    ramp = (mean_w - limit) / RAMP_S
    return LoadTargets.of(
        *(
            LoadTarget(begin - epoch_s, begin - epoch_s + HOURS * HOUR_S, limit, notice_s=notice,
                       ramp_w_per_s=max(ramp, 1.0), correlation_id=f"event-{k + 1}")
            for k, (begin, notice) in enumerate(hours)
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PriceYear:
    """One site in one year of prices: the run without targets, and what is needed to compare with it."""

    site: SimulatedSite
    plain: Run
    mean_w: float
    targets: LoadTargets
    prices: Tariff
    contract: Contract

    @classmethod
    def of(cls, prices: Tariff, *, load: float, seed: int = 0) -> PriceYear:
        """Simulate the year without targets, and derive them. Raises: InputError for prices without a dear day."""
        time, machine = prices.series.time_s, machine_of_year()
        epoch, length = float(time[0]), float(time[-1] - time[0])
        workload = jobs_of_year(load, length, seed)
        site = SimulatedSite(workload, machine, "dr-easy", epoch_s=epoch, estimator=ESTIMATOR)
        plain = site.run()
        power = Steps(plain.power.time_s, plain.power.machine_w)
        begin, end = float(power.time_s[0]), float(power.time_s[-1])
        mean_w = power.integral(begin, end) / (end - begin)
        hours = dear_hours(prices)
        if not hours:
            raise InputError("no day is dear enough for a target", where=prices.source.path, hint="give other prices")
        calendar, committed = SiteCalendar(zone_of(ZONE, "prices"), frozenset()), round(COMMITTED_SHARE * mean_w)
        contract = Contract("day-ahead", "EUR", calendar, BASELINE, committed, None, "zero", energy_per_mwh=None)
        return cls(site, plain, mean_w, targets_of(hours, plain, epoch, mean_w), prices, contract)

    def row(self, policy: str, share: float, seed: int = 0) -> YearRow:
        """Return a year under a policy in which a share of the users consents.

        Raises: InputError where other jobs ran with the targets than without.
        """
        jobs = with_consent_of(self.site.jobs, share, seed)
        site = replace(self.site, jobs=jobs, policy=policy)
        run, plain = site.run(self.targets), site.run()
        through = same_work(run, plain)
        if not through.open:
            raise InputError(f"no money follows from runs of different work: {through.why}", where=policy)
        meters = [within_prices(meter, self.prices) for meter in metered((run, plain), site, HOUR_S)]
        statements = self.statements(meters)
        given = consenting(jobs)
        both = run.schedule.ran & plain.schedule.ran
        added = np.where(both, run.schedule.end_s - plain.schedule.end_s, 0.0)
        lost = [float(added[who & both].mean()) if (who & both).any() else 0.0 for who in (given, ~given)]
        bills = [energy_bill(meter, self.contract, self.prices) for meter in meters]
        return YearRow(
            policy, share, len(self.targets), len(statements),
            sum(s.delivered_j for s in statements) / 3.6e9,
            sum(counterfactual_j(s) for s in statements) / 3.6e9,
            sum(s.payment for s in statements) / MICRO,
            (bills[1] - bills[0]) / MICRO,
            lost[0], lost[1], float((added * jobs.nodes).sum()) / HOUR_S, held_percent(run, self.targets),
        )  # fmt: skip

    def statements(self, meters: Sequence[MeterData]) -> list[EventStatement]:
        """Return the statement of each event whose history suffices for the baseline."""
        events = called_events(self.targets, self.contract, self.site.epoch_s, "targets")
        history, found = LoadHistory(meters[0], self.contract.calendar), []
        for event in events:
            try:
                found.append(
                    settle_event(event, events, history, self.contract, counterfactual=meters[1], prices=self.prices)
                )
            except InputError:  # too few days before it: such an event is counted as not settled
                continue
        return found


def within_prices(meter: MeterData, prices: Tariff) -> MeterData:
    """Return the intervals of a meter for which there is a price."""
    time = prices.series.time_s
    rows = meter.rows(int(time[0]), int(time[-1]) + HOUR_S)
    return replace(
        meter,
        begin_s=meter.begin_s + rows.start * HOUR_S,
        power_w=meter.power_w[rows],
        label=Labels(meter.label.codes[rows], meter.label.names),
    )


def counterfactual_j(statement: EventStatement) -> int:
    """Return the energy that the run without targets drew more, in joules."""
    return sum(
        (row.counterfactual_w - row.metered_w) * row.length_s
        for row in statement.rows
        if row.counterfactual_w is not None and row.metered_w is not None
    )


def held_percent(run: Run, targets: LoadTargets) -> float:
    """Return the share of the targets' time in which power was within them, in percent."""
    power = Steps(run.power.time_s, run.power.machine_w)
    inside = over = 0.0
    for begin, end, limit in zip(targets.start_s, targets.end_s, targets.limit, strict=True):
        watts, lengths = power.within(float(begin), float(end))
        inside, over = inside + float(lengths.sum()), over + float(lengths[watts > limit + 1e-6].sum())
    return 100.0 * (1.0 - over / inside)
