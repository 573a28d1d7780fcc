"""Have the session decide on the round: controls, then the pass (``live.decision``).

The policy's snapshot is built of the waiting jobs of which the policy decides, and of those that hold units. The arrays
of the former are kept while neither the queue nor what they depend on changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.live.decision import RoundFacts
from wattqueue.live.job_tables import (
    PendingJobs,
    consent_of,
    joined,
    offered,
    running_jobs,
    with_priorities,
    with_running,
)
from wattqueue.live.node_power import measured_over_w, readings_of
from wattqueue.live.planner import RoundState, stage
from wattqueue.live.stages.budget import alone_w, pool_under
from wattqueue.live.table import Slots, Stage
from wattqueue.model.signals import NO_SIGNALS
from wattqueue.parts.actions import Refusal, StartJob
from wattqueue.parts.contracts import Entries
from wattqueue.policy.consent_windows import KEPT_NEAREST, consented_windows, jobs_without_options
from wattqueue.policy.decide import PolicySnapshot


@stage(
    reads="snapshot power telemetry_ok limits happened asks_consent depends nodes running under_way holding "
    "holders taken withheld base_uw bare_w elsewhere_w without_nodes_w cap_w planned_s jobs.row jobs.name jobs.request "
    "jobs.first_s jobs.nodes jobs.walltime_s jobs.user_code jobs.app_code jobs.partition_code "
    "jobs.allowed jobs.option jobs.net_w jobs.part jobs.units jobs.intervals jobs.end_s "
    "jobs.variance_left jobs.consent",
    writes="never waiting view decision jobs.stage jobs.reason",
)
def decide(now: RoundState) -> None:
    """Build the policy's snapshot, and have the session decide on it."""
    planner, jobs = now.planner, now.jobs
    view = _view(now, _deciding(now))
    waiting = jobs.row[now.waiting]
    late = tuple(  # they are held again: the start is refused
        Refusal(StartJob(jobs.name[slot], -1, (), planner.memory.placed[jobs.row[slot].key].option), late_text(now))
        for slot in jobs.at([Stage.LATE])
    )
    facts = _facts(now) if planner.decider.asks else None
    now.decision = planner.decider.decide(view, facts, lambda row: planner.node_range(waiting[row])[1], late)
    now.view = now.decision.view
    planner.above.round(measured_over_w(now.decision.now, now.power, planner.layout), now.decision.answers.actions)


def late_text(now: RoundState) -> str:
    """Return why a released job is held again."""
    return f"it was not started within {now.planner.rules.start_timeout_s:.0f} s"


def _facts(now: RoundState) -> RoundFacts:
    """Return what the session compares with the round before."""
    planner, jobs = now.planner, now.jobs
    holders, rows = now.holding[: now.holders], jobs.row
    still = [s for s in holders if rows[s].state in ("stopped", "suspended") and jobs.stage[s] != Stage.PARKED]
    readings = now.power and planner.session.needs.reads_sensors
    return RoundFacts(
        now.nodes, jobs.name[jobs.queue].tolist(), jobs.name[holders].tolist(),
        jobs.name[[*now.under_way, *still]].tolist(), now.limits, planner.parking.resumes_w(jobs),
        planner.parking.happened(jobs.rows(now.running)) | now.happened, planner.memory.drained,
        readings_of(now.power, planner.layout) if readings else None,
    )  # fmt: skip


def _view(now: RoundState, pending: PendingJobs) -> PolicySnapshot:
    """Return what the policy decides on."""
    planner, jobs, slots = now.planner, now.jobs, np.array(now.holding, np.int64)
    rows = planner.predictor.rows((row.key for row in jobs.row[slots]), pending.prediction)
    prediction = replace(
        pending.prediction, row=np.concatenate((pending.row, rows if planner.asks_running else np.zeros_like(rows)))
    )
    alike = pending.rank is None and prediction.unit_factor is None  # tables by node have a row an application
    table = joined(pending.jobs, jobs, slots, named=planner.decider.asks and alike)
    signals = planner.announced.at(planner.left, now.now_s) if planner.looks_ahead else NO_SIGNALS
    elsewhere_w = float(now.elsewhere_w + now.without_nodes_w)
    entries, window, settings = pending.entries, pending.window, planner.settings
    if planner.asks_running and (settings.by_target or settings.looks_ahead or len(signals.targets)):
        known = np.array([planner.predictor.of(row.key) is not None for row in jobs.row[slots]], np.bool_)
        asked = table, entries, window, prediction, planner.layout.machine, signals
        entries, window = with_running(planner.policy.frequency, jobs, slots, known, asked)
    return PolicySnapshot(
        now.now_s, table, planner.layout.machine, prediction, entries, window, settings,
        running_jobs(jobs, slots, len(pending.jobs)), now.cap_w, elsewhere_w, now.base_uw, _unusable(now),
        pending.rank, signals=signals,
        planned_s=None if pending.planned_s is None else np.concatenate((pending.planned_s, now.planned_s)),
        alone_w=alone_w(now),
    )  # fmt: skip


