"""Read the inputs of a task, simulate it, compute its metrics.

The command line, ``rerun``, campaigns and studies all go through ``load`` and ``perform``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattqueue.errors import InputError, MachineError
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import NODES_ASKED, Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import ENERGIES, Metrics, metrics
from wattqueue.model.schedule import State
from wattqueue.model.signals import Cap
from wattqueue.parts.memory import with_needed_units, with_units
from wattqueue.policy.policy import policy_from_row
from wattqueue.policy.registry import Policy
from wattqueue.runs.task import Task, machine_cap, machine_of, policy_row, row_of_machine, task_workload, with_hashes
from wattqueue.sim.engine import Progress, Run, Simulation, figures_of, simulate
from wattqueue.sim.truth import NodeEvents, actual_power

if TYPE_CHECKING:
    from wattqueue.model.physics import Physics


@dataclass(frozen=True, slots=True, eq=False)
class RunInputs:
    """Everything that a run takes, read and checked."""

    task: Task
    """The text that the inputs were made from."""
    jobs: Jobs
    """The workload."""
    unusable: Unusable
    """Rows of the trace that no schedule can use, with the reason (rule 3 of docs/semantics.md)."""
    machine: Machine
    """The machine."""
    policy: Policy
    """The policy, its parts built."""
    cap: Cap
    """The cap; infinite for none."""
    targets: LoadTargets = field(default_factory=LoadTargets.none)
    """Load targets, beside the cap."""
    physics: Physics | None = None
    """What files say of the truth, beside the trace; None for the trace and the machine's exponents."""
    past: Past | None = None
    """What had ended before, where the workload begins in the middle of a trace."""


@dataclass(frozen=True, slots=True, eq=False)
class TaskResult:
    """A finished run, its metrics, and its inputs."""

    inputs: RunInputs
    """What went in."""
    run: Run
    """Schedule, power and notes."""
    metrics: Metrics
    """Figures by name, as in ``model.metrics``; None where a figure has no meaning."""


def load(
    task: Task,
    *,
    machine: Machine | None = None,
    row: dict[str, Any] | None = None,
    cap: Cap | None = None,
    targets: LoadTargets | None = None,
    workload: Workload | None = None,
    physics: Physics | None = None,
) -> RunInputs:
    """Read a task's inputs; what is given replaces what the task names (a rerun has its own machine, row and cap).

    Order: machine, policy, cap (a share needs the machine), workload; so a misspelt policy is reported before a long
    trace is read. A task that names no machine has that of its trace, where the trace says what it was.

    Raises: InputError, MachineError or PolicyError; a file whose hash is not the recorded one is refused.
    """
    task, machine, workload = machine_of(task, machine, workload)
    row = policy_row(task, machine) if row is None else row_of_machine(row, machine)
    policy = policy_from_row(task.policy, row)
    if cap is None and task.cap is None:
        cap = machine_cap(machine)
    else:
        from wattqueue.formats.cap import parse_cap, refuse_below_idle

        if cap is None:
            cap = parse_cap(str(task.cap), machine)
        else:
            refuse_below_idle(cap, machine, "cap", "cap")
    if targets is None and task.targets is not None:
        from wattqueue.formats.load_target import read_load_targets

        targets = read_load_targets(Path(task.targets), machine, cap, domains=True)
    truth = _physics_of(task, machine, physics)
    workload = workload or task_workload(task)
    jobs = workload.jobs
    if task.consent is not None:
        from wattqueue.formats.consent import read_consent_defaults, with_defaults

        jobs = with_defaults(jobs, read_consent_defaults(Path(task.consent)))
    task, targets = with_hashes(task, row, truth.files if truth is not None else ()), targets or LoadTargets.none()
    if any(targets.domain):
        from wattqueue.model.domain_targets import with_domain_targets

        try:
            machine, targets = with_domain_targets(machine, targets, float(jobs.submit_s.min(initial=np.inf)))
        except (InputError, MachineError) as error:
            where = task.targets or "targets"
            raise type(error)(f"{error.where}: {error.what}", where=where, hint=error.hint) from error
    return RunInputs(task, jobs, workload.unusable, machine, policy, cap, targets, truth)


def _physics_of(task: Task, machine: Machine, given: Physics | None) -> Physics | None:
    """Return the physics of a run, None for none. Raises: InputError as ``runs.physics.physics_of``."""
    if given is None and machine.physics is None and task.physics is None and not task.physics_error:
        return None
    from wattqueue.runs.physics import physics_of

    return physics_of(task, machine, given)


