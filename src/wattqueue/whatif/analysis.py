"""Draw the conclusions from the runs of all caps.

For every configuration: the curve of each figure over the caps with its knee (``knee``), the lowest safe cap
(``safe``), users and hours that wait longer (``delayed_users``) and what the energy costs (``bill``). The result,
``CapAnalysis``, is the single source of the terminal table, the HTML page, the CSV files and the JSON document.

The knee is that of mean wait over the cap: below it waits rise steeply, above it a higher cap gains little. Smoothing
is left out because every point is a whole simulation: there is no noise between neighbours to remove.

Reference: Satopaa, Albrecht, Irwin, Raghavan, Finding a "Kneedle" in a Haystack: Detecting Knee Points in System
Behavior, ICDCS Workshops 2011, sections III and IV, for a falling convex curve, offline, without smoothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattqueue.model.comparability import Gate, gate
from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.machine import Machine
from wattqueue.policy.capabilities import resolve
from wattqueue.policy.oracles import marked, oracles_of
from wattqueue.policy.registry import Policy
from wattqueue.policy.rows import part_names
from wattqueue.whatif.delayed_users import DelayedUsers, Extra, Hour, cost_of_hours, delayed_users, worst_hours
from wattqueue.whatif.prepare import Setup, asked_row, refuse_uncovered
from wattqueue.whatif.run import Digest, RunSummary, hourly
from wattqueue.whatif.safe import WATTS_KNOWN, Evidence, SafeCaps, correlation_time_s, judge


@dataclass(frozen=True, slots=True)
class Bill:
    """Energy, cost and emission of one run's machine.

    A run is billed from its first submission to its own end, so that its bill does not depend on what else was asked. A
    low cap, whose run lasts longer, is billed for more idle time than a high one.

    Attributes:
        energy_j: Energy of the whole machine in joules, idle nodes included.
        cost: In the currency of the price series; None without one.
        carbon: In the unit of the intensity series, usually gCO2; None without one.
    """

    energy_j: float
    cost: float | None
    carbon: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One configuration under every cap. All tuples have one element per cap, the lowest cap first.

    Attributes:
        policy: Name of the policy.
        estimator: Name of the estimator that was used, the policy's own or the requested one.
        label: What tables and pictures call the configuration.
        oracle: Parts of the policy that know the future, by name; empty for none.
        plain: Its run without a cap, the reference for all differences.
        ran: Its run under each cap.
        gates: Whether the run under each cap may be compared with ``plain`` (``model.comparability``).
        extra: Additional wait and run time of each job under each cap, against ``plain``.
        evidence: What each run shows about the time above its cap.
        verdict: Which caps are safe by the data alone, and why.
        assumed: Which caps are safe if every job without watts draws the stated maximum of its nodes; None where the
            data know enough watts, where a part knows the future, and where a maximum is not stated.
        knee: Row of the knee of the mean wait; None where there is none.
        bills: Energy, cost and emission under each cap.
        plain_bill: The same without a cap.
        detail_row: Row that the page shows in detail: the one that ``--detail-cap`` names, else the lowest safe cap,
            else the knee if it holds, else the lowest cap that holds, else the highest cap.
        risk: Accepted share of time above the cap.
    """

    policy: str
    estimator: str
    label: str
    oracle: str
    plain: RunSummary
    ran: tuple[RunSummary, ...]
    gates: tuple[Gate, ...]
    extra: tuple[Extra, ...]
    evidence: tuple[Evidence, ...]
    verdict: SafeCaps
    assumed: SafeCaps | None
    knee: int | None
    bills: tuple[Bill, ...]
    plain_bill: Bill
    detail_row: int
    risk: float

    @property
    def without_effect(self) -> list[str]:
        """Return a sentence for each part of the policy that could act under none of the caps."""
        first, *others = (ran.without_effect for ran in self.ran)
        return [said for said in first if all(said in other for other in others)]

    @property
    def best(self) -> SafeCaps:
        """Return the verdict that names a cap where any does: that under the assumption, else that of the data."""
        return self.verdict if self.assumed is None else self.assumed

    def holds(self, row: int) -> bool:
        """Return whether a cap holds in its run: the work is done, and power is above it for the stated risk at most.

        This is what was seen; a safe cap (``verdict``) is one that the data certify beyond that.
        """
        return self.gates[row].open and self.evidence[row].share <= self.risk


