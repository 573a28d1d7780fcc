"""Find the owner and the stage of each job of a snapshot (``live.table``).

What a row and its details say alone is looked at once, when the row is new. The rest depends on time and on what the
controller's state holds about the key, and is looked at in each round.

Who owns a hold. A job has one hold (``Job.held_by``): the submission hook and a user both leave a user's hold, the
controller and an administrator an operator's. A user's own hold differs from the hook's by the mark that the hook adds
at submission (``Details.mark``); the mark is copied into the controller's state when the job is first seen, since the
field belongs to the site. Once the controller has adopted a job it is held by an operator, and the user's hold is
forgotten. An administrator's own hold on a waiting job looks like ours and is not kept; a start time is what keeps such
a job.
"""

from __future__ import annotations

from wattqueue.live.cluster import NEEDS_CONTROLLER, USER_HELD, Details, Job, user_holds
from wattqueue.live.components import BLOCKED_S, orphans
from wattqueue.live.planner import Planner, RoundState, stage
from wattqueue.live.requests import JobRequest
from wattqueue.live.table import ACTIVE_STAGES, OPEN_STAGES, Owner, Stage

STILL = {"stopped": Stage.SUSPENDED, "suspended": Stage.SUSPENDED, "completing": Stage.COMPLETING}
"""Stage of an active job by its state, where it is not RUNNING."""
_PLAIN = Details("", "", "", "", "", 0, 1, 0)  # stands in where the details of a job could not be read


@stage(
    reads="snapshot jobs.row",
    writes="fresh running under_way waiting jobs.request "
    "jobs.owner jobs.stage jobs.since_s jobs.reason jobs.first_s jobs.nodes jobs.walltime_s "
    "jobs.user_code jobs.app_code jobs.partition_code jobs.allowed",
)
def classify(now: RoundState) -> None:
    """Give each job its owner and stage, and keep the queue of those that are held for the controller."""
    planner, jobs = now.planner, now.jobs
    details, again = now.snapshot.details, jobs.at([Stage.UNREAD, Stage.ORPHANED])
    slots = list(dict.fromkeys((*jobs.new, *again)))
    rows = jobs.rows(slots)
    for slot, row in zip(slots, rows, strict=True):
        _read(now, slot, row, details.get(row.key))
    planner.placement.forget_names(now.snapshot)
    held = [row.key for row in rows if row.held and row.key in details and user_holds(row, details[row.key])]
    planner.memory.mark(held, USER_HELD)
    planner.memory.mark([row.key for row in rows if row.pending and not row.held], USER_HELD, present=False)
    _orphans(now)
    for slot in jobs.at(OPEN_STAGES):
        _free(now, slot, details.get(jobs.row[slot].key, _PLAIN))
    _stopped(now)
    now.running = jobs.at(ACTIVE_STAGES)
    now.under_way = jobs.at(OPEN_STAGES - {Stage.STALLED})
    _queued(now)


def user_holds_job(planner: Planner, row: Job, details: Details | None) -> bool:
    """Whether a held job's own user holds it: by its mark, or by what was remembered when it was first seen.

    Taken to be so while its details are not known.
    """
    if details is None:
        return True
    return user_holds(row, details) or (row.held_by == "user" and planner.memory.marked(row.key, USER_HELD))


def _read(now: RoundState, slot: int, row: Job, details: Details | None) -> None:
    """Take over a row that is new: what it and its details say, whatever the time."""
    planner, jobs = now.planner, now.jobs
    owner, found = _owner_and_stage(planner, row, details)
    queued = found == Stage.HELD and owner == Owner.OURS
    if not (found in OPEN_STAGES and jobs.stage[slot] in OPEN_STAGES):  # else since when it is free stays known
        jobs.put(slot, owner, found)
    if not queued:
        jobs.leave_queue(slot)
    if not (queued or row.active or found in OPEN_STAGES):
        return
    now.fresh.append(slot)
    if jobs.request[slot] is None or row.pending:
        # a pending job can be changed by its user; what a running job requested is settled
        jobs.request[slot] = _request(planner, row, details)
    if details is not None and details.throttle > 0 and row.array:
        planner.throttles[array_of(row)] = details.throttle
    if queued:
        jobs.join_queue(slot, planner.layout.allowed(row.partition), planner.memory.origin.get(row.key))