def perform(inputs: RunInputs, progress: Progress | None = None) -> TaskResult:
    """Simulate, and compute every metric; where jobs carry power profiles, from their exact sum.

    Energies are left out (None) where neither jobs nor machine state any watts. Jobs whose memory needs more nodes than
    they ask for get these (``parts.memory``). The run's ``notes`` get the warnings.
    """
    jobs = with_needed_units(inputs.jobs, inputs.machine)
    given: dict[str, Any] = {"cap": inputs.cap, "targets": inputs.targets, "past": inputs.past, "progress": progress}
    given |= {"phases_s": inputs.task.phases_s, "actual": inputs.physics}
    run, kept = simulate(jobs, inputs.machine, inputs.policy, **given), None
    if run.jobs.profiles is not None:
        from wattqueue.sim.profiles import has_phases, with_phases

        if has_phases(run):
            run, kept = with_phases(run)
    figures = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap, rows_unusable=len(inputs.unusable.line))
    if kept is not None:
        figures |= kept._asdict()
    if not (watts_stated(inputs.jobs, inputs.machine) or (run.sources and _from_tables(run))):
        figures |= dict.fromkeys(ENERGIES)
    run.notes.update(warnings_of(inputs, jobs))
    if NODES_ASKED in jobs.extra:
        from wattqueue.parts.gpus import notes_of

        run.notes.update({text: count for text, count in notes_of(jobs).items() if count})
    return TaskResult(inputs, run, figures)


def _from_tables(run: Run) -> bool:
    """Return whether tables gave the watts of some jobs."""
    from wattqueue.sim.physics import FROM_TABLES

    return FROM_TABLES in run.sources


def prepared(inputs: RunInputs) -> Simulation:
    """Return the simulation of these inputs, before its first event."""
    jobs, machine = with_needed_units(inputs.jobs, inputs.machine), inputs.machine
    actual = actual_power(jobs, machine) if inputs.physics is None else figures_of(inputs.physics, jobs, machine)
    return Simulation(
        jobs, machine, inputs.policy, inputs.cap, actual, NodeEvents.none(),
        past=inputs.past, phases_s=inputs.task.phases_s, targets=inputs.targets,
    )  # fmt: skip


def refuse_if_none_fits(outcome: TaskResult) -> None:
    """Refuse a run in which every job was rejected: machine and workload do not belong together. Raises: InputError."""
    jobs, machine = outcome.inputs.jobs, outcome.inputs.machine
    if not (outcome.run.schedule.state == State.REJECTED).all():
        return
    widest = max(partition.units for partition in machine.partitions)
    least = int(jobs.nodes.min())
    if least > widest:
        why = f"the narrowest needs {least:,} {machine.partitions[0].unit}s, the widest partition has {widest:,}"
        hint = "use a larger machine, or --procs-per-node N where an SWF counts processors"
    else:
        why = "because of their width, or of the watts of their units under the cap"
        hint = "check the machine's units and watts, and --cap"
    raise InputError(
        f"none of {len(jobs):,} jobs fits {machine.name}: {why}", where=outcome.inputs.task.workload, hint=hint
    )


def watts_stated(jobs: Jobs, machine: Machine) -> bool:
    """Return whether jobs or machine state any watts; without them an energy of 0 J would be a claim, not a figure."""
    stated = (jobs.mean_power_w is not None, jobs.max_power_w is not None, jobs.profiles is not None)
    return any(stated) or any(p.max_w is not None or p.idle_w > 0 for p in machine.partitions)


def warnings_of(inputs: RunInputs, jobs: Jobs) -> dict[str, int]:
    """Return counts of what a reader should know of the inputs, and of the ``jobs`` that they became."""
    machine = inputs.machine
    asked = with_units(inputs.jobs, machine)
    found = {"jobs with more nodes than they ask for, for their memory": int((jobs.nodes > asked.nodes).sum())}
    for part in machine.partitions:
        text = f"GPU limits of {part.name} below {part.gpu_floor_w:g} W, the lowest that holds, which count as it"
        found[text] = sum(cap < part.gpu_floor_w for cap in part.gpu_caps_w)
    limit, most = inputs.cap.cap_w, inputs.machine.scope_max_w()
    if most is not None:
        text = f"caps above the machine's maximum of {most / 1e3:,.6g} kW, which limit nothing"
        found[text] = int((np.isfinite(limit) & (limit > most)).sum())
    peak = jobs.peak_power_w()
    known = [p.max_w for p in inputs.machine.partitions if p.max_w is not None]
    if peak is not None and known:
        found["jobs that draw more than the unit's stated maximum"] = int((peak > max(known)).sum())
    if inputs.physics is not None:
        from wattqueue.runs.physics import same_figures

        found |= same_figures(inputs.physics, inputs.policy.row)
    return {text: count for text, count in found.items() if count}
