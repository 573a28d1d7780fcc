"""Design of incentives: at which multiple of a reward model's rates are centre and users best off together?

For each multiple the acceptance curve gives the share of users who consent. The site is simulated with the load targets
and that consent, and once without the targets. Compared with the run without them,

- the centre gets payments and a lower bill for energy and peak, and pays penalties and rewards;
- users get rewards, and lose the value of the node-hours that all jobs wait and run longer, those of users who do not
  consent among them; a job that gains by the event counts nothing.

Delivered power is measured against the simulated run without targets: a design is about what will be, and has no
meter. What a contract's baseline would make of it is the business of a settlement.

Of their jobs those that ask more for an added hour than the model gives at this multiple do not take part
(``participation``). Which users consent is drawn; figures are means over several draws. Reference: paper 5, section
2.2, which asks for an incentive system that takes the benefit of both sides into account, and names no formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.tariff import Tariff
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTargets
from wattqueue.sim.engine import Progress, Run
from wattqueue_grid.incentives.acceptance import AcceptanceCurve, with_consent_of
from wattqueue_grid.incentives.indexes import indexes
from wattqueue_grid.incentives.participation import consenting, with_participation
from wattqueue_grid.incentives.rewards import RewardModel
from wattqueue_grid.incentives.settle import ScheduledJobs, entries_of
from wattqueue_grid.incentives.site_runs import SimulatedSite, mean_watts, metered, same_work
from wattqueue_grid.meter import check_interval
from wattqueue_grid.money import micro
from wattqueue_grid.settlement.contract import Contract
from wattqueue_grid.settlement.energy_price import energy_bill, payment_rates
from wattqueue_grid.settlement.load_history import CalledEvent
from wattqueue_grid.settlement.statement import interval_row


@dataclass(frozen=True, slots=True)
class DesignInputs:
    """What a design is made of.

    Raises: InputError for an interval that does not divide an hour.
    """

    site: SimulatedSite
    targets: LoadTargets
    events: tuple[CalledEvent, ...]
    """The same targets as events in Unix time, with what is committed."""
    model: RewardModel
    curve: AcceptanceCurve
    contract: Contract
    prices: Tariff | None = None
    interval_s: int = 900
    draws: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        check_interval(self.interval_s, "--interval")


@dataclass(frozen=True, slots=True)
class DesignRow:
    """One multiple of the rates. Money in micro-units, means over the draws; quantities likewise."""

    multiple: Decimal
    user_share: float
    """Share of users who consent, by the curve."""
    work_share: float
    """Share of node-seconds of run time that is theirs."""
    added_wait_node_s: float
    added_run_node_s: float
    delivered_j: float
    payment: int
    penalty: int
    saved: int
    """Lower bill for energy and peak."""
    rewards: int
    loss: int
    """Value of the time that users lose."""
    by_draw: tuple[tuple[int, int], ...]
    """Gains of centre and users in each draw; the draws of two rates have the same users in the same places."""
    why: str = ""
    """Why there are no figures: in some draw other jobs ran than without targets. Amounts and quantities are then 0."""

    @property
    def centre(self) -> int:
        """Return what the centre gains."""
        return self.payment - self.penalty + self.saved - self.rewards

    @property
    def users(self) -> int:
        """Return what users gain."""
        return self.rewards - self.loss

    @property
    def total(self) -> int:
        """Return what both gain together; rewards cancel."""
        return self.centre + self.users

    @property
    def totals(self) -> tuple[int, ...]:
        """Return the sum of both sides by draw."""
        return tuple(map(sum, self.by_draw))

    @property
    def spread(self) -> int:
        """Return the standard deviation of the sum of both sides over the draws."""
        return round(float(np.std(self.totals))) if self.totals else 0


def design(inputs: DesignInputs, multiples: Sequence[Decimal], tell: Progress | None = None) -> list[DesignRow]:
    """Return one row per multiple of the rates.

    A row whose runs did other work than the run without targets has no figures (``DesignRow.why``). ``tell`` is called
    with (runs done, runs in all).

    Raises: InputError where reward model and contract are in different currencies, a multiple is negative, or no row
        has figures.
    """
    if inputs.model.currency != inputs.contract.currency:
        raise InputError(
            f"the reward model is in {inputs.model.currency}, the contract in {inputs.contract.currency}",
            where="--model",
            hint="state both in one currency",
        )
    negative = [m for m in multiples if m < 0]
    if negative or not multiples:
        raise InputError(
            f"{negative[0] if negative else 'no'} multiple of the rates", where="--rates", hint="0 or more"
        )
    inputs = replace(inputs, site=inputs.site.telling(tell, 1 + inputs.draws * len(set(multiples))))
    plain = inputs.site.run()
    rows = [_row(inputs, plain, multiple) for multiple in sorted(set(multiples))]
    if all(row.why for row in rows):
        raise InputError(
            f"no money follows from runs of different work: {rows[0].why}",
            where="--targets",
            hint="choose targets and a cap under which all jobs run",
        )
    return rows


def _row(inputs: DesignInputs, plain: Run, multiple: Decimal) -> DesignRow:
    """Return the means over the draws for one multiple."""
    share = inputs.curve.share(float(multiple))
    each = []
    for k in range(inputs.draws):
        jobs, run = _consented(inputs, multiple, share, inputs.seed + k)
        through = same_work(run, plain)
        if not through.open:
            return DesignRow(multiple, share, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, (), through.why)
        each.append(_draw(inputs, plain, multiple, jobs, run))
    count = len(each)
    work, wait, run, delivered = (sum(column) / count for column in zip(*(q for q, _ in each), strict=True))
    amounts = list(zip(*(amounts for _, amounts in each), strict=True))
    payment, penalty, saved, rewards, loss = (round(Fraction(sum(column), count)) for column in amounts)
    by_draw = tuple((paid - fine + less - given, given - lost) for _, (paid, fine, less, given, lost) in each)
    return DesignRow(multiple, share, work, wait, run, delivered, payment, penalty, saved, rewards, loss, by_draw)


def _consented(inputs: DesignInputs, multiple: Decimal, share: float, seed: int) -> tuple[Jobs, Run]:
    """Return one draw of consenting users, and the run with targets."""
    site = inputs.site
    jobs = with_participation(with_consent_of(site.jobs, share, seed), inputs.model.scaled(multiple))
    return jobs, site.run(inputs.targets, jobs)


def _draw(
    inputs: DesignInputs, plain: Run, multiple: Decimal, jobs: Jobs, run: Run
) -> tuple[tuple[float, float, float, float], tuple[int, int, int, int, int]]:
    """Return quantities and amounts of one draw of consenting users, as the fields of ``DesignRow``."""
    site, model = inputs.site, inputs.model.scaled(multiple)
    windows = list(zip(inputs.targets.start_s.tolist(), inputs.targets.end_s.tolist(), strict=True))
    all_jobs = indexes(jobs.nodes, np.ones(len(jobs), bool), run.schedule, plain.schedule, windows)
    wait, ran_longer = int(all_jobs.added_wait.sum()), int(all_jobs.added_run.sum())
    entries = entries_of(ScheduledJobs(jobs, run.schedule), plain.schedule, inputs.targets, model)
    payment, penalty, delivered = _grid(inputs, plain, run)
    meters = metered((plain, run), site, inputs.interval_s)
    bills = [energy_bill(meter, inputs.contract, inputs.prices) for meter in meters]
    loss = micro(inputs.curve.value_per_node_h, wait + ran_longer, 3_600)
    usage = all_jobs.usage
    work = float(usage[consenting(jobs)].sum()) / max(float(usage.sum()), 1.0)
    quantities = (work, float(wait), float(ran_longer), float(delivered))
    return quantities, (payment, penalty, bills[0] - bills[1], sum(e.reward for e in entries), loss)


def _grid(inputs: DesignInputs, plain: Run, run: Run) -> tuple[int, int, int]:
    """Return payment, penalty and delivered joules of all events, against the run without targets."""
    payment = penalty = delivered = 0
    step = inputs.interval_s
    for event in inputs.events:
        edges = np.arange(event.begin_s, event.end_s + 1, step, dtype=np.float64) - inputs.site.epoch_s
        watts = [np.round(mean_watts(r, edges)) for r in (run, plain)]
        rates = payment_rates(event, step, inputs.contract, inputs.prices)
        for k, rate in enumerate(rates):
            figures = (float(watts[0][k]), float(watts[1][k]), float("nan"))
            row = interval_row(event, inputs.contract, (event.begin_s + k * step, step), rate, "simulated", figures)
            payment, penalty = payment + row.payment, penalty + row.penalty
            delivered += (row.delivered_w or 0) * step
    return payment, penalty, delivered
