"""The event loop: one loop that runs until something needs Python, is answered, and goes on.

An instant has phases in the order of SEMANTICS rule 2: completions, node events, submissions,
signals, controls, then one pass. ``tally[PHASE]`` says where to go on after a return.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._jit import direct, inlined, lent, wide
from wattqueue.kernels.entries import enqueue_job, release_job
from wattqueue.kernels.foresight import ON, Foresight, foresee, learn_end
from wattqueue.kernels.heap import heap_push, heap_remove
from wattqueue.kernels.nodes import node_events, timer_events
from wattqueue.kernels.power import account, round_us, set_physics, write_power
from wattqueue.kernels.schedule import schedule, set_budget
from wattqueue.kernels.state import Log, Truth, View

INF = float("inf")
ADVANCE = 0
ARRIVE = 1
SIGNAL = 2
CONTROL = 3
PASS = 4
APPLY = 5


@direct
def run(view: View, truth: Truth, log: Log, foresight: Foresight) -> int:
    """Run until the end, or until Python is needed; says which (kernels/codes.py)."""
    view, truth, log, foresight = lent(view), lent(truth), lent(log), lent(foresight)
    tally = truth.tally
    while True:
        phase = tally[codes.PHASE]
        if phase == ADVANCE:
            code = advance(view, truth, log, foresight)
        elif phase == ARRIVE:
            code = arrive(view, truth, log, foresight)
        elif phase == SIGNAL:
            code = signal(view, truth)
        elif phase == CONTROL:
            code = control(view, truth)
        elif phase == PASS:
            code = decide_pass(view, truth)
        else:
            code = apply_starts(view, truth, log)
        if code >= 0:
            return code


@inlined
def next_time(view: View, truth: Truth) -> float:
    """When something happens next; inf for never."""
    tally = truth.tally
    time = min(truth.when[codes.PASS_AT], INF)
    if tally[codes.HEAP] > 0:
        time = min(time, truth.ends.time[0])
    if tally[codes.NEXT_ARRIVAL] < len(truth.arrival):
        time = min(time, truth.submit[truth.arrival[tally[codes.NEXT_ARRIVAL]]])
    if time == INF and tally[codes.HEAP] == 0 and view.counter[codes.QUEUED] == 0:
        return INF  # signals and ticks alone keep no run alive
    if tally[codes.TIMERS] > 0:
        time = min(time, truth.timers.time[0])
    if tally[codes.NEXT_NODE_EVENT] < len(truth.node_time):
        time = min(time, truth.node_time[tally[codes.NEXT_NODE_EVENT]])
    if tally[codes.NEXT_SIGNAL] < len(truth.signal_time):
        time = min(time, truth.signal_time[tally[codes.NEXT_SIGNAL]])
    if time == INF and tally[codes.HEAP] == 0 and truth.when[codes.PATIENCE] <= 0:
        return INF  # a queue that nothing can move any more
    return float(min(time, truth.when[codes.CONTROL_AT]))


@inlined
def advance(view: View, truth: Truth, log: Log, foresight: Foresight) -> int:
    """Go to the next instant; completions and node events apply."""
    tally = truth.tally
    if log_is_full(view, truth, log):
        return codes.NEED_ROOM
    if tally[codes.EVENTS] >= tally[codes.EVENT_LIMIT]:
        tally[codes.EVENTS] = 0
        return codes.PROGRESS
    now = next_time(view, truth)
    if now == INF:
        return codes.DONE
    view.num[codes.NOW] = now
    truth.wish[codes.HAPPENED] = 0
    while tally[codes.HEAP] > 0 and truth.ends.time[0] <= now:
        complete(view, truth, log, foresight)
    if tally[codes.TIMERS] > 0:
        timer_events(view, truth)
    if tally[codes.NEXT_NODE_EVENT] < len(truth.node_time):
        node_events(view, truth, log)
    tally[codes.BATCH] = tally[codes.NEXT_ARRIVAL]
    tally[codes.EVENTS] += 1
    tally[codes.PHASE] = ARRIVE
    return -1


@inlined
def complete(view: View, truth: Truth, log: Log, foresight: Foresight) -> None:
    """The job at the top of the heap ends."""
    job = wide(truth.ends.item[0])
    heap_remove(truth.ends, truth.tally, codes.HEAP, job)
    now = view.num[codes.NOW]
    log.end[job] = now
    log.energy_j[job] += (now - log.start[job]) * (truth.uw[job] / codes.MICRO)
    log.state[job] = codes.KILLED if truth.kill[job] else codes.COMPLETED
    account(view, truth, job, wide(-1))
    release_job(view, job)
    if foresight.rule[ON] != 0:
        learn_end(view, log, foresight, job)
    if truth.tally[codes.STEERED] != 0:
        log.finished[truth.tally[codes.FINISHED]] = job
        truth.tally[codes.FINISHED] += 1
    truth.wish[codes.HAPPENED] |= codes.ASK_ON_COMPLETION
    truth.tally[codes.EVENTS] += 1


@inlined
def arrive(view: View, truth: Truth, log: Log, foresight: Foresight) -> int:
    """Submissions of this instant: rejected, or queued once they have a prediction."""
    tally = truth.tally
    now = view.num[codes.NOW]
    end = tally[codes.BATCH]
    while end < len(truth.arrival) and truth.submit[truth.arrival[end]] <= now:
        end += 1
    if end > tally[codes.BATCH] and tally[codes.NEXT_ARRIVAL] == tally[codes.BATCH]:
        tally[codes.NEXT_ARRIVAL] = end
        if truth.wish[codes.WISHES] & codes.ASK_PREDICTION:
            return codes.NEED_PREDICTION
    for k in range(tally[codes.BATCH], tally[codes.NEXT_ARRIVAL]):
        job = wide(truth.arrival[k])
        if truth.reject[job] != 0:
            log.state[job] = codes.REJECTED
            log.reason[job] = truth.reject[job]
        else:
            log.state[job] = codes.WAITING
            if foresight.rule[ON] != 0:
                foresee(view, foresight, job)
            enqueue_job(view, job)
            truth.wish[codes.HAPPENED] |= codes.ASK_ON_ARRIVAL
        tally[codes.EVENTS] += 1
    tally[codes.PHASE] = SIGNAL
    return -1


@inlined
def signal(view: View, truth: Truth) -> int:
    """The cap of this instant."""
    tally = truth.tally
    k = tally[codes.NEXT_SIGNAL]
    while k < len(truth.signal_time) and truth.signal_time[k] <= view.num[codes.NOW]:
        view.counter[codes.CAP] = truth.signal_uw[k]
        set_budget(view)
        truth.wish[codes.HAPPENED] |= codes.ASK_ON_SIGNAL
        k += 1
    tally[codes.NEXT_SIGNAL] = k
    tally[codes.PHASE] = CONTROL
    return -1


@inlined
def control(view: View, truth: Truth) -> int:
    """Ask the controls if their time has come or an event that they named has happened."""
    truth.tally[codes.PHASE] = PASS
    due = truth.when[codes.CONTROL_AT] <= view.num[codes.NOW]
    if due or truth.wish[codes.WISHES] & truth.wish[codes.HAPPENED]:
        return codes.NEED_CONTROL
    return -1


@inlined
def decide_pass(view: View, truth: Truth) -> int:
    """The pass of this instant, or its postponement (``pass_interval_s``)."""
    tally = truth.tally
    when = truth.when
    now = view.num[codes.NOW]
    earliest = view.num[codes.LAST_PASS] + when[codes.PASS_INTERVAL]
    if when[codes.PASS_INTERVAL] > 0 and now < earliest:
        when[codes.PASS_AT] = earliest if view.counter[codes.QUEUED] > 0 else INF
        tally[codes.PHASE] = APPLY
        return -1
    when[codes.PASS_AT] = INF
    tally[codes.PHASE] = APPLY
    if view.counter[codes.QUEUED] > 0 and truth.wish[codes.WISHES] & (codes.ASK_PASS | codes.ASK_RERANK):
        view.num[codes.LAST_PASS] = now
        return codes.NEED_PASS
    schedule(view)
    return -1


@inlined
def apply_starts(view: View, truth: Truth, log: Log) -> int:
    """Let the jobs of the start buffer run, and write the power step of this instant."""
    now = view.num[codes.NOW]
    for k in range(view.counter[codes.STARTS]):
        job = wide(view.entries.job[view.start_entry[k]])
        option = wide(view.start_option[k])
        set_physics(view, truth, job)
        log.state[job] = codes.RUNNING_NOW
        log.start[job] = now
        log.option[job] = option
        end = now + truth.work[job]
        if truth.factor[job] != 1.0:
            end = max(now, round_us(now + truth.work[job] * truth.factor[job]))
        heap_push(truth.ends, truth.tally, codes.HEAP, end, job)
        account(view, truth, job, wide(1))
    view.counter[codes.STARTS] = 0
    write_power(view, truth, log)
    truth.tally[codes.PHASE] = ADVANCE
    return -1


@inlined
def log_is_full(view: View, truth: Truth, log: Log) -> bool:
    """Whether the next instant might not fit into the buffers."""
    partitions = len(view.units.free)
    # Units that are off or down now may come back at that instant, and running jobs may be requeued.
    if view.counter[codes.INTERVALS] + view.units.unit_start[partitions] > len(view.held.low):
        return True
    rows = view.counter[codes.RUNNING] + 2 * view.counter[codes.QUEUED] + 2 * (partitions + 2)
    if view.counter[codes.CODE] == codes.CONSERVATIVE:
        entering = 2 * partitions * (batch_size(truth) + view.counter[codes.RUNNING])
        if max(rows, view.counter[codes.PROFILE] + 2) + entering > len(view.plan.time):
            return True
    return bool(truth.tally[codes.POWER_ROWS] + 1 >= len(log.time))


@inlined
def batch_size(truth: Truth) -> int:
    """How many jobs arrive at the next instant of submission."""
    k = truth.tally[codes.NEXT_ARRIVAL]
    end = k
    while end < len(truth.arrival) and truth.submit[truth.arrival[end]] == truth.submit[truth.arrival[k]]:
        end += 1
    return int(end - k)