def _unusable(now: RoundState) -> np.ndarray:
    """Return the units that no job may start on and no known job holds. Shape (u,).

    Units of known jobs are left out even where their node is down: the job's own row occupies them.
    """
    nodes = now.planner.nodes
    out = ~nodes.usable | nodes.hidden(now.taken)
    out[list(now.withheld)] = True
    out[list(now.taken)] = False
    return np.flatnonzero(out).astype(np.int32)


def _deciding(now: RoundState) -> PendingJobs:
    """Return the waiting jobs of which the policy decides; what can start under no limit to come is barred."""
    planner, pool = now.planner, now.snapshot.pool
    pending = _pending(now, now.waiting, telemetry_ok=now.telemetry_ok)
    predicted = pending if now.telemetry_ok else _pending(now, now.waiting, telemetry_ok=True)
    highest_w = float(planner.left.highest_from(np.array([now.now_s]))[0])
    if highest_w <= 0.0:  # closed, as while the cap's file cannot be read: nothing starts, and nothing is known
        return pending
    highest_w, _ = pool_under(highest_w, pool, now.base_uw, 0)
    target_w = planner.left.highest_in_target_w(planner.announced.targets, now.now_s)
    if target_w > 0.0:
        target_w, _ = pool_under(target_w, pool, now.base_uw, 0)
    left, why = planner.never.set_aside(pending, predicted, highest_w, now.base_uw, target_w=target_w)
    for slot, reason in why.items():
        now.jobs.bar(slot, reason)
    now.never, now.waiting = why, left.slots
    return left


def _report_without_options(now: RoundState, told: tuple[Any, ...]) -> None:
    """Report for how many waiting jobs the frequency part left no option, where a simulation counts them.

    All of them, for which a simulation is refused, keep the nearest as well: a controller goes on.
    """
    planner = now.planner
    try:
        count = jobs_without_options(planner.policy.frequency, *told)
    except PolicyError as error:
        planner.session.estimation.report(f"{error}; the jobs keep the nearest frequency")
        return
    if count:
        planner.session.estimation.report(f"{count} waiting {KEPT_NEAREST}")


def _pending(now: RoundState, slots: Slots, *, telemetry_ok: bool) -> PendingJobs:
    """Return waiting jobs as arrays, those of the last round while neither queue nor priorities changed."""
    planner, jobs, priority = now.planner, now.jobs, now.snapshot.site.priority
    depends = jobs.version, planner.left, now.depends
    last = planner.pending.get(telemetry_ok)
    if last is not None and (last[0] == depends and last[1] is priority and last[2].slots is slots):
        return last[2]
    policy, machine, predictor = planner.policy, planner.layout.machine, planner.predictor
    keys = [row.key for row in jobs.row[slots]]
    table = jobs.known_jobs(slots)
    if now.asks_consent:
        table = replace(table, consent=consent_of(jobs, slots))
    prediction = predictor.prediction(keys, telemetry_ok=telemetry_ok)
    table, prediction, rank = planner.placement.with_node_factors(table, prediction, telemetry_ok=telemetry_ok)
    ranked = with_priorities(table, keys, priority, planner.layout)
    entries = policy.order.entries(ranked, prediction, machine)
    if len(machine.partitions) > 1:  # those whose partition the job's own list names
        keep = (jobs.allowed[slots][entries.job] >> entries.partition) & 1 == 1
        entries = Entries(entries.job[keep], entries.partition[keep], entries.priority[keep])
    told = table, entries, prediction, machine, planner.announced.whole(planner.left)
    window = consented_windows(policy.frequency, *told)
    _report_without_options(now, told)
    row = np.zeros(0, np.int32) if prediction.row is None else prediction.row
    entries, window = offered(entries, window, prediction)
    planned_s = predictor.planned_s(keys, table.walltime_s)
    pending = PendingJobs(slots, table, prediction, row, entries, window, rank, planned_s)
    planner.pending[telemetry_ok] = depends, priority, pending
    return pending
