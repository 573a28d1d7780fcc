"""How long watts may exceed the budget under redistributed caps, by a bound and on recorded ramps.

The control takes a step every ``period_s`` and reads mean watts of the period before. Caps in force never sum to more
than the budget: what is lowered is in force ``write_s`` after the step, what is raised is written when that has been
confirmed, and in force ``write_s`` later. So only two things let watts exceed the budget:

* a socket exceeds its own cap until its hardware holds it, for at most ``settle_s`` after its demand rose above the
  cap, or the cap came down below what it draws (once a period);
* the budget itself came down: until the caps have followed.

Hence, in a period in which the demand of some socket rises above its cap at m moments (those up to ``settle_s`` before
the period count, too)::

    seconds above the budget <= min(period_s, (m + 1) settle_s)                           the budget is constant
    seconds above the budget <= period_s + write_s + settle_s after the budget came down

whatever the height of the ramps. Their speed counts: where demand moves every ``ramp_s`` there are up to
``period_s / ramp_s`` moments a period, so that the share of time above a constant budget is at most::

    settle_s / ramp_s + settle_s / period_s

which says nothing once ramps are as short as the hardware needs to settle: no period, however short, makes the first
term less. Samples that are longer than the ramps of a machine hide this. A *guard*, a share of the budget that no cap
gets, bounds the height instead: where few sockets rise at once, their rise stays within it.

In the simulator hardware holds a cap at once, and writing takes no time: nothing is above a constant budget, and after
a lower one at most a period is. What no limit reduces (idle watts) must fit into the budget. Nodes without a limit in
hardware (montblanc) have no such bound: there a ramp exceeds the budget for as long as it lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from wattqueue.model.steps import rows_at
from wattqueue.parts.contracts import Floats
from wattqueue.parts.controls.rapl_redistribution import PERIOD_S, redistribute
from wattqueue.report.document import Table
from wattqueue_studies.clustercockpit import NodeSeries

WRITE_S = 0.25
"""Seconds until a cap that was written is in force: assumed."""
SETTLES_S = (0.25, 1.0)
"""Seconds until hardware holds its cap: assumed; RAPL averages over a time that systems set, often about 1 s."""
BUDGETS = (0.6, 0.8, 0.95)
"""Budgets as shares of the highest demand."""
RAMPS_S = (15.0, 4.0, 2.0, 1.0, 0.57, 0.5)
"""Seconds that a move of demand takes: 15 is the sampling of the recorded machine, the others are assumed."""
RAMP_BUDGET = 0.8
"""Budget for them, as a share of the highest demand."""
VARIED = ((1.0, 0.0), (PERIOD_S, 0.1), (PERIOD_S, 0.2))
"""What is tried against it: a period of a second, and guards of a tenth and a fifth of the budget."""
ROUNDING_W = 1e-3
MILLI = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What each of S sockets would draw without a cap, one row a sample of ``sample_s``. Shape (k, S)."""

    name: str
    sample_s: float
    watts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Overshoot:
    """Seconds above the budget in each period of a replay, and the bound. Shapes (periods,).

    Attributes:
        over_s: Under redistributed caps.
        bound_s: What the bound allows.
        free_s: Without any cap.
        excess_w: Greatest excess under caps.
    """

    over_s: Floats
    bound_s: Floats
    free_s: Floats
    excess_w: float


