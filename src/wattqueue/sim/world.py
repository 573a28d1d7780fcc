"""The simulated world as a session's driver: view, truth and log of one run, and how actions take effect in them.

``ABILITIES`` has the simulator's table: every kind of action has the function that carries it out here, through kernels
that check it (``kernels/actions.py``). What an action frees counts at once: the simulator knows what happened.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import calls as act
from wattqueue.kernels import codes, state
from wattqueue.kernels.calls import bind, set_device_limits
from wattqueue.kernels.recent_runs import set_planned
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs, Observed
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts import actions
from wattqueue.parts.contracts import Finished, FinishedRuns, Floats
from wattqueue.parts.oracles import jobs_for
from wattqueue.policy.actions import NO_OPTION, REASONS, delay_start, start_job
from wattqueue.policy.capabilities import DriverAbilities
from wattqueue.policy.identity import JobNames

if TYPE_CHECKING:
    from wattqueue.policy.view import View
    from wattqueue.sim.observation import Completions, EndedRuns


class SimulatedWorld:
    """View, truth and log of a run."""

    __slots__ = (
        *(
            "abilities",
            "bound",
            "completions",
            "ended_runs",
            "jobs",
            "kernel",
            "log",
            "machine",
            "names",
            "observed",
            "signals",
        ),
        *("tables", "truth", "views"),
    )

    def __init__(
        self,
        jobs: Jobs,
        machine: Machine,
        kernel: state.KernelView,
        truth: state.Truth,
        log: state.Log,
        signals: Signals,
    ) -> None:
        """Take the arrays of a run, and what is announced before it."""
        self.signals = signals
        self.jobs, self.machine, self.kernel, self.truth, self.log = jobs, machine, kernel, truth, log
        self.abilities = ABILITIES
        """What the simulator carries out."""
        self.names = JobNames(jobs.job_id)
        self.completions: Completions | None = None
        """What an estimator still has to learn."""
        self.ended_runs: EndedRuns | None = None
        """What a run-time part still has to learn."""
        self.observed: Observed | None = None
        """What parts that are given views see of jobs that started and ended; None where there are none."""
        self.views: dict[int, View] = {}
        """The view of each part, by the part's id."""
        self.tables: dict[int, KnownJobs] = {}
        """The job table of each of them, by the part's id."""
        self.bound: dict[Callable[..., int], Callable[..., int]] = {}
        """Entry kernels with the arrays of this run prepared."""

    def replace(self, *, kernel: state.KernelView | None = None, log: state.Log | None = None) -> None:
        """Go on with other arrays, in which a buffer is longer."""
        self.kernel, self.log = kernel or self.kernel, log or self.log
        self.bound.clear()
        self.views.clear()

    def bind(self, entry: Callable[..., int], *tuples: Any) -> Callable[..., int]:
        """Bind an entry kernel to ``tuples`` of this run and keep it: for actions, of which a run may do many."""
        found = self.bound[entry] = bind(entry, *tuples)
        return found

    def observe(self, *, learned: bool, timed: bool, seen: bool) -> None:
        """Keep what parts get to know of completions: those that learn watts or run times, and those with views."""
        self.ended_runs = self.completions = self.observed = None
        if not (learned or timed or seen):
            return
        from wattqueue.sim.observation import Completions, EndedRuns, observed_in

        loop = self.truth.loop
        self.ended_runs = EndedRuns(self.kernel, self.log, loop) if timed else None
        self.completions = Completions(self.jobs, self.log, loop) if learned else None
        self.observed = observed_in(self.jobs, self.log, loop) if seen else None

    def table(self, part: object) -> KnownJobs:
        """Return the job table of a part of the policy."""
        found = self.tables.get(id(part))
        if found is None:
            found = self.tables[id(part)] = jobs_for(part, self.jobs, self.observed)
        return found

    def view(self, refusals: tuple[actions.Refusal, ...], part: object = None) -> View:
        """Return the present as ``part`` sees it.

        A view shows the arrays of the run, which change under it: one serves a part for as long as they are the same.
        """
        kept = self.views.get(id(part))
        if kept is None:
            from wattqueue.policy.view import View

            table = self.table(part)
            kept = View(table, self.machine, self.kernel, self.truth.unit_state, refusals, self.names, self.signals)
            self.views[id(part)] = kept
        else:
            kept.refusals = refusals
        return kept

    @property
    def device_limits_w(self) -> Floats:
        """Return the limits of all devices, inf for none. Shape (D,)."""
        return self.truth.devices.cap_uw / codes.MICRO

    @property
    def now_s(self) -> float:
        """Return the present instant."""
        return self.kernel.now.time_s

    def arrivals(self) -> NDArray[np.int32]:
        """Return the rows of the jobs that are submitted at this instant. Shape (k,)."""
        loop = self.truth.loop
        rows: NDArray[np.int32] = self.truth.arrival[loop.batch : loop.next_arrival]
        return rows

    def finished(self) -> Finished | None:
        """Return the jobs that ended since the last call, with measured watts (rule 11); None for none."""
        return None if self.completions is None else self.completions.new(self.kernel.held)

    def finished_runs(self) -> FinishedRuns | None:
        """Return the run times of jobs that ended since the last call; None for none."""
        return None if self.ended_runs is None else self.ended_runs.new()

    def take_planned(self, rows: NDArray[np.int32], seconds: Floats) -> None:
        """Write the planned times of jobs that are about to be queued, NaN for the walltime. Shapes (k,)."""
        set_planned(self.kernel, rows, seconds)

    def take_prediction(self, rows: NDArray[np.int32], watts: Floats) -> None:
        """Write the predicted watts of one unit of jobs that are about to be queued. Shapes (k,), (k, O)."""
        act.set_predictions(self.kernel, rows, np.rint(watts * codes.MICRO).astype(np.int64))


