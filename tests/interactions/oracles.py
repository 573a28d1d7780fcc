"""What holds in every cell of the interaction matrix, whatever features meet.

Each oracle looks at a run and its instants and returns what it finds, in words; nothing for nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tests.interactions.counters import both
from tests.interactions.watch import Instant, Ints, Trace, net_uw
from tests.interactions.worlds import Draft
from tests.policy.test_decide import BySnapshot
from tests.sim.invariants import check_invariants
from wattqueue.kernels import codes
from wattqueue.model.signals import RiseScale, capped
from wattqueue.sim.engine import Run

Oracle = Callable[[Draft, Trace], Iterator[str]]
LICENSED = ("maximum", "oracle-max")
"""Estimators that never predict too little: true power keeps the cap."""


def conservation(draft: Draft, trace: Trace) -> Iterator[str]:
    """Units, jobs and watts are neither lost nor counted twice; energy is the integral of power."""
    try:
        check_invariants(trace.run)
    except AssertionError as error:
        yield f"invariants of a run: {str(error).splitlines()[:1]}"
    machine, jobs = trace.run.machine, trace.run.jobs
    partition = np.repeat(np.arange(len(machine.partitions)), [p.units for p in machine.partitions])
    queue_of, late = trace.simulation.view.entries.job, trace.simulation.view.planned.not_before
    for now in trace.instants:
        at = f"at {now.now_s:g} s"
        if (now.owner == -2).any():
            yield f"{at} two jobs hold unit {int(np.argmax(now.owner == -2))}"
        held = np.bincount(now.owner[now.owner >= 0], minlength=len(jobs))
        if (held[now.running] != jobs.nodes[now.running]).any():
            yield f"{at} a running job holds fewer units than it asked for"
        usable = (now.unit_state == codes.UNIT_ON) & (now.owner == -1)
        free = np.bincount(partition[usable], minlength=len(machine.partitions))
        if (free != now.free).any():
            yield f"{at} {now.free.tolist()} units are free, {free.tolist()} powered ones run no job"
        busy = now.unit_state[now.owner >= 0]
        if not np.isin(busy, (codes.UNIT_ON, codes.UNIT_DRAINING)).all():
            yield f"{at} a job holds a unit that is not powered"
        if now.scalars.ledger_uw != now.net.sum():
            yield f"{at} the ledger counts {now.scalars.ledger_uw} uW, its jobs {now.net.sum()}"
        waiting = {int(job) for job in queue_of[now.queue]}
        if len(late):  # those that are delayed are in no listing of the queue
            waiting |= set(np.flatnonzero((late > now.now_s) & (now.state == codes.WAITING)).tolist())
        if waiting & set(now.running.tolist()):
            yield f"{at} a running job is queued"
        submitted = (jobs.submit_s <= now.now_s).sum()
        out = (now.state == codes.NOT_STARTED) & (jobs.submit_s <= now.now_s)  # no limit to come lets them start
        ended = (np.isin(now.state, (codes.COMPLETED, codes.KILLED, codes.REJECTED)) | out).sum()
        if submitted != len(waiting) + len(now.running) + ended:
            yield f"{at} {submitted} jobs were submitted; {len(waiting)} wait, {len(now.running)} run, {ended} ended"


def base_uw(trace: Trace, now: Instant) -> int:
    """Idle watts that the cap covers and no job does, by the states of the nodes (rule 14)."""
    machine = trace.run.machine
    if machine.cap_scope != "machine":
        return 0
    total, unit = 0.0, 0
    for p in machine.partitions:
        per = p.units // p.nodes
        for _ in range(p.nodes):
            state = int(now.unit_state[unit])
            unit += per
            watts = {
                codes.UNIT_ON: per * p.idle_w,
                codes.UNIT_DRAINING: per * p.idle_w,
                codes.UNIT_STOPPING: max(p.shutdown_w, p.off_w),
                codes.UNIT_OFF: p.off_w,
                codes.UNIT_BOOTING: max(p.boot_w, per * p.idle_w),
                codes.UNIT_DOWN: 0.0,
            }
            total += watts[state]
    return codes.microwatts(total)


def started(before: Instant | None, now: Instant) -> list[int]:
    """Rows of jobs that run and did not, or draw again."""
    if before is None:
        return [int(job) for job in now.running]
    then = dict(zip(before.running.tolist(), before.parked.tolist(), strict=True))
    pairs = zip(now.running.tolist(), now.parked.tolist(), strict=True)
    return [job for job, parked in pairs if job not in then or (then[job] and not parked)]


def cap(draft: Draft, trace: Trace) -> Iterator[str]:
    """The ledger has room for what starts, with its margin; true power keeps the cap where predictions are true."""
    licensed = promises_licences(draft)
    before: Instant | None = None
    for now in trace.instants:
        at, scalars = f"at {now.now_s:g} s", now.scalars
        limited = scalars.cap_uw < codes.NO_CAP
        new = started(before, now)
        base = base_uw(trace, now)
        if abs(int(scalars.base_uw) - base) > 1:
            yield f"{at} the base is {scalars.base_uw} uW, by the states of nodes {base}"
        room = int(scalars.cap_uw) - base - int(now.net.sum())
        by_margin = scalars.by_chance and not scalars.by_sample
        if alone_at_most(trace, now):
            new = []  # rule 19
        if limited and new and not now.limited and not by_margin and room < -1:
            yield f"{at} jobs {new} started, and {-room} uW more than the cap are counted"
        if limited and new and by_margin and not now.limited:
            short = margin_uw(trace, now) - room
            if short > 1e6:
                yield f"{at} jobs {new} started into {short:g} uW of the margin"
        if limited and licensed and not (draft.physics and slowed(trace, now)):
            over = scope_uw(trace, now) - int(scalars.cap_uw)
            rose = before is None or scope_uw(trace, now) > scope_uw(trace, before)
            up = before is not None and (now.unit_state != before.unit_state).any()
            if over > 1 and (new or (rose and not up and not now.limited and draft.phases_s is None)):
                yield f"{at} true power rises to {over} uW above the cap"
        before = now


def alone_at_most(trace: Trace, now: Instant) -> bool:
    """Whether a single job holds units, and its maximum fits the cap."""
    if len(now.running) != 1:
        return False
    need_w = maximum_w(trace, int(now.running[0]), int(now.option[0]))
    return need_w * codes.MICRO + base_uw(trace, now) <= int(now.scalars.cap_uw) + 1000


def maximum_w(trace: Trace, job: int, option: int) -> float:
    """The stated maximum of a job's units, less the idle watts that the base counts."""
    machine = trace.run.machine
    part = machine.partitions[int(machine.option_partition[option])]
    idle = 0.0 if machine.cap_scope == "jobs" else part.idle_w
    return float(trace.run.jobs.nodes[job]) * ((part.max_w or np.inf) - idle)


