"""A run described by plain values: enough to repeat it, here, on another day, on another machine.

The command line, ``rerun``, campaigns and studies all go through ``load`` (read and check the inputs) and ``perform``
(simulate, compute the metrics). ``record`` and ``recorded_inputs`` write and read what a run folder keeps.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.cap import parse_cap, refuse_below_idle
from wattqueue.formats.epoch import trace_epoch_s
from wattqueue.formats.machine.file import load_machine
from wattqueue.formats.machine.node_watts import parse_node_watts
from wattqueue.formats.read import ReadOptions, read_workload
from wattqueue.formats.rundir.folder import RunRecord, read_facts
from wattqueue.formats.source import sha256_of
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.model.energy_origin import QUALITY, energy_origin
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.metrics import Metrics, metrics
from wattqueue.model.past import Past
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import ROW_DEFAULTS, Policy, find_row, policy_from_row
from wattqueue.sim.engine import Progress, Run, simulate
from wattqueue.sim.phases import has_phases, with_phases
from wattqueue.workload.generated import generate, is_generated, refuse_unknown


@dataclass(frozen=True)
class Task:
    """A run as text and numbers."""

    workload: str
    """A trace file, or a generator's call such as ``marconi:days=7,load=0.9``."""
    machine: str | None = None
    """Catalogue name or file of the machine; None where ``nodes`` describes a plain one."""
    nodes: int | None = None
    """Number of nodes of a plain machine."""
    node_watts: str | None = None
    """``IDLE:MAX`` of one node of a plain machine."""
    policy: str = "easy"
    """Name of a published row, ``my.toml:row``, or ``my.py:MyPart``."""
    estimator: str | None = None
    """Replaces the policy's estimator."""
    cap: str | None = None
    """Watts, a share of the machine's maximum, or a file of steps; None for the machine's own cap, or none."""
    seed: int = 0
    """Seed of a generator; no effect on a trace."""
    default_walltime_s: float | None = None
    """Walltime of jobs that have none."""
    procs_per_node: int = 1
    """Processors of an SWF trace that make a node."""
    hashes: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files that went in, by field; compared when a run is repeated."""

    def values(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name, value in asdict(self).items() if value not in (None, {})}


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
    workload: Workload | None = None,
) -> RunInputs:
    """Read a task's inputs. ``machine``, ``row`` and ``cap`` replace the named ones (a rerun brings its own).

    Order: machine, policy, cap (a share needs the machine), workload; so a misspelt policy is reported before a long
    trace is read.

    Raises: InputError, MachineError or PolicyError; a file whose hash is not the recorded one is refused.
    """
    machine = machine or task_machine(task)
    policy = policy_from_row(task.policy, row if row is not None else policy_row(task))
    if cap is not None:
        refuse_below_idle(cap, machine, "cap", "cap")
    else:
        cap = parse_cap(task.cap, machine) if task.cap is not None else machine_cap(machine)
    workload = workload or task_workload(task)
    return RunInputs(with_hashes(task), workload.jobs, workload.unusable, machine, policy, cap)


def perform(inputs: RunInputs, progress: Progress | None = None) -> TaskResult:
    """Simulate, and compute every metric; where jobs carry power profiles, from their exact sum.

    Energies are left out (None) where neither jobs nor machine state any watts. The run's ``notes`` get the warnings.
    """
    past = inputs.past
    run, kept = simulate(inputs.jobs, inputs.machine, inputs.policy, cap=inputs.cap, past=past, progress=progress), None
    if has_phases(run):
        run, kept = with_phases(run)
    figures = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap, rows_unusable=len(inputs.unusable.line))
    if kept is not None:
        figures |= kept._asdict()
    if not watts_stated(inputs.jobs, inputs.machine):
        figures |= dict.fromkeys(("job_energy_j", "machine_energy_j", "edp_js"))
    run.notes.update(warnings_of(inputs))
    return TaskResult(inputs, run, figures)


def refuse_if_none_fits(outcome: TaskResult) -> None:
    """Refuse a run in which every job was rejected: machine and workload do not belong together. Raises: InputError."""
    jobs, machine = outcome.inputs.jobs, outcome.inputs.machine
    if outcome.metrics["jobs_rejected"] != len(jobs):
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


def warnings_of(inputs: RunInputs) -> dict[str, int]:
    """Return counts of what a reader should know of the inputs."""
    found = {}
    limit, most = inputs.cap.cap_w, inputs.machine.scope_max_w()
    if most is not None:
        text = f"caps above the machine's maximum of {most / 1e3:,.6g} kW, which limit nothing"
        found[text] = int((np.isfinite(limit) & (limit > most)).sum())
    peak = inputs.jobs.peak_power_w()
    known = [p.max_w for p in inputs.machine.partitions if p.max_w is not None]
    if peak is not None and known:
        found["jobs that draw more than the unit's stated maximum"] = int((peak > max(known)).sum())
    return {text: count for text, count in found.items() if count}


def policy_row(task: Task) -> dict[str, Any]:
    """Return the policy's row in full, with the task's own estimator where it names one.

    In full, defaults included: the row that a run records must mean the same when defaults have changed.
    """
    row = {**ROW_DEFAULTS, **find_row(task.policy)}
    if task.estimator is not None:
        row["estimator"] = task.estimator
    return row


def machine_cap(machine: Machine) -> Cap:
    """Return the cap that a machine is run under where none is stated."""
    return Cap.none() if machine.cap_w is None else Cap.constant(machine.cap_w)


def task_machine(task: Task) -> Machine:
    """Return the machine of a task.

    Raises: InputError if the task names none, or two.
    """
    if (task.machine is None) == (task.nodes is None):
        raise InputError("a run needs one machine", where="machine", hint="give --machine NAME|FILE or --nodes N")
    if task.machine is not None:
        if task.node_watts is not None:
            raise InputError("--node-watts goes with --nodes", where=task.machine)
        return load_machine(task.machine)
    nodes = int(task.nodes or 0)
    if nodes < 1:
        raise InputError(f"{nodes} nodes", where="--nodes", hint="at least 1")
    idle_w, max_w = parse_node_watts(task.node_watts) if task.node_watts is not None else (0.0, None)
    return plain_machine(nodes, idle_w, max_w)


def task_jobs(task: Task) -> tuple[Jobs, Unusable]:
    """Return the jobs of a task, and the rows that no schedule can use. Raises: InputError as ``task_workload``."""
    workload = task_workload(task)
    return workload.jobs, workload.unusable


def task_workload(task: Task) -> Workload:
    """Return the workload of a task: generated, or read from its file.

    Raises: InputError for an unknown generator, an unreadable file, or a trace without a usable job.
    """
    if is_generated(task.workload):
        jobs = generate(task.workload, np.random.default_rng(task.seed))
        return Workload(jobs, Unusable(), "generated", len(jobs))
    if not Path(task.workload).exists():
        refuse_unknown(task.workload)
    options = ReadOptions(default_walltime_s=task.default_walltime_s, procs_per_node=task.procs_per_node)
    workload = read_workload(Path(task.workload), options)
    if len(workload.jobs) == 0:
        raise InputError("no usable job", where=task.workload, hint=f"{len(workload.unusable)} rows were unusable")
    return workload


def task_files(task: Task) -> dict[str, Path]:
    """Return the files that a task's values name, by field. Names of catalogue entries and generators are no files."""
    named = {"machine": task.machine, "cap": task.cap, "policy": task.policy, "estimator": task.estimator}
    files = {key: Path(value.partition(":")[0]) for key, value in named.items() if value}
    if not is_generated(task.workload):
        files["workload"] = Path(task.workload)
    return {key: path for key, path in sorted(files.items()) if path.suffix and path.is_file()}