def _reason(world: SimulatedWorld, code: int) -> str:
    """Return why an action was refused, by the code of its kernel; empty where it was carried out."""
    supply = world.kernel.supply
    if code != codes.REFUSED_POWER or not len(supply.marks):
        return REASONS[code]
    from wattqueue.kernels.supply_load import REFUSER

    if not supply.marks[REFUSER]:
        return REASONS[code]
    domain = world.machine.supply_tree.domains[int(supply.number[supply.marks[REFUSER] - 1])]
    supply.marks[REFUSER] = 0
    return f"power domain {domain.name} has no room for its watts"


def _start(world: SimulatedWorld, action: actions.StartJob) -> str:
    return start_job(world.kernel, world.names, action)


def _frequency(world: SimulatedWorld, action: actions.SetFrequency) -> str:
    job, option = world.names.row(action.job), operator.index(action.option)
    call = world.bound.get(act.set_frequency) or world.bind(act.set_frequency, world.kernel, world.truth, world.log)
    return _reason(world, call(job, option))


def _device_limits(world: SimulatedWorld, action: actions.SetDeviceLimits) -> str:
    """Limit devices; the jobs on them continue under the new limits. Raises: TypeError for other arrays."""
    devices, caps = np.asarray(action.devices), np.asarray(action.caps_w, np.float64)
    if len(devices) == 0 and len(caps) == 0:
        return ""
    if devices.dtype.kind not in "iu" or devices.ndim != 1 or devices.shape != caps.shape:
        raise TypeError("devices are whole numbers, and as many as caps_w")
    if devices.min() < 0 or devices.max() >= world.machine.devices:
        return NO_OPTION
    kernel, truth, log, before = world.kernel, world.truth, world.log, np.empty(len(caps))
    code = set_device_limits(kernel, truth, log, devices.astype(np.int32), caps * codes.MICRO, before)
    return _reason(world, code)


def _stop(world: SimulatedWorld, action: actions.StopNode) -> str:
    call = world.bound.get(act.stop_node) or world.bind(act.stop_node, world.kernel, world.truth)
    return _reason(world, call(operator.index(action.node)))


def _wake(world: SimulatedWorld, action: actions.WakeNode) -> str:
    call = world.bound.get(act.wake_node) or world.bind(act.wake_node, world.kernel, world.truth)
    return _reason(world, call(operator.index(action.node)))


def _requeue(world: SimulatedWorld, action: actions.Requeue) -> str:
    call = world.bound.get(act.requeue) or world.bind(act.requeue, world.kernel, world.truth, world.log)
    if not action.checkpointed_s >= 0.0:
        raise TypeError("checkpointed_s are seconds of work, 0 or more")
    row = world.names.row(action.job)
    consent = world.jobs.consent
    every = np.inf if consent is None or row < 0 else float(np.nan_to_num(consent.checkpoint_s[row], nan=np.inf))
    return REASONS[call(row, float(action.checkpointed_s) if every < np.inf else 0.0, every)]


def _suspend(world: SimulatedWorld, action: actions.Suspend) -> str:
    call = world.bound.get(act.suspend) or world.bind(act.suspend, world.kernel, world.truth, world.log)
    return _reason(world, call(world.names.row(action.job)))


def _resume(world: SimulatedWorld, action: actions.Resume) -> str:
    call = world.bound.get(act.resume) or world.bind(act.resume, world.kernel, world.truth, world.log)
    return _reason(world, call(world.names.row(action.job)))


def _drain(world: SimulatedWorld, action: actions.DrainNode) -> str:
    call = world.bound.get(act.drain_node) or world.bind(act.drain_node, world.kernel, world.truth)
    return _reason(world, call(operator.index(action.node)))


def _delay(world: SimulatedWorld, action: actions.DelayStart) -> str:
    reason = delay_start(world.kernel, world.jobs.consent, world.names, action)
    if not reason and action.until_s > world.now_s:  # one in the past delays nothing, and is no event
        world.truth.loop.delay_at_s = min(world.truth.loop.delay_at_s, float(action.until_s))
    return reason


ABILITIES = DriverAbilities(
    "the simulator",
    {
        actions.StartJob: _start,
        actions.SetFrequency: _frequency,
        actions.SetDeviceLimits: _device_limits,
        actions.StopNode: _stop,
        actions.WakeNode: _wake,
        actions.Requeue: _requeue,
        actions.Suspend: _suspend,
        actions.Resume: _resume,
        actions.DrainNode: _drain,
        actions.DelayStart: _delay,
    },
    ranked_placement=True,
    supply=True,
    unit_factors=True,
    passes_at_completion=True,
    planned_times=True,
    ramps=True,
    frees_at_once=True,
    control_steps=frozenset({codes.REDISTRIBUTE}),
    future=True,
)
"""What the simulator carries out: every action, on every ledger."""
