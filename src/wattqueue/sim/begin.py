"""What a run begins with beside its jobs, and its notes on domains: signals, predictions, what is announced or read.

Most runs have no load targets, no sensors and no parts that learn; the modules of these are imported here when a run
asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels.in_loop import ControlStep, no_step
from wattqueue.kernels.state import KernelView
from wattqueue.kernels.state.site_meter import no_meter
from wattqueue.kernels.state.truth import BASE_UW
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap, RiseScale, Signals
from wattqueue.model.supply import NO_MARGIN, Terms
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.oracles import jobs_for
from wattqueue.policy.build import with_delays
from wattqueue.policy.capabilities import LEAST_SHARE, Capabilities
from wattqueue.policy.registry import Policy
from wattqueue.policy.session import Session
from wattqueue.sim.truth import SensorReading
from wattqueue.sim.world import SimulatedWorld

if TYPE_CHECKING:
    from wattqueue.kernels.in_loop import HistoryState
    from wattqueue.kernels.state.site_meter import SiteMeter
    from wattqueue.model.schedule import Schedule
    from wattqueue.parts.run_contracts import MeteredLedger


def signals_of(
    cap: Cap, targets: LoadTargets | None, machine: Machine, jobs: Jobs, terms: Terms = NO_MARGIN
) -> Signals:
    """Return cap and targets as signals, the targets in watts. ``terms``: see ``model.supply_binding.can_bind``.

    Raises: MachineError for a target below idle watts, or a percentage or a ramp of what is not stated.
    """
    signals = Signals(cap)
    if targets is not None and len(targets):
        targets.require_whole("targets")  # ``with_domain_targets`` puts the others into the machine
        targets.require_reachable(machine, cap)
        signals = Signals(cap, targets.in_watts(machine, cap), RiseScale.of(machine))
    if not machine.supply:
        return signals
    from wattqueue.policy.supply import require_begun, with_limit_times

    require_begun(machine, float(jobs.submit_s.min(initial=np.inf)))
    return with_limit_times(signals, machine, terms)


def begin_predictions(
    policy: Policy, needs: Capabilities, prediction: Prediction, jobs: Jobs, machine: Machine, past: Past | None
) -> tuple[Prediction, NDArray[np.float64] | None, HistoryState]:
    """Return predictions and planned seconds (None: walltimes) of parts that learn, and what the loop asks of them.

    ``past``: what they have learned before the first submission.
    """
    from wattqueue.policy.run_times import begin_run_times
    from wattqueue.sim.history_prediction import history_prediction_of, own_rows, recall, recall_runs

    prediction = own_rows(prediction, policy.estimator)
    if past is not None:
        recall(policy.estimator, needs, past)
    planned_s = begin_run_times(needs.plans, jobs_for(policy.runtime, jobs), machine)
    if past is not None:
        recall_runs(policy.runtime, needs, past)
    return prediction, planned_s, history_prediction_of(policy.estimator, policy.runtime, jobs)


def step_of(session: Session, world: SimulatedWorld, cap: Cap) -> ControlStep:
    """Return the control that the loop takes itself, which the session leaves to it; one that never steps for none."""
    if session.needs.step is None:
        return no_step()
    from wattqueue.sim.control_step import control_step_of, step_beside_others

    step = control_step_of(session.needs, world.jobs, world.machine, cap)
    if step.now.at_s < np.inf:
        session.leave_step_to(step_beside_others(session, world, step))
    return step


def set_least_margin(world: SimulatedWorld, needs: Capabilities, *, nodes_fail: bool) -> None:
    """State what a job needs at least to start, and the base of the cap where no node ever stops (rule 19)."""
    steps = world.truth.announced
    steps.least[:3] = needs.least_margin(LEAST_SHARE)
    steps.least[BASE_UW] = -1 if nodes_fail or needs.controls else world.kernel.now.base_uw


def meter_of(ledger: MeteredLedger | None) -> SiteMeter:
    """Return the meter of an adaptive ledger, which has read nothing; one that never reads for a ledger without one."""
    if ledger is None:
        return no_meter()
    from wattqueue.policy.sensors import site_meter_of

    return site_meter_of(ledger)


def show_announced(world: SimulatedWorld, needs: Capabilities) -> None:
    """Give the pass what is announced, row by row of the signals, where it looks ahead."""
    if needs.looks_ahead:
        from wattqueue.policy.announced import announced_at, lower_limits, with_announced

        all_limits, rises = needs.all_limits, needs.pass_code == codes.CONSERVATIVE
        found = announced_at(world.signals, world.truth.signal_time, everything=all_limits, rises=rises)
        view = with_announced(world.kernel, found)
        if all_limits and len(view.supply.parent):
            domains = [world.machine.supply_tree.domains[k] for k in view.supply.number]
            view = view._replace(supply=view.supply._replace(ahead=lower_limits(domains)))
        world.replace(kernel=view)
        world.truth.announced.ahead_row[:], world.truth.announced.ahead_end[:] = found.first, found.end


def with_what_is_read(
    view: KernelView, machine: Machine, needs: Capabilities
) -> tuple[KernelView, SensorReading | None]:
    """Return a view with delays of jobs and sensors, where parts need them; and how sensors are read, None for not."""
    if needs.delays:
        view = with_delays(view, np.full(len(view.nodes), -np.inf))
    if not needs.reads_sensors:
        return view, None
    from wattqueue.policy.sensors import with_sensors

    return with_sensors(view, machine, needs.measured, needs.corrects), sensor_reading(needs)


def sensor_reading(needs: Capabilities) -> SensorReading:
    """Return how the power sensors are read: as the ledger says, or at whole periods for controls alone."""
    ledger = needs.measured
    if ledger is None:
        return SensorReading()
    return SensorReading(ledger.read == "submission", ledger.stale_s, ledger.ages)


def notes_of_domains(policy: str, world: SimulatedWorld, session: Session, schedule: Schedule) -> dict[str, int]:
    """Return the notes of a run that has ended on its power domains.

    Raises: PolicyError where an estimator predicted more than bounds the domains left out.
    """
    if not world.machine.supply:
        return {}
    from wattqueue.policy.supply import notes_of_run

    return notes_of_run(policy, world.machine, world.kernel, schedule.reason, session.needs.online)
