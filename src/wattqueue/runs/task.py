"""A run described by plain values: enough to repeat it, here, on another day, on another machine.

The functions below read what a task names: its machine, its policy, its workload, its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.read import ReadOptions, read_workload
from wattqueue.formats.source import sha256_of
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.signals import Cap
from wattqueue.policy.row_files import files_in
from wattqueue.policy.rows import find_row, is_for_machine, split_name


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
    """Replaces the policy's estimator: a name, with options and corrections as in ``policy.part_text``."""
    cap: str | None = None
    """Watts, a share of the machine's maximum, or a file of steps; None for the machine's own cap, or none."""
    targets: str | None = None
    """A file of load targets."""
    consent: str | None = None
    """A file of consent defaults, for jobs that state none."""
    seed: int = 0
    """Seed of a generator; no effect on a trace."""
    default_walltime_s: float | None = None
    """Walltime of jobs that have none."""
    procs_per_node: int = 1
    """Processors of an SWF trace that make a node."""
    kind: str | None = None
    """Format of a trace, or a Python file that states one; None recognises it by its content."""
    phases_s: float | None = None
    """Seconds between two samples of power profiles that true watts follow in the run; None: constant watts in the run,
    profiles afterwards."""
    physics: str | None = None
    """A physics file; None for what the machine file states, or none."""
    physics_error: float | None = None
    """Standard deviation of the logarithm of what the physics is multiplied by; ``seed`` seeds its draws."""
    hashes: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files that went in, by field; compared when a run is repeated."""

    def values(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name, value in asdict(self).items() if value not in (None, {})}


def policy_row(task: Task, machine: Machine | None = None) -> dict[str, Any]:
    """Return the policy's row in full, with the task's own estimator where it names one, for a machine.

    In full, defaults included: the row that a run records must mean the same when defaults have changed.

    Raises: InputError for a file of the machine that does not fit it.
    """
    row = find_row(task.policy)
    if task.estimator is not None:
        from wattqueue.policy.part_text import estimator_value

        row["estimator"] = estimator_value(task.estimator)
    return row if machine is None else row_of_machine(row, machine)


def row_of_machine(row: dict[str, Any], machine: Machine) -> dict[str, Any]:
    """Return a row as it is on a machine. Raises: InputError as ``row_on``."""
    if machine.known is None and not is_for_machine(row):
        return row
    from wattqueue.policy.for_machine import SiteFacts, row_on

    return row_on(row, SiteFacts.simulated(machine))


def machine_cap(machine: Machine) -> Cap:
    """Return the cap that a machine is run under where none is stated."""
    return Cap.none() if machine.cap_w is None else Cap.constant(machine.cap_w)


def task_machine(task: Task) -> Machine:
    """Return the machine of a task.

    Raises: InputError if the task names none, or two.
    """
    if task.machine is not None and task.nodes is not None:
        raise InputError("--machine and --nodes both name one", where="machine", hint="give one of them, not both")
    if task.machine is None and task.nodes is None:
        raise InputError("a run needs a machine", where="machine", hint="give --machine NAME|FILE or --nodes N")
    if task.machine is not None:
        if task.node_watts is not None:
            raise InputError("--node-watts goes with --nodes", where=task.machine)
        from wattqueue.formats.machine.file import load_machine

        return load_machine(task.machine)
    nodes = int(task.nodes or 0)
    if nodes < 1:
        raise InputError(f"{nodes} nodes", where="--nodes", hint="at least 1")
    if task.node_watts is None:
        return plain_machine(nodes)
    from wattqueue.formats.machine.file import parse_node_watts

    return plain_machine(nodes, *parse_node_watts(task.node_watts))


def machine_of(
    task: Task, machine: Machine | None = None, workload: Workload | None = None
) -> tuple[Task, Machine, Workload | None]:
    """Return a task with its machine: the one given, the one it names, or that of the trace where it names none.

    A trace may say on how many nodes it was recorded; it is read for that alone where nothing else names a machine,
    and is returned. Raises: InputError as ``task_machine`` and ``task_workload``.
    """
    if machine is None and task.machine is None and task.nodes is None:
        workload = workload or task_workload(task)
        task = replace(task, nodes=workload.machine_units)
    return task, machine or task_machine(task), workload


def _is_generated(workload: str) -> bool:
    """Return whether a workload is a generator's call; for a path, which is no name, no generator is imported."""
    if not workload.partition(":")[0].isidentifier():
        return False
    from wattqueue.workload.generated import is_generated

    return is_generated(workload)


def task_workload(task: Task) -> Workload:
    """Return the workload of a task: generated, or read from its file.

    Raises: InputError for an unknown generator, an unreadable file, or a trace without a usable job.
    """
    if _is_generated(task.workload):
        from wattqueue.workload.generated import generate

        jobs = generate(task.workload, np.random.default_rng(task.seed))
        return Workload(jobs, Unusable(), "generated", len(jobs))
    if not Path(task.workload).exists():
        from wattqueue.workload.generated import refuse_unknown

        refuse_unknown(task.workload)
    options = ReadOptions(default_walltime_s=task.default_walltime_s, procs_per_node=task.procs_per_node)
    workload = read_workload(Path(task.workload), options, kind=task.kind)
    if len(workload.jobs) == 0:
        raise InputError("no usable job", where=task.workload, hint=f"{len(workload.unusable)} rows were unusable")
    return workload


def task_jobs(task: Task) -> tuple[Jobs, Unusable]:
    """Return the jobs of a task, and the rows that no schedule can use. Raises: InputError as ``task_workload``."""
    workload = task_workload(task)
    return workload.jobs, workload.unusable


def task_files(task: Task, row: Mapping[str, Any], more: Iterable[str] = ()) -> dict[str, Path]:
    """Return the files that a task's values name, by field, and those that its policy's ``row`` names, by path.

    ``more`` are files that files name: those of physics. Names of catalogue entries and generators are no files.
    """
    fields = ("machine", "cap", "targets", "consent", "policy", "estimator", "kind", "physics")
    named = {name: getattr(task, name) for name in fields}
    named["policy"], _ = split_name(task.policy)  # files of single choices are in the row
    files = {key: Path(value.partition(":")[0]) for key, value in named.items() if value}
    # A name without a suffix may be that of a catalogue entry beside which a file of that name lies; a trace has none.
    files = {key: path for key, path in files.items() if path.suffix}
    if not _is_generated(task.workload):
        files["workload"] = Path(task.workload)
    files |= {str(path): path for path in (*files_in(row), *map(Path, more)) if path not in files.values()}
    return {key: path for key, path in sorted(files.items()) if path.is_file()}


def with_hashes(task: Task, row: Mapping[str, Any], more: Iterable[str] = ()) -> Task:
    """Return the task with the hash of each file (``task_files``); ``row`` is empty for a task without a policy.

    Raises: InputError if a recorded hash is another one: the file has changed since.
    """
    hashes = {key: sha256_of(path) for key, path in task_files(task, row, more).items()}
    for key, recorded in task.hashes.items():
        if hashes.get(key) != recorded:
            raise InputError(
                f"the {key} file differs from the recorded one (SHA-256 {hashes.get(key, 'missing')})",
                where=str(asdict(task).get(key, key)),
                hint=f"restore the file with SHA-256 {recorded}",
            )
    return replace(task, hashes=hashes)