def slowed(trace: Trace, now: Instant) -> bool:
    """Whether a job runs below the highest clock, where physics may say more than the machine's exponents."""
    return not np.isin(now.option, trace.run.machine.option_start[:-1]).all()


def promises_licences(draft: Draft) -> bool:
    """Whether a job counts at least what it draws, from start to end."""
    ledger = draft.row.get("ledger", "predicted")
    name = ledger["part"] if isinstance(ledger, dict) else ledger
    counts = callable(name) or name in ("predicted", "ramped")
    true = LICENSED[:1] if draft.physics else LICENSED  # an oracle knows the trace, not the physics
    return counts and draft.row.get("estimator", "maximum") in true and draft.phases_s is None


def margin_with(trace: Trace, now: Instant, job: int, more_uw: int) -> float:
    """By how much the margin would be greater if a running job counted so much more."""
    net = now.net + np.where(now.running == job, more_uw, 0)
    return margin_uw(trace, now, net) - margin_uw(trace, now)


def margin_uw(trace: Trace, now: Instant, net_uw: Ints | None = None) -> float:
    """The margin of a ledger whose margin follows from what runs, by its definition (rule 15)."""
    share, own, common = now.scalars.chance_share, now.scalars.chance_own, now.scalars.chance_common
    net = (now.net if net_uw is None else net_uw) / codes.MICRO
    total = float(net.sum())
    expected = share * (total + float(np.sqrt(own * (net**2).sum() + common * total**2)))
    return (expected - total) * codes.MICRO


