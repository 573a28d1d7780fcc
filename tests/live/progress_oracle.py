"""Rule 19 (Progress) as an oracle over a cluster: after each round, does a job wait that had to start?

Written from the text of the rule, on what the cluster shows. Of the controller it takes which jobs are in back-off, the
order of the queue for passes that start heads alone, and what it released in the round.
"""

from __future__ import annotations

import math

from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.kernels import codes
from wattqueue.live.controller import Controller
from wattqueue.live.features.budget_rows import AHEAD_S
from wattqueue.live.features.budgets import LATE_S, LiveBudgets
from wattqueue.live.reports.report import Report
from wattqueue.model.load_target import LoadTargets


def round_and_look(controller: Controller, slurm: FakeSlurm, targets: LoadTargets) -> str:
    """Run a round; return the job that had to start in it, in words; empty where the rule holds."""
    held = slurm.running() or any(job.priority > 0 for job in slurm.listed()) or slurm.power
    waiting = [job for job in slurm.listed() if job.state == "PENDING" and is_eligible(controller, slurm, job)]
    report = controller.round()
    if held or report is None or report.plan.placed or slurm.running():
        return ""
    if report.plan.decision.answers.pass_answers is None:
        return ""  # passes have an interval: the rule holds at each pass
    waiting = [
        job for job in waiting if is_eligible(controller, slurm, job)
    ]  # a release that had no effect is seen now
    view = report.plan.view
    names, parts = view.jobs.job_id, view.machine.partitions
    pairs = zip(view.entries.job, view.entries.partition, strict=True)
    offered = {(str(names[job]), parts[p].name) for job, p in pairs}
    barred = barred_by_budgets(controller, waiting, slurm.now_s)
    for job in eligible(controller, report, [job for job in waiting if job.name not in barred]):
        # an order may offer some of a job's partitions alone; of one that was set aside all count
        mine = {part for name, part in offered if name == job.name} or set(job.partition.split(","))
        if fits(controller, slurm, job, mine, targets):
            return f"at {slurm.now_s:g} s nothing runs, and job {job.name} would fit at its maximum"
    return ""


def barred_by_budgets(controller: Controller, waiting: list[FakeJob], now_s: float) -> set[str]:
    """Return the jobs that budgets may bar: all behind another one of theirs, and those for which no room is left.

    Of the controller it takes what is booked; what it lets through it finds itself. A requeued job keeps its place.
    """
    books = next((one.keeps for one in controller.extensions if isinstance(one.keeps, LiveBudgets)), None)
    found, before = set[str](), set[str]()
    for job in sorted(waiting, key=lambda one: int(one.name)) if books else ():
        mine = [book for book in books.books.books if book.budget.concerns(str(job.uid))] if books else []
        parts = [one for one in controller.planner.layout.machine.partitions if one.name in job.partition.split(",")]
        watts = job.nodes * max(part.max_w or math.inf for part in parts)
        for book in mine:
            looked_s = book.budget.edges[book.budget.period(now_s)]
            most = [book.budget.most(watts, job.limit_s + LATE_S, at_s, at_s + AHEAD_S) for at_s in (now_s, looked_s)]
            if book.budget.name in before or not all(book.fits(amounts, {}) for amounts in most):
                found.add(job.name)
        before |= {book.budget.name for book in mine}
    return found


def is_eligible(controller: Controller, slurm: FakeSlurm, job: FakeJob) -> bool:
    """Whether a job waits for nothing but the controller."""
    refused = {key.name: row.until_s for key, row in controller.planner.memory.refused.items()}
    back_off = refused.get(job.name, -math.inf) > slurm.now_s
    return job.begin_s <= slurm.now_s and job.dependency == "(null)" and not back_off


def eligible(controller: Controller, report: Report, waiting: list[FakeJob]) -> list[FakeJob]:
    """Return the jobs that the pass of this policy may start: all, or the heads of the partitions alone."""
    needs = controller.planner.decider.session.needs
    if needs.custom_pass is not None or (needs.rerank is not None and needs.pass_code != codes.EASY):
        return []  # a pass in Python decides itself
    if needs.pass_code not in (codes.NO_BACKFILL, codes.LAST_END):
        return waiting
    entries, names = report.plan.view.entries, report.plan.view.jobs.job_id
    order = sorted(range(len(entries.job)), key=lambda k: (-float(entries.priority[k]), int(entries.job[k])))
    heads = {int(entries.partition[k]): str(names[entries.job[k]]) for k in reversed(order)}
    return [job for job in waiting if job.name in heads.values()]


def fits(controller: Controller, slurm: FakeSlurm, job: FakeJob, partitions: set[str], targets: LoadTargets) -> bool:
    """Whether nodes are free for a job in one of these partitions, and its maximum is within the limits that apply."""
    planner, now_s = controller.planner, slurm.now_s
    machine = planner.layout.machine
    whole = machine.cap_scope == "machine"
    base_w = sum(part.nodes * part.idle_w for part in machine.partitions) if whole else 0.0
    limits, needs = [planner.cap.in_force_w(now_s)], planner.decider.session.needs
    if needs.all_limits:  # cap and load targets as far as they are known now
        cap = planner.cap
        limits += [float(cap.value[k]) for k in range(len(cap.time_s)) if now_s < cap.time_s[k] < now_s + job.limit_s]
    elif needs.looks_ahead:
        limits += [
            float(targets.limit[k])
            for k in range(len(targets))
            if targets.announced_s[k] <= now_s < targets.start_s[k] < now_s + job.limit_s
        ]
    room_w = (
        min(math.floor(min(limits) - base_w + 1e-6), slurm.total_w) if math.isfinite(min(limits)) else slurm.total_w
    )
    for name in partitions:
        part = next(part for part in machine.partitions if part.name == name)
        free = [node for node in slurm.partitions[name] if slurm.node_state(node) == "idle"]
        each_w = (part.max_w or math.inf) - (0.0 if machine.cap_scope == "jobs" else part.idle_w)
        if len(free) >= job.nodes and job.nodes * each_w <= room_w:
            return True
    return False