def with_hashes(task: Task) -> Task:
    """Return the task with the hash of each file.

    Raises: InputError if a recorded hash is another one: the file has changed since.
    """
    hashes = {key: sha256_of(path) for key, path in task_files(task).items()}
    for key, recorded in task.hashes.items():
        if hashes.get(key) != recorded:
            raise InputError(
                f"the {key} file differs from the recorded one (SHA-256 {hashes.get(key, 'missing')})",
                where=str(getattr(task, key)),
                hint=f"restore the file with SHA-256 {recorded}",
            )
    return Task(**{**asdict(task), "hashes": hashes})


def recipe(inputs: RunInputs) -> dict[str, Any]:
    """Return what run.toml needs beside machine and cap to repeat a run.

    The task as it was given, and the policy's row in full.
    """
    row = {key: value for key, value in inputs.policy.row.items() if value is not None}
    return {"task": inputs.task.values(), "policy": row}


def record(outcome: TaskResult) -> RunRecord:
    """Return a finished run as its folder keeps it."""
    run, inputs = outcome.run, outcome.inputs
    facts = {**recipe(inputs), **trace_facts(outcome)}
    return RunRecord(run.jobs, run.machine, run.cap, run.schedule, run.power, outcome.metrics, facts, inputs.unusable)


def trace_facts(outcome: TaskResult) -> dict[str, Any]:
    """Return what jobs.csv cannot hold and a report prints: the date of the trace's 0, and how energies were obtained.

    Both are left out where the trace says nothing about them, so that run.toml states no guess.
    """
    run, workload = outcome.run, outcome.inputs.task.workload
    found: dict[str, Any] = {}
    if Path(workload).is_file() and (epoch := trace_epoch_s(Path(workload), run.jobs.submit_s)):
        found["epoch_s"] = epoch
    if QUALITY in run.jobs.extra:
        shares = energy_origin(run.jobs, run.schedule.energy_j)
        found["energy_origin"] = {kind: round(share, 4) for kind, share in shares.items()}
    return found


def recorded_inputs(folder: Path) -> RunInputs:
    """Return the inputs of the run that a folder records: its machine, its policy row, its cap, its files by hash.

    Raises: InputError for a folder that records no run, or a file that changed since.
    """
    facts, machine, cap = read_facts(folder)
    try:
        task, row = Task(**facts["task"]), {**ROW_DEFAULTS, **facts["policy"]}
    except (KeyError, TypeError) as error:
        raise InputError(f"not the recipe of a run: {error}", where=folder, hint="run it again") from error
    return load(task, machine=machine, row=row, cap=cap)