class CappedSockets:
    """S sockets whose hardware holds a cap some time after it was exceeded. Times are whole milliseconds."""

    def __init__(self, cap_w: Floats, settle_ms: int) -> None:
        self.cap_w, self.settle_ms = cap_w, settle_ms
        self.demand_w, self.drawn_w, self.late_w = (np.zeros(len(cap_w)) for _ in range(3))
        self.until_ms = np.full(len(cap_w), -1, np.int64)
        """Until when each socket may exceed its cap, by drawing ``late_w``."""

    def draw(self, now_ms: int) -> float:
        """Return the watts of all sockets from now on."""
        late = (self.demand_w > self.cap_w) & (now_ms < self.until_ms)
        self.drawn_w = np.minimum(self.demand_w, np.where(late, self.late_w, self.cap_w))
        return float(self.drawn_w.sum())

    def want(self, demand_w: Floats, now_ms: int) -> bool:
        """Let the sockets want other watts; return whether the demand of some rises above its cap."""
        rises = (demand_w > self.demand_w) & (demand_w > self.cap_w)
        self.demand_w = demand_w
        self.late_w[rises], self.until_ms[rises] = demand_w[rises], now_ms + self.settle_ms
        return bool(rises.any())

    def limit(self, cap_w: Floats, now_ms: int) -> None:
        """Put other caps in force; who draws more than a lowered cap does so until its hardware holds it."""
        falls = (cap_w < self.cap_w) & (self.drawn_w > cap_w)
        self.late_w[falls], self.until_ms[falls] = self.drawn_w[falls], now_ms + self.settle_ms
        self.cap_w = cap_w