def scope_uw(trace: Trace, now: Instant) -> int:
    """True watts that the cap covers."""
    jobs, other, idle = now.power_uw
    return {"machine": jobs + other, "dynamic": jobs - idle, "jobs": jobs}[trace.run.machine.cap_scope]


def progress(draft: Draft, trace: Trace) -> Iterator[str]:
    """Something runs where an eligible entry's maximum fits every limit to come (rule of progress)."""
    simulation = trace.simulation
    needs, view, machine = simulation.session.needs, simulation.view, simulation.machine
    stated, targets = draft.limits()
    limit = capped(stated, targets.in_watts(machine, stated), RiseScale.of(machine)) if len(targets) else stated
    strict = needs.pass_code in (codes.NO_BACKFILL, codes.LAST_END)
    if needs.custom_pass is not None:
        return  # a pass in Python decides itself what it starts
    for now in trace.instants:
        moving = np.isin(now.unit_state, (codes.UNIT_STOPPING, codes.UNIT_BOOTING, codes.UNIT_DRAINING))
        if len(now.running) or moving.any() or now.scalars.last_pass_s != now.now_s:
            continue
        entries = now.queue[: needs.queue_depth or None]
        for entry in entries[:1] if strict else entries:
            job, p = int(view.entries.job[entry]), int(view.units.option_partition[view.entries.first[entry]])
            if view.nodes[job] > now.free[p]:
                continue
            need_w = maximum_w(trace, job, int(view.entries.first[entry])) + base_uw(trace, now) / codes.MICRO
            end_s = now.now_s + float(view.planned.seconds[job])
            in_force = now.scalars.cap_uw / codes.MICRO
            ahead = (limit.time_s > now.now_s) & (limit.time_s < end_s)
            least_w = min(in_force, float(limit.cap_w[ahead].min(initial=np.inf))) if needs.looks_ahead else in_force
            if need_w <= least_w - 1e-3:
                yield f"at {now.now_s:g} s nothing runs, and job {job} fits with its maximum"
                break


def consent(draft: Draft, trace: Trace) -> Iterator[str]:
    """During a load target no job without consent is slowed, suspended or requeued, or starts lower for it."""
    jobs, machine, view = trace.run.jobs, trace.run.machine, trace.simulation.view
    given = np.zeros(len(jobs), bool) if jobs.consent is None else jobs.consent.given
    stated, _ = draft.limits()
    for before, now in pairwise(trace.instants):
        if not now.scalars.in_target:
            continue
        at = f"at {now.now_s:g} s, in a load target,"
        cap_alone = codes.microwatts(min(stated.in_force_w(now.now_s), 1e12))
        if before.net.sum() + base_uw(trace, before) > cap_alone:
            continue  # what is done may be done for the cap
        bound = [job for job in now.running.tolist() if not given[job]]
        then = set(before.running.tolist())
        for (a, b), job in zip(
            both(before, now, "option"), [j for j in now.running.tolist() if j in then], strict=True
        ):
            if not given[job] and b > a:
                yield f"{at} job {job} is slowed without consent"
        parked = dict(zip(before.running.tolist(), before.parked.tolist(), strict=True))
        for job, flag in zip(now.running.tolist(), now.parked.tolist(), strict=True):
            if not given[job] and flag and not parked.get(job, 0):
                yield f"{at} job {job} is suspended without consent"
        failed = (now.unit_state == codes.UNIT_DOWN) & (before.unit_state != codes.UNIT_DOWN)
        victims = set(before.owner[failed].tolist())
        for job in sorted(then - set(now.running.tolist())):
            if not given[job] and now.state[job] == codes.WAITING and job not in victims:
                yield f"{at} job {job} is requeued without consent"
        alone = cap_alone - int(now.scalars.cap_uw)
        for job, option in zip(now.running.tolist(), now.option.tolist(), strict=True):
            if job in then or job not in bound:
                continue
            first = int(view.entries.first[view.entries.of_job[job, machine.option_partition[option]]])
            if option <= first:
                continue
            rows = np.array([job])
            higher = net_uw(trace.simulation, rows, np.array([option - 1])) - net_uw(
                trace.simulation, rows, np.array([option])
            )
            grown = margin_with(trace, now, job, int(higher[0])) if now.scalars.by_chance else 0.0
            if int(higher[0]) + grown <= int(now.scalars.available_uw) + alone:
                yield f"{at} job {job} starts at option {option} without consent, and fits the cap at {option - 1}"


