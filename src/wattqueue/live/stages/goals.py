"""Gather what the round decided in one goal for the cluster, in the order of its urgency.

``goal.plan_writes`` sorts the writes by what they do to the pool.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from wattqueue.live.components import given_watts, held_again, left_over, released
from wattqueue.live.features.load_targets import target_end_s, target_name
from wattqueue.live.goal import Goal, JobGoal
from wattqueue.live.planner import RoundState, stage
from wattqueue.live.requests import ObservedJob
from wattqueue.live.stages.budget import pool_of
from wattqueue.live.stages.classify import user_holds_job
from wattqueue.live.stages.decide import late_text
from wattqueue.live.table import Owner, Stage
from wattqueue.live.watts.bound import WattBound, limit_w, open_w
from wattqueue.live.watts.licences import held_watts, licences_of_running, lost_licences

PRIORITY_TOP = 2_000_000_000
"""Slurm priority of the first job that a round releases; the next ones count down, so Slurm keeps the order."""


@stage(
    reads="snapshot view decision chosen placed displaced counted under_way holding holders left_w withheld_w "
    "overshoot_w bare_w cap_w elsewhere_w let_go in_force jobs.row jobs.name jobs.owner jobs.stage jobs.part "
    "jobs.option "
    "jobs.request jobs.given_w jobs.start_w jobs.restarted jobs.label jobs.shown_w jobs.net_w "
    "jobs.wanted_w jobs.least_w",
    writes="base_uw pool_w goal parked until_s bound began",
)
def goals(now: RoundState) -> None:
    """Set the goal of the round, and the bound that every write of it passes."""
    planner, decision, targets = now.planner, now.decision, now.view.signals.targets
    if decision.now.base_added_uw:  # nodes that boot: their watts leave the pool in the round that wakes them
        now.base_uw += decision.now.base_added_uw
        now.pool_w = pool_of(now)[1]
    now.until_s = target_end_s(targets, now.now_s)
    in_force = targets.in_force(now.now_s) >= 0
    above = planner.session.acts_by_power and not in_force
    why = "measured power is above the cap" if above else target_name(targets, now.now_s)
    parked = planner.parking.goals(decision.now, now.jobs, now.holding, now.now_s, why, now.until_s)
    now.parked = parked.stored
    licences = licences_of_running(now, {goal.key for goal in parked.jobs})
    orphans = left_over(now.rows_at(Stage.ORPHANED))
    again = list(_held_again(now))
    if planner.domains is not None:
        held = {goal.key for goal in again}
        again += [goal for goal in planner.domains.gates(now) if goal.key not in held]
    shared = f" beside {now.shared.watts:.0f} W of shared nodes" if now.shared.open else ""
    now.goal = Goal(
        now.pool_w,
        (*licences, *parked.jobs, *again, *orphans, *_undecided(now), *_starts(now)),
        planner.draining.goals(decision.now, now.snapshot),
        parked.requeue,
        why_pool=f"limit {now.cap_w:.0f} W{shared}",
    )
    if planner.domains is not None:
        now.goal = now.goal._replace(domains=planner.domains.open_w(now))
    room_w = now.left_w - now.base_uw / 1e6
    now.began = list(_began(now))
    snapshot = now.snapshot
    most_w, open_now_w = limit_w(room_w, now.overshoot_w), open_w(snapshot.pool)
    now.bound = WattBound(most_w, open_now_w, snapshot.by_key, lambda: held_watts(now), now.elsewhere_w)


def _held_again(now: RoundState) -> Iterator[JobGoal]:
    """Yield goals of jobs that are held again: late ones, strays, and those that still name the controller's nodes.

    The back-off of a late job begins only when the hold has succeeded.
    """
    placement, displaced = now.planner.placement, now.displaced
    for row in now.rows_at(Stage.LATE):
        why = displaced.get(row.key, f"{late_text(now)}: {row.reason}")
        yield placement.taken_back(JobGoal(row.key, held=True, why=why), row)
    why = "released outside WattQueue: the policy decides"
    for row in now.rows_at(Stage.STRAY):
        yield placement.taken_back(JobGoal(row.key, held=True, why=why), row)
    yield from placement.restored(now.snapshot, {one.row.key for one in now.chosen})


def _undecided(now: RoundState) -> list[JobGoal]:
    """Return goals of jobs about which the policy decides nothing in this round."""
    planner, jobs, details = now.planner, now.jobs, now.snapshot.details
    undecided, held = jobs.rows(jobs.undecided()), jobs.rows(jobs.at([Stage.HELD], Owner.HANDED_OVER))
    found = given_watts(planner.layout, now.snapshot.nodes, held) + released(held, now.let_go)
    found += held_again(jobs.rows(jobs.at([Stage.STALLED], Owner.HANDED_OVER)))
    if planner.rules.mode == "control":
        found += planner.shared_nodes.leaving(undecided, lambda row: user_holds_job(planner, row, details.get(row.key)))
        found += planner.owners.goals(now.snapshot)
    return found


def _starts(now: RoundState) -> Iterator[JobGoal]:
    """Yield the goals of the starts, in their order."""
    planner = now.planner
    rules, hertz_of = planner.rules, planner.layout.machine.option_frequency_hz
    for k, (one, placed) in enumerate(zip(now.chosen, now.placed, strict=True)):
        why = f"started by {planner.policy.name}: {one.watts} W of the budget"
        hertz = float(hertz_of[one.start.option])
        khz = round(hertz / 1e3) if rules.sets_frequency and not math.isnan(hertz) else None
        priority = PRIORITY_TOP - k if rules.write_priority else None
        yield JobGoal(
            one.row.key, False, placed.partition, one.watts, one.nodes, placed.limit_s, priority, khz, None, why,
            len(one.start.nodes), lost_licences(planner.memory, now.snapshot, one.row.key),
            domains=one.domains if planner.domains is not None else None,
        )  # fmt: skip


def _began(now: RoundState) -> Iterator[ObservedJob]:
    """Yield the jobs that run since this round, with their predictions and where they run; kept until they end."""
    planner, jobs, machine = now.planner, now.jobs, now.planner.layout.machine
    for slot in now.holding[: now.holders]:
        key = jobs.row[slot].key
        if key in planner.ran:
            continue
        known, option = planner.predictor.of(key), int(jobs.option[slot])
        watts = math.nan if known is None else float(known[0][option])
        hardware, hertz = machine.partitions[int(jobs.part[slot])].name, float(machine.option_frequency_hz[option])
        planner.ran[key] = ObservedJob(jobs.request[slot], watts, hardware, hertz, jobs.row[slot].node_names)
        yield planner.ran[key]