@dataclass(frozen=True, slots=True, eq=False)
class CapAnalysis:
    """Everything that page, table and files show.

    Attributes:
        setup: The inputs.
        curves: One per configuration, in the order of ``setup.names``.
        begin_s: First submission, on the trace's clock.
        end_s: Latest end of all runs, on the same clock.
        partition: Partition of each job: the trace's own, else where it ran without a cap.
    """

    setup: Setup
    curves: tuple[Curve, ...]
    begin_s: float
    end_s: float
    partition: Labels

    def delayed_users(self, curve: Curve, row: int) -> tuple[DelayedUsers, ...]:
        """Return users and partitions, those with most additional waiting under the cap of ``row`` first.

        Nothing where the run may not be compared with the one without a cap.
        """
        if not curve.gates[row].open:
            return ()
        jobs, ran_s = self.setup.jobs, curve.plain.end_s - curve.plain.start_s
        groups = (("user", jobs.user), ("partition", self.partition))
        return tuple(delayed_users(kind, group, jobs, curve.extra[row], ran_s) for kind, group in groups)

    def hours(self, curve: Curve, row: int) -> tuple[Hour, ...]:
        """Return the hours of submission that wait most under the cap of ``row``, the worst first.

        Nothing where the run may not be compared with the one without a cap.
        """
        if not curve.gates[row].open:
            return ()
        return worst_hours(self.setup.jobs, curve.extra[row], curve.plain.start_s, self.setup.zero_s)

    def hour_costs(self, curve: Curve, row: int) -> tuple[Floats, Floats]:
        """Return the begin of every hour with submissions, and the additional node-hours of wait of its jobs.

        Shapes (h,).
        """
        return cost_of_hours(self.setup.jobs, curve.extra[row], self.setup.zero_s)


def analyse(setup: Setup, runs: Sequence[Sequence[RunSummary]]) -> CapAnalysis:
    """Draw the conclusions from all runs.

    Args:
        setup: The inputs of the runs.
        runs: One sequence per configuration: the run without a cap, then one per cap (what ``run_caps`` returns).

    Raises:
        InputError: A price or intensity series does not last as long as the runs did. Only the runs show how long the
            queue of the lowest cap takes to drain, so this cannot be checked before them.
    """
    begin = float(setup.jobs.submit_s.min())
    end = max(float(ran.power.edge_s[-1]) for row in runs for ran in row)
    refuse_uncovered(setup, end)
    curves = tuple(_curve(setup, name, row) for name, row in zip(setup.names, runs, strict=True))
    return CapAnalysis(setup, curves, begin, end, _partitions(setup, curves[0].plain))