def replay(
    demand: Demand, budget_w: float, settle_s: float, period_s: float = PERIOD_S, guard: float = 0.0
) -> Overshoot:
    """Replay a demand under caps that are redistributed every ``period_s``, from even ones on.

    Caps sum to the budget less the share ``guard`` of it; what is above the budget itself counts. Every moment at
    which something changes is looked at, so that seconds are exact to the millisecond.
    """
    sockets, capped_w = demand.watts.shape[1], (1.0 - guard) * budget_w
    period, write, settle, sample = (round(MILLI * s) for s in (period_s, WRITE_S, settle_s, demand.sample_s))
    machine = CappedSockets(np.full(sockets, capped_w / sockets), settle)
    machine.drawn_w = np.minimum(demand.watts[0], machine.cap_w)
    machine.demand_w = demand.watts[0]
    count = len(demand.watts) * sample // period
    over, free, bound = np.zeros(count), np.zeros(count), np.zeros(count)
    read_w, excess, rises = machine.drawn_w, 0.0, [-settle - 1]
    for k in range(count):
        begin, end = k * period, (k + 1) * period
        asked = redistribute(read_w, machine.cap_w, spare_w=max(0.0, capped_w - float(machine.cap_w.sum())))
        lowered, energy = np.minimum(asked, machine.cap_w), np.zeros(sockets)
        samples = {t for t in range(-(-begin // sample) * sample, end, sample) if t > 0}
        moments = {begin, begin + write, begin + 2 * write, *samples, *(t + settle for t in (*samples, rises[-1]))}
        moments |= {begin + write + settle, begin + 2 * write + settle, end}
        times = sorted(t for t in moments if begin <= t <= end)
        for now, until in pairwise(times):
            if now in samples and machine.want(demand.watts[now // sample], now):
                rises.append(now)
            if now in (begin + write, begin + 2 * write):
                machine.limit(lowered if now == begin + write else asked, now)
            drawn, seconds = machine.draw(now), (until - now) / MILLI
            energy += machine.drawn_w * seconds
            over[k] += seconds * (drawn > budget_w + ROUNDING_W)
            free[k] += seconds * (machine.demand_w.sum() > budget_w + ROUNDING_W)
            excess = max(excess, drawn - budget_w)
        bound[k] = min(period_s, settle_s * (1 + sum(t > begin - settle for t in rises)))
        rises = rises[-1:]
        read_w = energy / period_s
    return Overshoot(over, bound, free, excess)


def wide_job(name: str, sample_s: float, watts: Floats, spread: Floats) -> Demand:
    """Return the demand of sockets that follow one machine's power, at different heights. Shapes (k,), (S,)."""
    return Demand(name, sample_s, watts[:, np.newaxis] * (spread / spread.sum()))


def node_demand(name: str, series: Sequence[NodeSeries], sample_s: float) -> Demand:
    """Return the demand of nodes with a series each, on one grid; a missing sample is the one before it."""
    grid = np.arange(0.0, max(float(one.time_s[-1]) for one in series) + sample_s, sample_s)
    columns = [one.watts[np.clip(rows_at(one.time_s, grid), 0, None)] for one in series]
    return Demand(name, sample_s, np.stack(columns, axis=1))


def overshoot_table(demands: Sequence[Demand]) -> tuple[Table, list[dict[str, Any]]]:
    """Return the table of seconds above the budget, and its figures."""
    rows: list[list[str]] = []
    figures: list[dict[str, Any]] = []
    for demand in demands:
        top = float(demand.watts.sum(axis=1).max())
        for share in BUDGETS:
            for settle_s in SETTLES_S:
                found = replay(demand, share * top, settle_s)
                within = bool((found.over_s <= found.bound_s + 1e-9).all())
                figures.append({
                    "demand": demand.name, "budget": share, "settle_s": settle_s,
                    "free_s": float(found.free_s.sum()), "over_s": float(found.over_s.sum()),
                    "most_s": float(found.over_s.max()), "excess": found.excess_w / (share * top),
                    "periods": float(len(found.over_s)), "within": float(within),
                })  # fmt: skip
                rows.append([
                    demand.name, f"{100 * share:g} %", f"{settle_s:g}", f"{found.free_s.sum():,.0f}",
                    f"{found.over_s.sum():,.2f}", f"{found.over_s.max():.2f}",
                    f"{100 * found.excess_w / (share * top):.1f}", "yes" if within else "NO",
                ])  # fmt: skip
    heads = (
        "demand", "budget,\nof the highest", "hardware\nsettles in s", "without caps\nabove, s", "with caps\nabove, s",
        "most in\na period, s", "most above\n% of budget", "every period\nin the bound",
    )  # fmt: skip
    note = (
        "Bound: seconds above a constant budget in a period <= (m + 1) x settling time, where the demand of a socket "
        "rises above its cap at m moments. Settling and writing (0.25 s) are assumed."
    )
    title = f"Overshoot of redistributed caps, a step every {PERIOD_S:g} s"
    return Table(heads, rows, title, note, key="overshoot"), figures


def ramp_table(demand: Demand) -> tuple[Table, list[dict[str, Any]]]:
    """Return what one machine's moves leave above a budget where each takes another time, and its figures.

    The samples of the demand are played at each of ``RAMPS_S``, with and without a shorter period and a guard.
    """
    budget_w = RAMP_BUDGET * float(demand.watts.sum(axis=1).max())
    rows: list[list[str]] = []
    figures: list[dict[str, Any]] = []
    for settle_s in SETTLES_S:
        for ramp_s in RAMPS_S:
            played = replace(demand, sample_s=ramp_s)
            found = replay(played, budget_w, settle_s)
            variants = [replay(played, budget_w, settle_s, period_s, guard) for period_s, guard in VARIED]
            time_s = len(found.over_s) * PERIOD_S
            whole = 100.0 * float((found.bound_s >= PERIOD_S).mean())
            above = [100.0 * float(each.over_s.sum()) / time_s for each in (found, *variants)]
            bound = 100.0 * min(1.0, settle_s / ramp_s + settle_s / PERIOD_S)
            rows.append([
                f"{ramp_s:g} s, settles in {settle_s:g} s", f"{bound:.0f}", f"{whole:.0f}",
                *(f"{share:.2f}" for share in above), f"{100 * found.excess_w / budget_w:.1f}",
            ])  # fmt: skip
            figures.append({
                "ramp_s": ramp_s, "settle_s": settle_s, "bound_percent": bound, "whole_periods_percent": whole,
                "above_percent": above, "excess_percent": 100.0 * found.excess_w / budget_w,
            })  # fmt: skip
    heads = (
        "a move takes,\nhardware", "bound: %\nof time", "periods whose\nbound is all, %", "above, %\nof time",
        *(f"guard\n{100 * g:g} %" if g else f"period\n{p:g} s" for p, g in VARIED), "most above\n% of budget",
    )  # fmt: skip
    note = (
        f"The recorded samples, played at other times each (assumed). Budget {100 * RAMP_BUDGET:g} % of the "
        f"highest, a step every {PERIOD_S:g} s. Bound: settling / move + settling / period."
    )
    return Table(heads, rows, f"Overshoot by the time that a move takes: {demand.name}", note, key="ramps"), figures