def _owner_and_stage(planner: Planner, row: Job, details: Details | None) -> tuple[Owner, Stage]:
    """Return owner and stage of a row by itself.

    A held job is the controller's if it carries watts and its user does not hold it. The mark that job_submit.lua left
    is not what decides: the AdminComment belongs to the site, which may change it at any time. In observe and advise
    mode nothing is held, so every eligible pending job counts as waiting.
    """
    cluster = Owner.HANDED_OVER if row.whole or (details is not None and details.parts > 1) else Owner.CLUSTER
    if row.active:
        counted = row.watts >= 0 and cluster == Owner.CLUSTER
        return Owner.OURS if counted else cluster, STILL.get(row.state, Stage.RUNNING)
    if not row.pending:
        return cluster, Stage.ENDED
    if not planner.layout.allowed(row.partition):
        # job_submit.lua holds components for the controller although it decides nothing about their partition: the
        # machine file does not name it, and it holds managed nodes
        known = _PLAIN if details is None or planner.rules.mode != "control" else details
        if known.parts > 1 and not row.held and row.watts >= 0:
            return Owner.HANDED_OVER, Stage.STRAY  # it may start with the others, see ``_free``
        bare = known.parts > 1 and row.held and NEEDS_CONTROLLER in known.mark and _waits(planner, row, known)
        return (Owner.HANDED_OVER, Stage.HELD) if bare else (Owner.CLUSTER, Stage.OUTSIDE)
    if planner.rules.mode != "control":
        if row.held:
            return Owner.USER, Stage.HELD
        return Owner.OURS, Stage.HELD if row.eligible else Stage.DEPENDENT
    # of one that nobody holds ``_free`` tells what it is
    return _held(planner, row, details) if row.held else (Owner.OURS, Stage.STRAY)


def _held(planner: Planner, row: Job, details: Details | None) -> tuple[Owner, Stage]:
    """Return owner and stage of a held job by itself."""
    if details is None:
        return Owner.OURS, Stage.UNREAD
    if not _waits(planner, row, details):
        waits = Stage.HELD if row.eligible else Stage.DEPENDENT
        return Owner.USER, Stage.FAILED if row.held_by == "failed" else waits
    if details.parts > 1:
        return Owner.HANDED_OVER, Stage.HELD
    return (Owner.OURS, Stage.HELD) if row.watts >= 0 else (Owner.CLUSTER, Stage.OUTSIDE)


def _waits(planner: Planner, row: Job, details: Details) -> bool:
    """Whether a held job waits for nothing but the controller."""
    return row.held_by != "failed" and row.eligible and not user_holds_job(planner, row, details)


def _request(planner: Planner, row: Job, known: Details | None) -> JobRequest:
    """Return what the user of a row requested, for the estimator."""
    allowed = planner.layout.allowed(row.partition)
    one = planner.layout.machine.partitions[next(iter(allowed))].name if len(allowed) == 1 else ""
    user = f"u{row.uid}"
    app = "" if known is None or planner.ignored(user) else known.app
    # the nodes that it was given, or the least number that it accepts
    nodes = planner.node_range(row)[0] if row.pending else row.nodes
    return JobRequest(row.key, user, app, one, nodes, row.walltime_s, 0.0 if known is None else known.node_w)


