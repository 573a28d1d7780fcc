"""The simulator: one policy, one workload, one machine, one cap, to the last end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import EngineError, MachineError, PolicyError
from wattqueue.kernels import codes, state
from wattqueue.kernels.loop import run
from wattqueue.kernels.schedule import budget_once
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.past import Past
from wattqueue.model.schedule import PowerSeries, Schedule
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.build import PassSettings, Window, build_view
from wattqueue.policy.policy import Policy
from wattqueue.sim.answers import Answers
from wattqueue.sim.foresight import foresight_of, own_rows, recall
from wattqueue.sim.rejection import rejections
from wattqueue.sim.truth import NodeEvents, actual_power, build_truth

Progress = Callable[[int, int], None]
_EVENTS_A_STEP = 400_000
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What a simulation gave. ``notes`` counts what a reader should know (overdrawn jobs, refusals…)."""

    jobs: Jobs
    machine: Machine
    cap: Cap
    schedule: Schedule
    power: PowerSeries
    notes: dict[str, int] = field(default_factory=dict)


def simulate(
    jobs: Jobs,
    machine: Machine,
    policy: Policy,
    *,
    cap: Cap | None = None,
    actual: Prediction | None = None,
    events: NodeEvents | None = None,
    past: Past | None = None,
    progress: Progress | None = None,
) -> Run:
    """Replay ``jobs`` on ``machine`` under ``policy`` and ``cap``.

    ``actual`` gives true watts and time factors by option where the trace's own figures and the
    machine's exponents are not the truth; ``events`` failures and returns; ``past`` what had ended before
    the first submission, and an estimator that learns begins with; ``progress`` is called with
    (jobs ended or rejected, n).

    Raises: MachineError if a cap needs watts that nobody states; PolicyError for a broken part, or an
    estimator that learns but cannot take in a past.
    """
    simulation = Simulation(jobs, machine, policy, cap or Cap.none(), actual, events or NodeEvents.none(), past)
    simulation.go(progress)
    return simulation.result()