def digest(run: Run) -> str:
    """Hash of all outputs of a run."""
    found = hashlib.sha256()
    schedule, power = run.schedule, run.power
    for column in (
        schedule.state, schedule.reason, schedule.start_s, schedule.end_s, schedule.option, schedule.energy_j,
        schedule.predicted_w, schedule.unit_low, schedule.unit_high, power.time_s, power.jobs_w, power.busy_units,
    ):  # fmt: skip
        found.update(np.ascontiguousarray(column).tobytes())
    found.update(repr(sorted(run.notes.items())).encode())
    return found.hexdigest()


def rerun(draft: Draft, trace: Trace) -> Iterator[str]:
    """The same world gives equal bytes again, without anybody looking at it."""
    simulation = draft.simulation()
    simulation.go()
    if digest(simulation.result()) != digest(trace.run):
        yield "a second run has other outputs"


def decides_from_snapshots(draft: Draft, trace: Trace) -> bool:
    """Whether all that a pass depends on is in a snapshot: a stock pass, and nothing that follows its reservations."""
    needs = trace.simulation.session.needs
    ledger = needs.corrects is None and needs.metered is None and needs.chance is None and not needs.ramped
    plain = needs.custom_pass is None and not needs.pass_in_python and not needs.pass_at_completion
    return ledger and plain and needs.plans is None and "rapl-lending" not in draft.controls


def decide_again(draft: Draft, trace: Trace) -> Iterator[str]:
    """A pass that decides each instant anew from a snapshot, as live operation does, starts the same jobs."""
    needs = trace.simulation.session.needs
    if not decides_from_snapshots(draft, trace):
        return
    settings = needs.pass_settings(draft.scope)
    by_snapshot = BySnapshot(settings, needs.pass_interval_s)
    policy = replace(draft.policy(), backfill=by_snapshot)
    simulation = draft.simulation(policy=policy)
    simulation.go()
    theirs, ours = simulation.result().schedule, trace.run.schedule
    for column in ("state", "start_s", "option", "end_s"):
        a, b = getattr(theirs, column), getattr(ours, column)
        other = np.flatnonzero((a != b) & ~((a != a) & (b != b)))  # noqa: PLR0124  NaN
        if len(other):
            job = int(other[0])
            yield f"decided from snapshots, {column} of job {job} is {a[job]}, not {b[job]}"
            return


def whole_passes(draft: Draft, trace: Trace) -> Iterator[str]:
    """Passes over the whole queue at each instant start what passes of the arrivals start."""
    simulation = draft.simulation()
    simulation.view.now.fcfs_ranks = 0
    simulation.go()
    if digest(simulation.result()) != digest(trace.run):
        yield "with whole passes at each instant, jobs start otherwise"


ORACLES: dict[str, Oracle] = {
    "conservation": conservation,
    "cap": cap,
    "progress": progress,
    "consent": consent,
    "equal bytes": rerun,
    "whole passes": whole_passes,
    "snapshots": decide_again,
}
QUICK = tuple(name for name in ORACLES if name != "snapshots")
"""Without the one that takes most of the time."""
AT_LAST = ("equal bytes", "whole passes", "snapshots")
"""Oracles that run the world again: only for a world in which all features acted."""
