"""Rule 19 (Progress) as an oracle: after each instant of a run, does a job wait that had to start?

Written from the text of the rule, on what is true of the world: unit states, jobs of the log, the signals. Of the
engine it takes the tables of entries and predictions, never a budget, a ledger or a queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest.mock import patch

import numpy as np

from wattqueue.kernels import codes
from wattqueue.parts.backfill.announced_caps import AnnouncedCaps
from wattqueue.parts.controls.energy_budgets import EnergyBudgets
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.build import time_factors, unit_uw
from wattqueue.sim.engine import Run, Simulation

SLOWEST = 3.0
"""By so much the lowest clock of the tests' machines stretches a job at most."""
ROUNDED_MJ = 1_000
SETTLED = (codes.UNIT_ON, codes.UNIT_OFF, codes.UNIT_DOWN, codes.UNIT_DRAINING)


def watch(simulation: Simulation) -> tuple[Run, list[str]]:
    """Run a simulation to its end; return the run, and what broke the rule after one of its instants."""
    found: list[str] = []
    resume = simulation._bound_run

    def one_instant() -> Callable[[], int]:
        simulation.truth.loop.event_limit = 1
        return resume()

    def look(*_: int) -> None:
        if stuck := stuck_job(simulation):
            found.append(stuck)

    with patch.object(simulation, "_bound_run", one_instant):
        simulation.go(look)
    return simulation.result(), found


def stuck_job(simulation: Simulation) -> str:
    """Return the job that had to start in the pass of this instant, in words; empty where the rule holds."""
    view, truth, log = simulation.view, simulation.truth, simulation.log
    time_s = float(view.now.time_s)
    if view.now.last_pass_s != time_s or not np.isin(truth.unit_state, SETTLED).all():
        return ""  # no pass at this instant, or a node on its way
    if (log.state == codes.RUNNING_NOW).any():
        return ""  # a job runs, or is suspended and holds its units
    waiting = np.flatnonzero(log.state == codes.WAITING)
    if not len(waiting):
        return ""
    for entry in eligible(simulation, set(waiting.tolist())):
        if fits(simulation, entry, time_s):
            job = simulation.jobs.job_id[view.entries.job[entry]]
            return f"at {time_s:g} s nothing runs, and job {job} would fit at its maximum"
    return ""


def eligible(simulation: Simulation, waiting: set[int]) -> list[int]:
    """Return the entries that the rule allows to start: all, the first of the queue depth, or the heads alone."""
    needs, entries = simulation.session.needs, simulation.view.entries
    queue = [e for e in range(len(entries.job)) if int(entries.job[e]) in waiting]
    queue.sort(key=lambda e: int(entries.rank[e]))
    if needs.custom_pass is not None:
        part = simulation.session.needs.pass_part
        if not isinstance(part, AnnouncedCaps) or type(needs.ledger_part) is not Predicted:
            return []  # a pass in Python decides itself; this one keeps the rule where its ledger is ``predicted``
        return queue if part.overtake else queue[:1]
    if needs.rerank is not None:
        # The order of this pass is the part's own: with all entries eligible, the order does not matter.
        return queue if not needs.queue_depth and needs.pass_code not in (codes.NO_BACKFILL, codes.LAST_END) else []
    if needs.pass_code in (codes.NO_BACKFILL, codes.LAST_END):
        heads: dict[int, int] = {}
        for entry in queue:
            heads.setdefault(partition_of(simulation, entry), entry)
        queue = [e for e in queue if e in heads.values()]
    return queue[: needs.queue_depth or len(queue)]


def partition_of(simulation: Simulation, entry: int) -> int:
    return int(simulation.machine.option_partition[simulation.view.entries.first[entry]])


def fits(simulation: Simulation, entry: int, now: float) -> bool:
    """Whether units are free for an entry, and its maximum is within every limit up to its planned end."""
    s, view = simulation, simulation.view
    job, p = int(view.entries.job[entry]), partition_of(simulation, entry)
    partition = np.repeat(np.arange(len(s.machine.partitions)), [part.units for part in s.machine.partitions])
    nodes = int(s.jobs.nodes[job])
    delayed = len(view.planned.not_before) > 0 and view.planned.not_before[job] > now
    if delayed and not lacks_no_budget(s, job, now):
        return False
    if nodes > int(((partition == p) & (s.truth.unit_state == codes.UNIT_ON)).sum()):
        return False
    first, last, plain = (int(side[entry]) for side in (view.entries.first, view.entries.last, view.entries.plain))
    signals, needs = s.world.signals, s.session.needs
    in_target = bool(((signals.targets.start_s <= now) & (now < signals.targets.end_s)).any())
    if needs.by_target and in_target and last > plain:
        first = last
    elif not in_target:
        last = plain
    at = np.array([now])
    limit = float(signals.limit().at(at)[0])
    if needs.ramped and view.now.ramp_uw_per_s:
        limit = min(limit, float(view.now.cap_uw) / codes.MICRO)
    for option in range(first, last + 1):
        drawn = base_w(s) + maximum_w(s, p, job, option)
        factor = float(time_factors(view.predicted, np.array([job]), np.array([option]))[0])
        end = now + max(float(view.planned.seconds[job]) * factor, 1e-6)
        limits = [limit, *(watts for begin, watts in announced(s, now) if begin < end)]
        if drawn <= min(limits) + 1e-7 and lets_it_run(s, job, limits):
            return True
    return False