def _curve(setup: Setup, name: tuple[str, str | None], runs: Sequence[RunSummary]) -> Curve:
    """Evaluate the runs of one configuration.

    Caps under which jobs never ran are left out of the knee: the mean wait of the jobs that still run is not
    comparable with the others. ``looks`` is limited by the run without a cap, because a longer queue adds no
    independent load.
    """
    plain, ran = runs[0], tuple(runs[1:])
    policy = setup.policy(name)
    gates = tuple(gate(plain.work, r.work, ("no cap", c.text)) for r, c in zip(ran, setup.caps, strict=True))
    extra = tuple(Extra.of((plain.start_s, plain.end_s), (r.start_s, r.end_s)) for r in ran)
    never = never_above(setup, policy)
    # A longer queue under a low cap stretches the run, but brings no additional jobs to observe.
    most = evidence_of(plain, setup.zero_s).looks
    evidence = tuple(
        replace(seen, looks=min(seen.looks, most), never=never, never_ran=int(e.never_ran.sum()))
        for seen, e in zip((evidence_of(r, setup.zero_s) for r in ran), extra, strict=True)
    )
    unknown = unknown_share(setup.jobs, setup.known_w, plain)
    verdict = judge(evidence, setup.question.risk, _refusal(unknown, policy, setup.machine))
    assumed = None
    if unknown > 1.0 - WATTS_KNOWN and not oracles_of(policy) and _states_maxima(setup.machine):
        assumed = judge(evidence, setup.question.risk)
    wait = np.array([_figure(r, "wait_s_mean") for r in ran])
    # Under a cap that leaves jobs the mean wait is over fewer jobs: such a point would bend the curve by itself.
    whole = np.array([found.open for found in gates])
    found = knee(np.array([c.cap_w for c in setup.caps])[whole], wait[whole])
    bent = None if found is None else int(np.flatnonzero(whole)[found])
    own = name[1] or part_names(policy.row["estimator"])
    oracle = oracles_of(policy)
    label = marked(name[0] if name[1] is None else f"{name[0]}, {name[1]}", oracle)
    bills = tuple(_bill(setup, r.power) for r in ran)
    curve = Curve(
        name[0],
        own,
        label,
        oracle,
        plain,
        ran,
        gates,
        extra,
        evidence,
        verdict,
        assumed,
        bent,
        bills,
        _bill(setup, plain.power),
        0,
        setup.question.risk,
    )
    return replace(curve, detail_row=_row_to_examine(setup, curve))


def _row_to_examine(setup: Setup, curve: Curve) -> int:
    """Return the row that the page shows in detail (``Curve.detail_row``)."""
    holding = [row for row in range(len(curve.ran)) if curve.holds(row)]
    bent = curve.knee if curve.knee in holding else None
    wanted = (asked_row(setup), curve.best.lowest, bent, *holding[:1])
    return next((row for row in wanted if row is not None), len(curve.ran) - 1)


def _figure(ran: RunSummary, name: str) -> float:
    """Return a metric of a run as a float, NaN where the run has none."""
    value = ran.metrics.get(name)
    return np.nan if value is None else float(value)


def _bill(setup: Setup, power: Digest) -> Bill:
    """Sum energy, cost and emission of a run up to its own end."""
    drawn = power.edge_s, power.machine_j
    cost, carbon = (None if t is None else t.amount(*drawn) for t in (setup.prices, setup.intensity))
    return Bill(float(power.machine_j.sum()), cost, carbon)


def evidence_of(ran: RunSummary, zero_s: float) -> Evidence:
    """Measure time above the cap from the first submission to the end of the hour of the last start.

    The drain after the last start is left out: the machine empties without new jobs, which would dilute the share of
    time above the cap. ``zero_s`` is where whole hours are counted from. Returns an empty ``Evidence`` where no job
    started.
    """
    if not np.isfinite(ran.start_s).any():
        return Evidence(0.0, 0.0, 0.0)
    by_hour = hourly(ran.power, zero_s)[1]
    keep = by_hour.edge_s[:-1] <= np.nanmax(ran.start_s)
    length = np.diff(by_hour.edge_s)[keep]
    span = float(length.sum())
    tau = correlation_time_s(by_hour.scope_j[keep] / length)
    return Evidence(span, float(by_hour.over_s[keep].sum()), span / tau)