def _orphans(now: RoundState) -> None:
    """Find the components whose first one is gone."""
    jobs = now.jobs
    if not jobs.components:
        return
    shared = now.planner.shared_nodes.count(now.snapshot.nodes).partitions
    # what carries no watts and is not held for the controller stands in a partition that is not its concern, unless
    # jobs share its nodes: of those the controller released the job
    counted = [
        slot for slot in sorted(jobs.components)
        if jobs.row[slot].watts >= 0 or (jobs.owner[slot], jobs.stage[slot]) == (Owner.HANDED_OVER, Stage.HELD)
        or not shared.isdisjoint(jobs.row[slot].partition.split(","))
    ]  # fmt: skip
    for row in orphans(now.snapshot.jobs, jobs.rows(counted)):
        jobs.stage[jobs.slot[row.key]] = Stage.ORPHANED


def _free(now: RoundState, slot: int, details: Details) -> None:
    """Tell what a job is that the resource manager may start at any moment.

    Each counts as under way, since it may start before the next round. One that carries no watts stops counting after
    ``start_timeout_s``: it may be kept from starting by something that the controller cannot see (a limit, a
    reservation), and must not block the policy for ever. Jobs of several components are held again instead
    (``live.components``).
    """
    jobs, row, timeout_s = now.jobs, now.jobs.row[slot], now.planner.rules.start_timeout_s
    placed = now.planner.memory.placed.get(row.key)
    if details.parts > 1 and row.watts < 0:
        jobs.put(slot, Owner.HANDED_OVER, Stage.STRAY)  # Slurm would start it uncounted
    elif details.parts > 1 or row.watts < 0:
        if jobs.stage[slot] not in (Stage.FREE, Stage.STALLED):
            jobs.since_s[slot] = now.now_s
        stalled = details.parts <= 1 and now.now_s - jobs.since_s[slot] > timeout_s
        owner = Owner.HANDED_OVER if details.parts > 1 else Owner.CLUSTER
        jobs.put(slot, owner, Stage.STALLED if stalled else Stage.FREE)
    elif placed is None:
        jobs.put(slot, Owner.OURS, Stage.STRAY)
    else:
        late = now.now_s - placed.since_s > (min(BLOCKED_S, timeout_s) if row.blocked else timeout_s)
        jobs.put(slot, Owner.OURS, Stage.LATE if late else Stage.UNDER_WAY)


def _stopped(now: RoundState) -> None:
    """Tell jobs that the controller parked from those that somebody else stopped."""
    jobs, parked = now.jobs, now.planner.memory.parked
    for slot in jobs.at([Stage.SUSPENDED, Stage.PARKED, Stage.RESUMING]):
        jobs.stage[slot] = STILL.get(jobs.row[slot].state, Stage.RUNNING)
    for slot in [jobs.slot[key] for key in parked if key in jobs.slot]:
        state = jobs.row[slot].state
        if state in ("stopped", "running"):
            jobs.stage[slot] = Stage.PARKED if state == "stopped" else Stage.RESUMING


def _queued(now: RoundState) -> None:
    """Tell the queued jobs that may start now from those in back-off, and those that their array throttles."""
    planner, jobs, queue = now.planner, now.jobs, now.jobs.queue
    jobs.stage[queue] = Stage.HELD
    for key, refused in planner.memory.refused.items():
        slot = jobs.slot.get(key)
        if slot is not None and now.now_s < refused.until_s and jobs.is_queued(slot):
            jobs.stage[slot] = Stage.BACK_OFF
    if planner.throttles:
        _throttle(now)
    now.waiting = jobs.waiting()


def _throttle(now: RoundState) -> None:
    """Bar the tasks of throttled arrays beyond the number that may start now.

    Slurm enforces the limit for running tasks only: a released task above it would hold watts without starting.
    """
    jobs, room = now.jobs, dict(now.planner.throttles)
    for row in jobs.rows((*now.running, *now.under_way)):
        if array_of(row) in room:
            room[array_of(row)] -= 1
    for slot in jobs.queue.tolist():
        array = array_of(jobs.row[slot])
        if jobs.stage[slot] == Stage.HELD and array in room:
            room[array] -= 1
            if room[array] < 0:
                jobs.bar(slot, "")


def array_of(row: Job) -> tuple[str, float]:
    """Return the array of a task, as (name, submit time)."""
    return row.array, row.key.submit_s