def lacks_no_budget(simulation: Simulation, job: int, now: float) -> bool:
    """Whether no budget has a reason to delay a job: none waits before it, and its most fits beside what was used.

    What was used is that of the jobs that have ended, by the log; nothing runs.
    """
    controls = [one for one in simulation.session.needs.controls if isinstance(one, EnergyBudgets)]
    log, jobs = simulation.log, simulation.jobs
    if len(controls) != len(simulation.session.needs.controls) or not controls:
        return False  # another control may have delayed it
    names, codes_ = jobs.user.names, jobs.user.codes
    submitted = np.asarray(jobs.submit_s)
    before = [
        k for k in np.flatnonzero(log.state == codes.WAITING).tolist() if (submitted[k], k) < (submitted[job], job)
    ]
    part = max(simulation.machine.partitions, key=lambda one: one.max_w or math.inf)
    for one in controls[0].budgets:
        if not one.concerns(names[codes_[job]]):
            continue
        if any(one.concerns(names[codes_[k]]) for k in before):
            return False
        used: dict[int, int] = {}
        for k in np.flatnonzero(np.isin(log.state, (codes.COMPLETED, codes.KILLED))).tolist():
            if one.concerns(names[codes_[k]]):
                start_s, end_s = float(log.start[k]), float(log.end[k])
                watts = float(log.energy_j[k]) / max(end_s - start_s, 1e-9)
                for period, amount in one.used(watts, start_s, end_s).items():
                    used[period] = used.get(period, 0) + amount + ROUNDED_MJ
        span_s = SLOWEST * float(jobs.walltime_s[job])
        ends = log.end[np.isin(log.state, (codes.COMPLETED, codes.KILLED))]
        looked_s = max(
            float(one.edge_s[one.period(now)]) if one.period(now) >= 0 else 0.0, submitted[job], *ends.tolist()
        )
        for at_s in (looked_s, now):  # it is decided at the begin of a period, and when something was freed
            watts = (part.max_w or math.inf) * int(jobs.nodes[job])
            most = one.most(watts, span_s, at_s, at_s + controls[0].period_s)
            if any(used.get(period, 0) + amount > one.limit(period) for period, amount in most.items()):
                return False
    return True


def lets_it_run(simulation: Simulation, job: int, limits: list[float]) -> bool:
    """Whether the job's user lets it run under a cap (the pass ``announced-caps``)."""
    stated = simulation.jobs.extra.get("capped_windows")
    if not isinstance(simulation.session.needs.pass_part, AnnouncedCaps) or stated is None or stated[job]:
        return True
    return not any(math.isfinite(watts) for watts in limits)


def announced(simulation: Simulation, now: float) -> list[tuple[float, float]]:
    """Times and watts of the limits that the pass looks ahead to."""
    signals, needs = simulation.world.signals, simulation.session.needs
    if isinstance(needs.pass_part, AnnouncedCaps) or needs.all_limits:
        return [*zip(*(column.tolist() for column in signals.caps_after(now)), strict=True)]
    if not needs.looks_ahead:
        return []
    targets, known = signals.targets, []
    for k in range(len(targets)):
        if targets.announced_s[k] <= now < targets.start_s[k]:
            begin = float(targets.start_s[k])
            known.append((begin, min(float(targets.limit[k]), signals.cap.in_force_w(begin))))
    return [min(known)] if known else []


def base_w(simulation: Simulation) -> float:
    """Idle watts that the cap covers beside a job, by the states of nodes that are not on their way."""
    s = simulation
    if s.machine.cap_scope != "machine":
        return 0.0
    total, unit = 0.0, 0
    for part in s.machine.partitions:
        each = part.units // part.nodes
        for _ in range(part.nodes):
            on = s.truth.unit_state[unit] in (codes.UNIT_ON, codes.UNIT_DRAINING)
            off = s.truth.unit_state[unit] == codes.UNIT_OFF
            total += each * part.idle_w if on else part.off_w if off else 0.0
            unit += each
    return total


def maximum_w(simulation: Simulation, p: int, job: int, option: int) -> float:
    """What a job adds to the watts in the cap's scope with all its units at their stated maximum.

    As predicted where no maximum is stated; the greater one where units differ.
    """
    s, part = simulation, simulation.machine.partitions[p]
    unit = float(unit_uw(s.view.predicted, job, option)) / codes.MICRO
    differ = s.view.by_unit.factors.table.shape[0] > 0
    if differ:
        unit *= float(s.view.by_unit.factors.table.max())
    most = unit if part.max_w is None else max(unit, part.max_w) if differ else part.max_w
    idle = 0.0 if s.machine.cap_scope == "jobs" else part.idle_w
    return float(s.jobs.nodes[job]) * max(most - idle, 0.0)