class Simulation:
    """A run under way: the kernels' view and truth, the log, and who answers what Python is asked."""

    def __init__(
        self, jobs: Jobs, machine: Machine, policy: Policy, cap: Cap, actual: Prediction | None, events: NodeEvents,
        past: Past | None = None,
    ) -> None:  # fmt: skip
        self.jobs, self.machine, self.policy, self.cap = jobs, machine, policy, cap
        prediction = own_rows(policy.estimator.predict(jobs, machine), policy.estimator)
        if past is not None:
            recall(policy.estimator, past)
        self.foresight = foresight_of(policy.estimator, jobs)
        entries = policy.order.entries(jobs, prediction, machine)
        window = policy.frequency.window(entries, prediction, machine)
        entries, window = drop_unoffered(entries, window, prediction)
        entries, window = drop_too_wide(entries, window, jobs, machine)
        refuse_what_no_kernel_does(jobs, machine, policy, prediction)
        if cap.limited:
            require_known_watts(entries, window, prediction, machine)
        self.view = build_view(jobs, machine, prediction, entries, window, pass_settings(policy, machine))
        figures = bool(getattr(policy.estimator, "machine_figures", False))
        reject = rejections(jobs, self.view, cap, machine_figures=figures)
        self.truth = build_truth(jobs, machine, actual or actual_power(jobs, machine), reject, cap, events)
        self.log = empty_log(len(jobs))
        self.answers = Answers(self)
        self.truth.when[codes.PASS_INTERVAL] = getattr(policy.backfill, "pass_interval_s", 0.0)
        self._first_cap()

    def _first_cap(self) -> None:
        """Before its first row a cap file's first value holds."""
        first = int(self.truth.signal_uw[0])
        self.view.counter[codes.CAP] = first
        budget_once(self.view)
        self.truth.tally[codes.NEXT_SIGNAL] = 1

    def go(self, progress: Progress | None = None) -> None:
        """Run to the end."""
        tally = self.truth.tally
        tally[codes.EVENT_LIMIT] = _EVENTS_A_STEP if progress else np.iinfo(np.int64).max
        while True:
            code = run(self.view, self.truth, self.log, self.foresight)
            if code == codes.DONE:
                break
            if code == codes.NEED_ROOM:
                self._make_room()
            elif code == codes.PROGRESS:
                if progress:
                    progress(int(tally[codes.NEXT_ARRIVAL] - tally[codes.HEAP]), len(self.jobs))
            else:
                self.answers.to(self, code)
        if progress:
            progress(len(self.jobs), len(self.jobs))
        if (self.log.state == codes.RUNNING_NOW).any():
            raise EngineError("the run ended while jobs were running")

    def _make_room(self) -> None:
        """Give the buffer that may run full some more, and at least what the next instant needs.

        The plan is asked last: where another one was full, it may not be (the loop comes back if it is).
        """
        tally, held, plan, log = self.truth.tally, self.view.held, self.view.plan, self.log
        if self.view.counter[codes.INTERVALS] + self.machine.units > len(held.low):
            lengthen(len(held.low) // 16 + self.machine.units, held.low, held.high)
        elif tally[codes.POWER_ROWS] + 1 >= len(log.time):
            lengthen(len(log.time) // 16 + 1024, log.time, log.jobs_uw, log.other_uw, log.busy_idle_uw, log.busy)
        else:
            lengthen(len(plan.time), plan.time, plan.watt)
            wider = np.concatenate((plan.nodes, np.empty_like(plan.nodes)), axis=1)
            self.view = self.view._replace(plan=plan._replace(nodes=wider))

    def result(self) -> Run:
        """The schedule and the power series of the finished run; the log's own columns, so ask once."""
        return Run(self.jobs, self.machine, self.cap, self._schedule(), self._power(), self.answers.notes())

    def _schedule(self) -> Schedule:
        log, held = self.log, self.view.held
        ran = (log.state == codes.COMPLETED) | (log.state == codes.KILLED)
        for column in (log.start, log.end):
            column[~ran] = np.nan
        log.state[log.state == codes.WAITING] = codes.NOT_STARTED
        log.option[~ran] = -1
        predicted = self._predicted()
        predicted[~ran] = np.nan
        held.pieces[~ran] = 0
        used = int(self.view.counter[codes.INTERVALS])
        return Schedule(
            log.state, log.reason, log.start, log.end, log.option, log.energy_j, predicted,
            held.first, held.pieces, held.low[:used], held.high[:used],
        )  # fmt: skip

    def _predicted(self) -> NDArray[np.float64]:
        """Watts of each job that the ledger counted, written over its last true ones: nobody draws any more."""
        table, micro = self.view.predicted, self.truth.uw
        for k in range(0, len(micro), _BLOCK):
            rows = np.arange(k, min(k + _BLOCK, len(micro)))
            row = 0 if len(table.power_uw) == 1 else table.row[rows] if len(table.row) else rows
            micro[rows] = table.power_uw[row, self.log.option[rows]] * self.jobs.nodes[rows]
        return watts_in_place(micro)

    def _power(self) -> PowerSeries:
        """From the first submission to the last end; what nodes do before and after is nobody's run."""
        log = self.log
        time = log.time[: self.truth.tally[codes.POWER_ROWS]]
        first, last = self.jobs.submit_s.min(initial=np.inf), np.nanmax(log.end, initial=-np.inf)
        begin = max(int(np.searchsorted(time, first, side="right")) - 1, 0)
        rows = slice(begin, int(np.searchsorted(time, last, side="right")))
        time = np.maximum(time[rows], first, out=time[rows])
        jobs_w, other_w, idle_w = (watts_in_place(c[rows]) for c in (log.jobs_uw, log.other_uw, log.busy_idle_uw))
        return PowerSeries(time, jobs_w, other_w, idle_w, log.busy[rows])


def refuse_what_no_kernel_does(jobs: Jobs, machine: Machine, policy: Policy, prediction: Prediction) -> None:
    """Raises PolicyError for choices that the contracts allow and no kernel carries out yet.

    Better an error than a run that silently places by lowest number (docs/adr/0003).
    """
    ranked = policy.placement.rank(len(jobs.app.names), machine, prediction) is not None
    if ranked or prediction.unit_factor is not None:
        raise PolicyError(
            "compiled passes take the free units with the lowest numbers; ranked placement and watts that depend on "
            "the unit are not built yet",
            where=policy.name,
            mend='use placement = "lowest" and an estimator without unit factors',
        )
    if policy.ledger.code == codes.CHANCE:
        refuse_chance(policy)
    elif policy.ledger.code != codes.PREDICTED:
        raise PolicyError(
            "the simulator counts predicted watts; a measured ledger is not built yet",
            where=policy.name,
            mend='use ledger = "predicted"',
        )


def refuse_chance(policy: Policy) -> None:
    """Raises PolicyError where a pass does not check starts one by one, as a margin that grows with them needs."""
    code = getattr(policy.backfill, "code", codes.CUSTOM)
    if code not in (codes.NO_BACKFILL, codes.FIRST_FIT, codes.EASY) or hasattr(policy.order, "rerank"):
        raise PolicyError(
            "a chance ledger goes with greedy passes and static orders alone",
            where=policy.name,
            mend='use backfill = "easy", "first-fit" or "none", and order = "fcfs"',
        )


def pass_settings(policy: Policy, machine: Machine) -> PassSettings:
    """What the pass is told; a backfill without a compiled pass is asked in Python."""
    code = getattr(policy.backfill, "code", codes.CUSTOM)
    chance = getattr(policy.ledger, "terms", None)
    return PassSettings(code, getattr(policy.backfill, "queue_depth", 0), machine.cap_scope, chance)


def lengthen(rows: int, *columns: NDArray[Any]) -> None:
    """Put ``rows`` more behind each column, in place.

    The operating system moves the pages of a large one; a copy would touch as much memory again.
    """
    for column in columns:
        column.resize(len(column) + rows, refcheck=False)


def watts_in_place(micro: NDArray[np.int64]) -> NDArray[np.float64]:
    """Integer microwatts as watts, written over them: at its end a run's memory is at its peak."""
    watts = micro.view(np.float64)
    for k in range(0, len(micro), _BLOCK):
        watts[k : k + _BLOCK] = micro[k : k + _BLOCK] / codes.MICRO
    return watts


def empty_log(n: int) -> state.Log:
    """Nothing has happened; room for a power step a job, most traces need somewhat more.

    numpy asks for huge pages for a part of a new array, and the system moves no half of a mapping: the first time
    that a column is lengthened copies it. So that is to happen early, while other buffers still are short.
    """
    rows = n + 1024
    return state.Log(
        np.zeros(n, np.int8), np.zeros(n, np.int8), np.full(n, np.nan), np.full(n, np.nan), np.zeros(n),
        np.full(n, -1, np.int16), np.empty(rows), np.empty(rows, np.int64), np.empty(rows, np.int64),
        np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(n, np.int32),
    )  # fmt: skip


def drop_unoffered(entries: Entries, window: Window, prediction: Prediction) -> tuple[Entries, Window]:
    """Leave out entries whose watts are infinite: options that an estimator never offers."""
    if not np.isinf(prediction.power_w).any():
        return entries, window
    row = entries.job if prediction.row is None else prediction.row[entries.job]
    row = np.zeros_like(row) if len(prediction.power_w) == 1 else row
    first, last = (np.asarray(side) for side in window)
    keep = np.isfinite(prediction.power_w[row, first]) & np.isfinite(prediction.power_w[row, last])
    kept = Entries(entries.job[keep], entries.partition[keep], entries.priority[keep])
    return kept, (first[keep], last[keep])


def drop_too_wide(entries: Entries, window: Window, jobs: Jobs, machine: Machine) -> tuple[Entries, Window]:
    """Leave out entries wider than their partition: they could never run, and would hold its reservation."""
    units = np.array([p.units for p in machine.partitions])
    fits = jobs.nodes[entries.job] <= units[entries.partition]
    if fits.all():
        return entries, window
    first, last = (np.asarray(side) for side in window)
    return Entries(entries.job[fits], entries.partition[fits], entries.priority[fits]), (first[fits], last[fits])


def require_known_watts(entries: Entries, window: Window, prediction: Prediction, machine: Machine) -> None:
    """Raises MachineError if a cap is to be held with watts that nobody knows."""
    if not np.isnan(prediction.power_w).any():
        return
    row = entries.job if prediction.row is None else prediction.row[entries.job]
    row = np.zeros_like(row) if len(prediction.power_w) == 1 else row
    unknown = np.isnan(prediction.power_w[row, np.asarray(window[0])])
    if unknown.any():
        partition = machine.partitions[int(entries.partition[np.argmax(unknown)])].name
        raise MachineError(
            f"a cap needs the watts of every job, and for {int(unknown.sum())} entries nobody states them",
            where=f"{machine.name}, partition {partition}",
            mend="state the unit's maximum (--node-watts IDLE:MAX, or max_w in the machine file), or use an "
            "estimator that knows (--estimator oracle-mean)",
        )
