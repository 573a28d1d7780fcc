"""The event loop of the simulator: it runs until something needs Python, returns, and resumes.

One instant after another, each in the order of rule 2 of docs/semantics.md. The work of an instant is cut into phases,
and ``truth.loop.phase`` holds the next one:

    ADVANCE   find the next instant; completions, planned times that are over, timers, node events, samples of power
              profiles
    ARRIVE    submissions: reject, or predict and queue
    SIGNAL    the cap in force; power sensors and the site meter that are read
    CONTROL   are controls due?
    PASS      one scheduling pass
    APPLY     let the started jobs run, slow those beside them; controls that wait for starts; write the power step;
              then ADVANCE again

Each phase is a function that sets the phase to resume at, and returns -1 to go on or a code of ``kernels/codes.py`` to
stop. ``run`` returns that code to ``sim/engine.py``, which does what is needed and calls ``run`` again with the same
arrays; the loop resumes at the phase that was set *before* it stopped. All state is in the arrays, so a stop costs no
more than a call (some 2 µs), and a run whose parts are all static never stops:

    NEED_PREDICTION   ARRIVE: an estimator in Python predicts the batch of this instant; the phase is ARRIVE again,
                      and NEXT_ARRIVAL, which has moved past the batch, shows that it has been predicted
    NEED_CONTROL      CONTROL: controls act; then PASS. APPLY: controls that wait for starts act; then APPLY again,
                      with an empty buffer of starts unless they started a job
    NEED_PASS         PASS: a custom or re-ranked pass writes to the buffer of starts; then APPLY
    NEED_ROOM         ADVANCE: a buffer might not hold the next instant; the engine enlarges it, then ADVANCE
    PROGRESS          ADVANCE: so many events have passed; then ADVANCE
    DONE              nothing is to come

Buffers are checked once an instant for the most that one instant can write (``log_is_full``), never in between.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, inlined, separate
from wattqueue.kernels.control_step import asks_consent, step_is_due, take_step
from wattqueue.kernels.devices import count_job, least_limit
from wattqueue.kernels.drains import end_drains
from wattqueue.kernels.entries import enqueue_job, release_job
from wattqueue.kernels.heap import heap_push, heap_remove
from wattqueue.kernels.history_prediction import learn_end, predict_from_history
from wattqueue.kernels.in_loop import ON, ControlStep, HistoryState, InLoop
from wattqueue.kernels.ledger import set_budget
from wattqueue.kernels.ledger_ramp import begin_ramp, climb, note_rise
from wattqueue.kernels.measured import lose_samples, read_samples
from wattqueue.kernels.nodes import node_events, timer_events
from wattqueue.kernels.overruns import correct_overruns, overrun_time
from wattqueue.kernels.power import account, round_us, set_physics, write_power
from wattqueue.kernels.progress import never_starts
from wattqueue.kernels.recent_runs import PREDICTS, learn_run, plan_from_recent
from wattqueue.kernels.schedule import schedule
from wattqueue.kernels.sensors import periods
from wattqueue.kernels.site_meter import count_ledger, may_fall, note_held, read_meter
from wattqueue.kernels.speed import apply_speeds, begin_in_devices
from wattqueue.kernels.state import KernelView, Log, Truth
from wattqueue.kernels.state.site_meter import READ_AT, SiteMeter
from wattqueue.kernels.supply import has_supply
from wattqueue.kernels.supply_classes import put_limits
from wattqueue.kernels.ticks import begin_phases, tick
from wattqueue.kernels.view_lists import may_start

INF = float("inf")
ADVANCE = 0
ARRIVE = 1
SIGNAL = 2
CONTROL = 3
PASS = 4
APPLY = 5


@entry
def run(view: KernelView, truth: Truth, log: Log, parts: InLoop) -> int:
    """Run until the end, or until Python is needed; return which (``kernels/codes.py``)."""
    loop, history, step = truth.loop, parts.history, parts.step
    while True:
        phase = loop.phase
        if phase == ADVANCE:
            code = advance(view, truth, log, parts)
        elif phase == ARRIVE:
            code = arrive(view, truth, log, history)
        elif phase == SIGNAL:
            code = signal(view, truth, log, parts.meter)
        elif phase == CONTROL:
            code = control(view, truth, log, step)
        elif phase == PASS:
            code = decide_pass(view, truth)
        else:
            code = apply_starts(view, truth, log, parts)
        if code >= 0:
            return code


@separate
def end_delays(view: KernelView, truth: Truth) -> None:
    """Let jobs start whose delay is over, and note when the next one is: the pass looks at the whole queue."""
    at = INF
    for job in range(len(view.planned.not_before)):
        until = view.planned.not_before[job]
        if view.now.time_s < until < at:
            at = until
    truth.loop.delay_at_s = at
    view.now.dirty = 1


@inlined
def next_time(view: KernelView, truth: Truth, parts: InLoop) -> float:
    """Return the time of the next event, inf where the run is over.

    Signals, timers, node events and due controls keep a run alive only while jobs run or wait; readings of the site
    meter while jobs run, or wait for a margin that may still come down. A queue that only a
    control could still move gets ``control_steps_left`` more calls of the controls, so that a policy that never wakes
    the nodes its jobs need does not run for ever.
    """
    loop = truth.loop
    time = min(loop.pass_at_s, INF)
    if view.now.queued > 0:
        time = min(time, loop.delay_at_s)
    if view.now.queued > 0 and may_fall(view, parts.meter):
        time = min(time, parts.meter.state[READ_AT])
    if truth.ends.filled[0] > 0 and truth.ends.time[0] < INF:  # else all running jobs are suspended
        time = min(time, truth.ends.time[0], loop.tick_at_s, loop.sample_at_s)
        time = min(time, parts.meter.state[READ_AT])
        if view.now.correction > codes.LIMIT_AT_START:
            time = min(time, overrun_time(view))
    if loop.next_arrival < len(truth.arrival):
        time = min(time, truth.submit[truth.arrival[loop.next_arrival]])
    if time == INF and truth.ends.filled[0] == 0 and view.now.queued == 0:
        return INF  # signals and ticks alone keep no run alive
    if truth.timers.filled[0] > 0:
        time = min(time, truth.timers.time[0])
    if loop.next_node_event < len(truth.node_time):
        time = min(time, truth.node_time[loop.next_node_event])
    if loop.next_signal < len(truth.signal_time):
        time = min(time, truth.signal_time[loop.next_signal])
    time = min(time, loop.ramp_at_s)
    if time == INF and loop.control_steps_left <= 0:
        return INF  # a queue that nothing can move any more
    return float(min(time, loop.control_at_s, parts.step.now.at_s))


@inlined
def advance(view: KernelView, truth: Truth, log: Log, parts: InLoop) -> int:
    """Go to the next instant; apply completions, ends of shut-downs and boots, failures and returns.

    Returns instead where a buffer might run full, after so many events (PROGRESS), or where nothing is to come.
    """
    loop = truth.loop
    # Before anything of the instant is done, so that it can be repeated from the beginning.
    if log_is_full(view, truth, log):
        return codes.NEED_ROOM
    if loop.events >= loop.event_limit:
        loop.events = 0
        return codes.PROGRESS
    now = next_time(view, truth, parts)
    if now == INF:
        return codes.DONE
    # From here on the instant takes place; nothing below returns before its completions and node events are applied.
    count_ledger(view, parts.meter, now)
    view.now.time_s = now
    loop.happened = 0
    while truth.ends.filled[0] > 0 and truth.ends.time[0] <= now:
        complete(view, truth, log, parts.history)
    if view.now.correction > codes.LIMIT_AT_START:
        correct_overruns(view)
    if truth.timers.filled[0] > 0:
        timer_events(view, truth)
    if loop.next_node_event < len(truth.node_time):
        node_events(view, truth, log)
    if loop.stale > 0:
        apply_speeds(view, truth, log)
    if now >= loop.tick_at_s:
        tick(view, truth, log)
    if now >= loop.delay_at_s:
        end_delays(view, truth)
    loop.batch = loop.next_arrival
    loop.events += 1
    loop.phase = ARRIVE
    return -1


@inlined
def complete(view: KernelView, truth: Truth, log: Log, history: HistoryState) -> None:
    """End the job at the top of the heap: log, energy, true watts, units and ledger; then what estimators learn.

    The energy of the last stretch is billed from the start at the final watts; ``change_speed`` has added what earlier
    stretches differed by.
    """
    job = as_int64(truth.ends.item[0])
    heap_remove(truth.ends, job)
    time_s = view.now.time_s
    log.end[job] = time_s
    log.energy_j[job] += (time_s - log.start[job]) * (truth.uw[job] / codes.MICRO)
    log.state[job] = codes.KILLED if truth.kill[job] else codes.COMPLETED
    account(view, truth, job, as_int64(-1))
    if truth.loop.keeps_owners != 0:
        count_job(view, truth, job, as_int64(-1))
    if truth.loop.reports_completions != 0:
        log.end_option[job] = view.held.option[job]
        log.limit_uw[job] = least_limit(view, truth, job)
        log.finished[truth.loop.finished] = job
        truth.loop.finished += 1
    option = as_int64(view.held.option[job])
    release_job(view, job)
    if truth.loop.draining > 0:
        end_drains(view, truth, job)
    if history.rule[ON] != 0:
        learn_end(view, log, history, job, option)
    if history.runs.rule[PREDICTS] != 0:
        learn_run(view, log, history.runs, job)
    truth.loop.happened |= codes.STOP_ON_COMPLETION
    truth.loop.events += 1


@inlined
def arrive(view: KernelView, truth: Truth, log: Log, history: HistoryState) -> int:
    """Apply the submissions of this instant: reject them, or queue them once they have a prediction.

    All submissions of an instant are predicted together, after its completions were learned (rule 2). The batch is the
    jobs BATCH to NEXT_ARRIVAL - 1 in order of arrival; while both are equal it has not been opened yet.
    """
    loop = truth.loop
    time_s = view.now.time_s
    end = loop.batch
    while end < len(truth.arrival) and truth.submit[truth.arrival[end]] <= time_s:
        end += 1
    if end > loop.batch and loop.next_arrival == loop.batch:
        # Moved before the stop: the next call sees that this batch has been predicted.
        loop.next_arrival = end
        if loop.stop_mask & codes.STOP_FOR_PREDICTION:
            return codes.NEED_PREDICTION
    for k in range(loop.batch, loop.next_arrival):
        job = as_int64(truth.arrival[k])
        if truth.reject[job] != 0:
            log.state[job] = codes.REJECTED
            log.reason[job] = truth.reject[job]
        else:
            log.state[job] = codes.WAITING
            if history.rule[ON] != 0:
                predict_from_history(view, history, job)
            if history.runs.rule[PREDICTS] != 0:
                plan_from_recent(view, history.runs, job)
            never = never_starts(view, truth, job)
            if never == 0:
                enqueue_job(view, job)
            else:
                log.state[job] = codes.NOT_STARTED
                log.reason[job] = never
            loop.happened |= codes.STOP_ON_ARRIVAL
        loop.events += 1
    loop.phase = SIGNAL
    return -1


@inlined
def signal(view: KernelView, truth: Truth, log: Log, meter: SiteMeter) -> int:
    """Put the cap of this instant in force (rule 13 of docs/semantics.md), and read power sensors and the site meter.

    A lower cap takes nothing from running jobs; AVAILABLE may become negative, and then nothing starts (rule 16).
    """
    loop = truth.loop
    k = loop.next_signal
    while k < len(truth.signal_time) and truth.signal_time[k] <= view.now.time_s:
        view.now.cap_uw = truth.signal_uw[k]
        view.now.full_cap_uw = truth.announced.full_uw[k]
        view.now.in_target = truth.signal_target[k]
        view.now.ahead_s = truth.announced.ahead_s[k]
        view.now.ahead_row = truth.announced.ahead_row[k]
        view.now.ahead_end = truth.announced.ahead_end[k]
        if view.now.has_ramp != 0:
            begin_ramp(view, truth, k)
        set_budget(view)
        loop.happened |= codes.STOP_ON_SIGNAL
        k += 1
    if has_supply(view) and k > loop.next_signal:
        put_limits(view)
    loop.next_signal = k
    if view.now.has_ramp != 0:
        climb(view, truth)
    if loop.sensing != 0:
        read_telemetry(view, truth)
    if meter.state[READ_AT] <= view.now.time_s:
        read_meter(view, truth, log, meter)
    loop.phase = CONTROL
    return -1


@separate
def read_telemetry(view: KernelView, truth: Truth) -> None:
    """Read the power sensors where they are due, or let what was read become stale (rule 15 of docs/semantics.md)."""
    time_s = view.now.time_s
    if time_s >= truth.loop.sample_at_s:
        read_samples(view, truth)
        period = truth.sensors.figures.poll_s
        truth.loop.sample_at_s = (periods(time_s, period) + 1) * period
    elif truth.loop.on_submission != 0 and truth.loop.happened & codes.STOP_ON_ARRIVAL:
        read_samples(view, truth)
    elif time_s >= truth.loop.stale_at_s:
        lose_samples(view, truth)


@inlined
def control(view: KernelView, truth: Truth, log: Log, step: ControlStep) -> int:
    """Stop for the controls if one is due or waits for an event that happened at this instant.

    A compiled control that is due alone takes its step here; beside others it takes it in their order, by the session.
    ``happened`` was filled by the phases before; the actions of controls add node events to it, which wake no
    control any more.
    """
    truth.loop.phase = PASS
    due = truth.loop.control_at_s <= view.now.time_s
    if due or truth.loop.stop_mask & truth.loop.happened:
        return codes.NEED_CONTROL
    if step_is_due(view, step, as_int64(truth.loop.happened)):
        if asks_consent(view, step) != 0:
            return codes.NEED_CONTROL
        step_alone(view, truth, log, step)
    return -1


@separate
def step_alone(view: KernelView, truth: Truth, log: Log, step: ControlStep) -> None:
    """Take the step of a compiled control where no control in Python acts, and count a step without effect."""
    take_step(view, truth, log, step)
    left = truth.loop.control_steps_left - 1.0
    moves = step.now.acted != 0 and truth.ends.filled[0] > 0  # a limit moves no queue where no job runs
    truth.loop.control_steps_left = codes.IDLE_CONTROL_STEPS if moves else left


@inlined
def decide_pass(view: KernelView, truth: Truth) -> int:
    """Run the pass of this instant, postpone it, or stop for a pass in Python.

    With ``pass_interval_s`` (rule 10) a pass that comes too early is postponed to PASS_AT, an event by itself.
    """
    loop = truth.loop
    time_s = view.now.time_s
    earliest = next_pass(view, truth)
    if loop.pass_interval_s > 0 and time_s < earliest:
        # Remember to run it once the interval is over, unless nothing waits.
        loop.pass_at_s = earliest if view.now.queued > 0 else INF
        loop.phase = APPLY
        return -1
    loop.pass_at_s = INF
    loop.phase = APPLY
    if view.now.queued > 0 and loop.stop_mask & (codes.STOP_FOR_PASS | codes.STOP_FOR_START):
        view.now.last_pass_s = time_s
        return codes.NEED_PASS if loop.stop_mask & codes.STOP_FOR_PASS or asks_pass(view) else -1
    schedule(view)
    return -1


@separate
def asks_pass(view: KernelView) -> int:
    """Return 1 where a pass in Python has something to start, so that other runs compile nothing of the question."""
    return may_start(view)


@inlined
def next_pass(view: KernelView, truth: Truth) -> float:
    """Return when the next pass may run: not before the interval has elapsed, or at the next of its multiples."""
    loop = truth.loop
    time_s, last = view.now.time_s, view.now.last_pass_s
    interval = loop.pass_interval_s
    if loop.pass_at_completion == 0.0 or interval <= 0.0:
        return float(last + interval)
    if loop.happened & codes.STOP_ON_COMPLETION or last == -INF or time_s >= loop.pass_at_s:
        return float(time_s)
    intervals = max(1.0, np.floor((time_s - last) / interval))
    time = last + intervals * interval
    return float(time if time >= time_s else last + (intervals + 1.0) * interval)


@inlined
def apply_starts(view: KernelView, truth: Truth, log: Log, parts: InLoop) -> int:
    """Let the jobs of the buffer of starts run: true watts, end, log; write the power step of this instant.

    The true end is rounded to 1 µs only where the speed is not the reference speed, so that times of a trace stay as
    they were written (rule 1). Stops before the power step for controls that wait for starts, where there are some.
    """
    time_s = view.now.time_s
    started = view.now.starts > 0
    if len(truth.phases.pattern) > 0:
        begin_phases(view, truth, log)
    if truth.loop.keeps_owners != 0 and view.now.starts > 0:
        begin_in_devices(view, truth)
    for k in range(view.now.starts):
        job = as_int64(view.entries.job[view.start_entry[k]])
        option = as_int64(view.start_option[k])
        set_physics(view, truth, job)
        log.state[job] = codes.RUNNING_NOW
        log.start[job] = time_s
        log.option[job] = option
        end = time_s + truth.work[job]
        if truth.factor[job] != 1.0:
            end = max(time_s, round_us(time_s + truth.work[job] * truth.factor[job]))
        heap_push(truth.ends, end, job)
        account(view, truth, job, as_int64(1))
    view.now.starts = 0
    if truth.loop.listed > 0:
        apply_speeds(view, truth, log)
    woken = started and parts.step.now.events & codes.STOP_ON_START != 0
    if (started and truth.loop.stop_mask & codes.STOP_ON_START) or (woken and asks_consent(view, parts.step) != 0):
        truth.loop.happened = codes.STOP_ON_START
        return codes.NEED_CONTROL
    if woken:
        step_alone(view, truth, log, parts.step)
    if view.now.ramp_uw_per_s != 0.0:
        note_rise(view)
    note_held(view, parts.meter)
    write_power(view, truth, log)
    truth.loop.phase = ADVANCE
    return -1


@inlined
def log_is_full(view: KernelView, truth: Truth, log: Log) -> bool:
    """Return whether the next instant might not fit into the buffers.

    Three buffers grow with a run: the interval log (a start needs at most one interval for each of its units, so all
    starts of an instant together at most one for each unit), the profile of a conservative pass, and the power series
    (one row an instant).
    """
    partitions = len(view.units.free)
    # Units that are off or down now may come back at that instant, and running jobs may be requeued.
    if view.now.intervals + view.units.unit_start[partitions] > len(view.held.low):
        return True
    # A profile has a row for each running end, two for each queued job (a job has at most one place at a time), and one
    # for each announced limit.
    rows = view.now.running + 2 * view.now.queued + 2 * (partitions + 2)
    if view.now.backfill == codes.CONSERVATIVE:
        # What may join the queue at the next instant: its submissions, and every running job if all are requeued.
        entering = 2 * partitions * (batch_size(truth) + view.now.running) + len(view.ahead.stamp)
        if max(rows, view.now.plan_end + 2) + entering > len(view.plan.time):
            return True
    return bool(truth.loop.power_rows + 1 >= len(log.time))


@inlined
def batch_size(truth: Truth) -> int:
    """Return how many jobs arrive at the next instant of submission.

    Array jobs arrive by the thousand at one second; the buffers must hold all of them.
    """
    k = truth.loop.next_arrival
    end = k
    while end < len(truth.arrival) and truth.submit[truth.arrival[end]] == truth.submit[truth.arrival[k]]:
        end += 1
    return int(end - k)
