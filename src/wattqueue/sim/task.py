"""A run described by plain values: enough to repeat it, here, on another day, on another machine.

The command line, ``rerun``, campaigns and studies all go through ``load`` and ``perform``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats._source import sha256_of
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.machine_toml import load_machine
from wattqueue.formats.node_watts import parse_node_watts
from wattqueue.formats.read import ReadOptions, read_workload
from wattqueue.formats.rundir import RunRecord, read_facts
from wattqueue.formats.unusable import Unusable
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
    """What was asked for, as text and numbers.

    ``workload`` is a file, or a generator's call such as
    ``marconi:days=7,load=0.9``; ``machine`` a catalogue name or file; ``nodes`` and ``node_watts`` a
    plain machine instead. ``hashes`` hold the SHA-256 of the files that went in.
    """

    workload: str
    machine: str | None = None
    nodes: int | None = None
    node_watts: str | None = None
    policy: str = "easy"
    estimator: str | None = None
    cap: str | None = None
    seed: int = 0
    default_walltime_s: float | None = None
    procs_per_node: int = 1
    hashes: dict[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """The fields that are set."""
        return {name: value for name, value in asdict(self).items() if value not in (None, {})}


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Everything that a run takes, read and checked."""

    task: Task
    jobs: Jobs
    unusable: Unusable
    machine: Machine
    policy: Policy
    cap: Cap
    past: Past | None = None
    """What had ended before, where the workload begins in the middle of a trace."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A finished run, its metrics, and what it was made from."""

    inputs: Inputs
    run: Run
    metrics: Metrics


def load(
    task: Task, *, machine: Machine | None = None, row: dict[str, Any] | None = None, cap: Cap | None = None
) -> Inputs:
    """Read a task's inputs. ``machine``, ``row`` and ``cap`` replace the named ones (a rerun brings its own).

    Raises: InputError, MachineError or PolicyError; a file whose hash is not the recorded one is refused.
    """
    machine = machine or task_machine(task)
    policy = policy_from_row(task.policy, row if row is not None else policy_row(task))
    if cap is None:
        cap = parse_cap(task.cap, machine) if task.cap else machine_cap(machine)
    jobs, unusable = task_jobs(task)
    return Inputs(with_hashes(task), jobs, unusable, machine, policy, cap)


def perform(inputs: Inputs, progress: Progress | None = None) -> Outcome:
    """Simulate, and compute every metric; where jobs carry power profiles, from their exact sum."""
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
    return Outcome(inputs, run, figures)


def watts_stated(jobs: Jobs, machine: Machine) -> bool:
    """Whether jobs or machine say what anything draws; joules of nothing known are no zero."""
    stated = (jobs.mean_power_w is not None, jobs.max_power_w is not None, jobs.profiles is not None)
    return any(stated) or any(p.max_w is not None or p.idle_w > 0 for p in machine.partitions)


def warnings_of(inputs: Inputs) -> dict[str, int]:
    """Counts of what a reader should know of the inputs."""
    peak, most = inputs.jobs.peak_power_w(), [p.max_w for p in inputs.machine.partitions]
    known = [w for w in most if w is not None]
    if peak is None or not known:
        return {}
    above = int((peak > max(known)).sum())
    return {"jobs that draw more than the unit's stated maximum": above} if above else {}


def policy_row(task: Task) -> dict[str, Any]:
    """The policy's row in full, with the task's own estimator where it names one."""
    row = {**ROW_DEFAULTS, **find_row(task.policy)}
    if task.estimator:
        row["estimator"] = task.estimator
    return row


def machine_cap(machine: Machine) -> Cap:
    """The cap that a machine is run under where none is stated."""
    return Cap.none() if machine.cap_w is None else Cap.constant(machine.cap_w)


def task_machine(task: Task) -> Machine:
    """The machine of a task. Raises: InputError if it names none, or two."""
    if (task.machine is None) == (task.nodes is None):
        raise InputError("a run needs one machine", where="machine", mend="give --machine NAME|FILE or --nodes N")
    if task.machine is not None:
        if task.node_watts is not None:
            raise InputError("--node-watts goes with --nodes", where=task.machine)
        return load_machine(task.machine)
    nodes = int(task.nodes or 0)
    if nodes < 1:
        raise InputError(f"{nodes} nodes", where="--nodes", mend="at least 1")
    idle_w, max_w = parse_node_watts(task.node_watts) if task.node_watts is not None else (0.0, None)
    return plain_machine(nodes, idle_w, max_w)


def task_jobs(task: Task) -> tuple[Jobs, Unusable]:
    """The workload of a task, and the rows that no schedule can use."""
    if is_generated(task.workload):
        return generate(task.workload, np.random.default_rng(task.seed)), Unusable()
    if not Path(task.workload).exists():
        refuse_unknown(task.workload)
    options = ReadOptions(default_walltime_s=task.default_walltime_s, procs_per_node=task.procs_per_node)
    workload = read_workload(Path(task.workload), options)
    if len(workload.jobs) == 0:
        raise InputError("no usable job", where=task.workload, mend=f"{len(workload.unusable)} rows were unusable")
    return workload.jobs, workload.unusable


def task_files(task: Task) -> dict[str, Path]:
    """The files that a task's values name."""
    named = {"machine": task.machine, "cap": task.cap, "policy": task.policy, "estimator": task.estimator}
    files = {key: Path(value.partition(":")[0]) for key, value in named.items() if value}
    if not is_generated(task.workload):
        files["workload"] = Path(task.workload)
    return {key: path for key, path in sorted(files.items()) if path.suffix and path.is_file()}


def with_hashes(task: Task) -> Task:
    """The task with the hash of each file. Raises: InputError if a recorded hash is another one."""
    hashes = {key: sha256_of(path) for key, path in task_files(task).items()}
    for key, recorded in task.hashes.items():
        if hashes.get(key) != recorded:
            raise InputError(
                f"the {key} file is not the one that was recorded (SHA-256 {hashes.get(key, 'missing')})",
                where=str(getattr(task, key)),
                mend=f"bring back the file with SHA-256 {recorded}",
            )
    return Task(**{**asdict(task), "hashes": hashes})


def recipe(inputs: Inputs) -> dict[str, Any]:
    """What run.toml needs beside machine and cap to repeat a run: the task and the policy's row in full."""
    row = {key: value for key, value in inputs.policy.row.items() if value is not None}
    return {"task": inputs.task.values(), "policy": row}


def record(outcome: Outcome) -> RunRecord:
    """A finished run as its directory keeps it."""
    run, inputs = outcome.run, outcome.inputs
    return RunRecord(
        run.jobs, run.machine, run.cap, run.schedule, run.power, outcome.metrics, recipe(inputs), inputs.unusable
    )


def recorded_inputs(folder: Path) -> Inputs:
    """The inputs of the run that a directory records: its machine, its policy row, its cap, its files by hash.

    Raises: InputError for a directory that records no run, or a file that changed since.
    """
    facts, machine, cap = read_facts(folder)
    try:
        task, row = Task(**facts["task"]), {**ROW_DEFAULTS, **facts["policy"]}
    except (KeyError, TypeError) as error:
        raise InputError(f"not the recipe of a run: {error}", where=folder, mend="run it again") from error
    return load(task, machine=machine, row=row, cap=cap)