def never_above(setup: Setup, policy: Policy) -> bool:
    """Return whether power above the cap is impossible by construction.

    True where the estimator counts each job at the machine's maximum, no job drew more than the lowest maximum of all
    partitions, and no control can change power after admission; not with physics, by which jobs may draw more where
    they run than where they were recorded. Then admission alone (rule 13 of docs/semantics.md)
    keeps the sum below every cap, and no amount of data is needed to show it.
    """
    jobs, machine = setup.jobs, setup.machine
    if setup.physics is not None:
        return False
    if not _states_maxima(machine) or policy.controls or not resolve(policy).machine_figures:
        return False
    peak = jobs.peak_power_w()
    # a job without watts is simulated at the maximum
    highest = 0.0 if peak is None else float(np.max(np.nan_to_num(peak), initial=0.0))
    return highest <= min(p.max_w or 0.0 for p in machine.partitions)


def _states_maxima(machine: Machine) -> bool:
    """Return whether the machine states the maximum watts of every unit."""
    return all(p.max_w is not None for p in machine.partitions)


def unknown_share(jobs: Jobs, watts: Floats | None, plain: RunSummary) -> float:
    """Return the share of the node-seconds of a run that belongs to jobs without known watts. Shape (n,)."""
    if watts is None:
        return 1.0
    held = np.where(np.isfinite(plain.start_s), jobs.nodes * (plain.end_s - plain.start_s), 0.0)
    return float(held[~np.isfinite(watts)].sum() / max(float(held.sum()), 1e-300))


def _refusal(unknown: float, policy: Policy, machine: Machine) -> str:
    """Return the reason why no cap at all can be certified by the data alone, empty where there is none.

    Two reasons: the estimator reads the future, which no production system can; or the data know the watts of too few
    node-seconds, so that the simulated power says little about the true one.
    """
    oracles = oracles_of(policy)
    if oracles:
        return (
            f"{oracles} reads the outcomes of jobs before they run, which are not available in production: its waits "
            "are a lower bound for real predictors"
        )
    if unknown > 1.0 - WATTS_KNOWN:
        more = "" if _states_maxima(machine) else ", and the machine states no maximum (max_w) to count in its place"
        return f"the power of {100 * unknown:.3g} % of the node-hours is not in the data{more}"
    return ""


def _partitions(setup: Setup, plain: RunSummary) -> Labels:
    """Return the partition of each job: the trace's own label, else where it ran without a cap."""
    if (setup.jobs.partition.codes >= 0).any():
        return setup.jobs.partition
    return Labels(plain.partition.astype(np.int32), tuple(p.name for p in setup.machine.partitions))


SENSITIVITY = 1.0
"""Kneedle's S: how many mean steps the curve must come back from its farthest point."""
LEAST_RISE = 0.05
"""Waits that rise by less than this share of the least wait make a flat curve."""
LEAST_RISE_S = 60.0
"""Nor does a rise of less than this."""
LEAST_POINTS = 4
"""Curves with fewer caps have no knee: it must lie inside, with a neighbour on each side."""


def knee(cap_w: Floats, wait_s: Floats) -> int | None:
    """Return the row of the knee of a falling curve; None where it is flat, straight, or has no knee inside.

    Both axes are scaled to 0..1. With d = (1 - x) - y, the distance below the line from the lowest to the highest
    cap, the knee is where d is greatest, provided that d falls from there by S mean steps of x before it ends
    (Kneedle's threshold), so that a straight line has none. Shapes (k,); caps must be in rising order.
    """
    if len(cap_w) < LEAST_POINTS or not np.isfinite(wait_s).all():
        return None
    low, high = float(wait_s.min()), float(wait_s.max())
    if high - low < max(LEAST_RISE_S, LEAST_RISE * low):
        return None
    x = (cap_w - cap_w[0]) / (cap_w[-1] - cap_w[0])
    distance = (1.0 - x) - (wait_s - low) / (high - low)
    at = int(np.argmax(distance))
    threshold = distance[at] - SENSITIVITY * float(np.mean(np.diff(x)))
    fell = bool((distance[at:] < threshold).any())
    return at if distance[at] > 0 and fell and 0 < at < len(x) - 1 else None
