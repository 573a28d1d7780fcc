"""What the runs say: the curve of each configuration with its knee, the lowest safe cap, who pays, what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.machine import Machine
from wattqueue.policy.policy import Policy
from wattqueue.whatif.ask import Setup, asked_row, refuse_uncovered
from wattqueue.whatif.digest import Digest, hourly
from wattqueue.whatif.knee import knee
from wattqueue.whatif.payers import Extra, Hour, Payers, cost_of_hours, payers, worst_hours
from wattqueue.whatif.run import Ran
from wattqueue.whatif.safe import WATTS_KNOWN, Evidence, Verdict, correlation_time_s, judge


@dataclass(frozen=True, slots=True)
class Bill:
    """The whole machine from the first submission to the latest end of all runs, idling after a run's own end.

    So all runs are billed for the same time. Joules, money, grams; None without a series.
    """

    energy_j: float
    cost: float | None
    carbon: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One configuration under every cap. Tuples are in the order of the caps, the lowest first.

    ``plain`` is its run without a cap. ``at`` is the row that the page looks at: the one asked for, else the lowest
    safe cap, else the knee, else the lowest.
    """

    policy: str
    estimator: str
    label: str
    plain: Ran
    ran: tuple[Ran, ...]
    extra: tuple[Extra, ...]
    evidence: tuple[Evidence, ...]
    verdict: Verdict
    knee: int | None
    bills: tuple[Bill, ...]
    plain_bill: Bill
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Everything that page, table and files say. ``end_s`` is the latest end of all runs."""

    setup: Setup
    curves: tuple[Curve, ...]
    begin_s: float
    end_s: float
    partition: Labels

    def payers(self, curve: Curve, row: int) -> tuple[Payers, ...]:
        """Users, then partitions, by what the cap of ``row`` costs them."""
        jobs, ran_s = self.setup.jobs, curve.plain.end_s - curve.plain.start_s
        groups = (("user", jobs.user), ("partition", self.partition))
        return tuple(payers(kind, group, jobs, curve.extra[row], ran_s) for kind, group in groups)

    def hours(self, curve: Curve, row: int) -> tuple[Hour, ...]:
        """The worst hours of the cap of ``row``."""
        return worst_hours(self.setup.jobs, curve.extra[row], curve.plain.start_s, self.setup.zero_s)

    def hour_costs(self, curve: Curve, row: int) -> tuple[Floats, Floats]:
        """Every hour with submissions, and what the cap of ``row`` costs the jobs submitted in it, in node-hours."""
        return cost_of_hours(self.setup.jobs, curve.extra[row], self.setup.zero_s)


def conclude(setup: Setup, runs: Sequence[Sequence[Ran]]) -> Answer:
    """Draw the conclusions from all runs (``ask``).

    Raises: InputError where a price or intensity file does not last as long as the runs did.
    """
    begin = float(setup.jobs.submit_s.min())
    end = max(float(ran.power.edge_s[-1]) for row in runs for ran in row)
    refuse_uncovered(setup, end)
    curves = tuple(_curve(setup, name, row, end) for name, row in zip(setup.names, runs, strict=True))
    return Answer(setup, curves, begin, end, _partitions(setup, curves[0].plain))


def _curve(setup: Setup, name: tuple[str, str | None], runs: Sequence[Ran], end_s: float) -> Curve:
    plain, ran = runs[0], tuple(runs[1:])
    policy = setup.policy(name)
    extra = tuple(Extra.of((plain.start_s, plain.end_s), (r.start_s, r.end_s)) for r in ran)
    never = never_above(setup.jobs, setup.machine, policy)
    most = evidence_of(plain, setup.zero_s).looks
    evidence = tuple(
        replace(seen, looks=min(seen.looks, most), never=never, lost=int(e.lost.sum()))
        for seen, e in zip((evidence_of(r, setup.zero_s) for r in ran), extra, strict=True)
    )
    verdict = judge(evidence, setup.question.risk, _refusal(setup.jobs, plain, policy))
    wait = np.array([_figure(r, "wait_s_mean") for r in ran])
    whole = np.array([e.lost == 0 for e in evidence])
    found = knee(np.array([c.cap_w for c in setup.caps])[whole], wait[whole])
    bent = None if found is None else int(np.flatnonzero(whole)[found])
    asked = asked_row(setup)
    at = next((row for row in (asked, verdict.lowest, bent) if row is not None), 0)
    own = str(policy.row["estimator"])
    label = name[0] if name[1] is None else f"{name[0]}, {name[1]}"
    bills = tuple(_bill(setup, r.power, end_s) for r in ran)
    return Curve(
        name[0], own, label, plain, ran, extra, evidence, verdict, bent, bills, _bill(setup, plain.power, end_s), at
    )


def _figure(ran: Ran, name: str) -> float:
    value = ran.metrics.get(name)
    return np.nan if value is None else float(value)


def _bill(setup: Setup, power: Digest, end_s: float) -> Bill:
    idle = setup.machine.idle_w
    cost, carbon = (None if t is None else t.amount(power, idle, end_s) for t in (setup.prices, setup.intensity))
    return Bill(float(power.machine_j.sum()) + idle * (end_s - float(power.edge_s[-1])), cost, carbon)


def evidence_of(ran: Ran, zero_s: float) -> Evidence:
    """From the first submission to the end of the hour of the last start: the drain after it would dilute."""
    if not np.isfinite(ran.start_s).any():
        return Evidence(0.0, 0.0, 0.0)
    by_hour = hourly(ran.power, zero_s)[1]
    keep = by_hour.edge_s[:-1] <= np.nanmax(ran.start_s)
    length = np.diff(by_hour.edge_s)[keep]
    span = float(length.sum())
    tau = correlation_time_s(by_hour.scope_j[keep] / length)
    return Evidence(span, float(by_hour.over_s[keep].sum()), span / tau)


def never_above(jobs: Jobs, machine: Machine, policy: Policy) -> bool:
    """Whether no excess is possible: each job counts as the machine's maximum, and none drew more."""
    peak, most = jobs.peak_power_w(), [p.max_w for p in machine.partitions]
    known = [w for w in most if w is not None]
    if peak is None or len(known) < len(most) or policy.controls:
        return False
    counted = bool(getattr(policy.estimator, "machine_figures", False))
    return counted and float(np.nanmax(peak, initial=0.0)) <= min(known)


def _refusal(jobs: Jobs, plain: Ran, policy: Policy) -> str:
    """Why nothing can be called safe at all."""
    if getattr(policy.estimator, "knows_future", False):
        knows = f"{policy.row['estimator']} knows what jobs will draw, which nobody does"
        return f"{knows}: its caps bound what a predictor can reach"
    watts = jobs.max_power_w if jobs.mean_power_w is None else jobs.mean_power_w
    held = np.where(np.isfinite(plain.start_s), jobs.nodes * (plain.end_s - plain.start_s), 0.0)
    known = 0.0 if watts is None else float(held[np.isfinite(watts)].sum() / max(float(held.sum()), 1e-300))
    if known < WATTS_KNOWN:
        return (
            f"the watts of {100 * (1 - known):.3g} % of the node-hours are not in the data: nothing says what they draw"
        )
    return ""


def _partitions(setup: Setup, plain: Ran) -> Labels:
    """The trace's own partitions; the machine's, by where jobs ran without a cap, where the trace names none."""
    if (setup.jobs.partition.codes >= 0).any():
        return setup.jobs.partition
    return Labels(plain.partition.astype(np.int32), tuple(p.name for p in setup.machine.partitions))
