"""From a campaign file to the grid of its runs; everything in it is read and checked before any work starts.

``plan_of`` resolves names once: each policy with each estimator to a row of parts, each cap on each machine to watts,
each workload and seed to a source. ``CampaignPlan.cells`` then forms the product. Paths in the file count from its
folder; paths of Python files are made absolute, because workers elsewhere have another working directory, and their
SHA-256 goes into the key of each run that uses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from wattqueue.campaign.cell import Row, Value
from wattqueue.campaign.file import CampaignFile, WindowsTable, WorkloadTable, read_campaign
from wattqueue.campaign.source import WorkloadSource
from wattqueue.campaign.task_cell import TaskCell
from wattqueue.campaign.windows import Draw, Replayed, workloads_of
from wattqueue.errors import InputError
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.machine.file import catalogue
from wattqueue.formats.source import in_folder, opened, sha256_of
from wattqueue.formats.times import duration_s
from wattqueue.model.machine import Machine
from wattqueue.model.physics import Physics
from wattqueue.model.signals import Cap
from wattqueue.policy.for_machine import SiteFacts, expansion, row_on
from wattqueue.policy.oracles import oracles_of
from wattqueue.policy.policy import policy_from_row
from wattqueue.policy.row_files import files_in, with_absolute_paths
from wattqueue.policy.rows import FOR_MACHINE, composed, map_texts, part_names, with_files
from wattqueue.runs.physics import physics_of
from wattqueue.runs.task import Task, machine_cap, policy_row, task_machine
from wattqueue.sim.history_prediction import check_recall
from wattqueue.sim.physics import on_machine
from wattqueue.workload.generated import check_call, is_generated

MOST_RUNS = 10_000_000
"""Runs of one campaign; every run takes memory for its row before any is started."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyChoice:
    """One value of the axis of policies and estimators, resolved."""

    policy: str
    """Canonical name of the policy, its files as the campaign file names them."""
    estimator: str
    """Estimator as the file names it, or that of the policy."""
    path: str
    """Policy's name or path, as it can be loaded from any folder."""
    row: Mapping[str, Any]
    """The parts of the policy, the estimator replaced."""
    hashes: Mapping[str, str]
    """SHA-256 of each Python file that the row names."""
    oracle: str = ""
    """Parts that know the future, by name."""

    def on(self, machine: Machine) -> PolicyChoice:
        """Return the choice for a machine (``policy/for_machine.py``).

        Raises: InputError for a file of the machine that does not fit it.
        """
        row = with_absolute_paths(row_on(dict(self.row), SiteFacts.simulated(machine)))
        if row == self.row:
            return self
        named = self.estimator if self.estimator != FOR_MACHINE else part_names(row["estimator"])
        return replace(self, row=row, hashes=_hashes(row), estimator=named)


@dataclass(frozen=True, slots=True)
class Label:
    """How the runs of a source are named in the table."""

    workload: str
    """Trace or call, and its cold window."""
    seed: int | None
    """Seed of a generator, None for a trace."""
    length: str = ""
    """Length of its warm windows, as the file writes it."""


@dataclass(frozen=True, slots=True, eq=False)
class CampaignPlan:
    """A campaign file, resolved."""

    path: Path
    """The campaign file."""
    file: CampaignFile
    """Its content."""
    sources: tuple[WorkloadSource | Replayed, ...]
    """Workloads, one per generator call and seed, or per trace."""
    labels: tuple[Label, ...]
    """Name of each source; as long as ``sources``."""
    machines: tuple[tuple[str, Machine], ...]
    """Machines with the names that the table shows."""
    choices: tuple[PolicyChoice, ...]
    """Policies with their estimators."""
    caps: tuple[str | None, ...]
    """Caps as the file writes them; None is the machine's own cap."""
    cap_of: Mapping[tuple[str, str | None], Cap]
    """Cap by machine and text: a percentage means other watts on each machine."""
    physics: Mapping[str, Physics | None]
    """What files say of the truth, by machine."""

    @property
    def runs(self) -> int:
        """Return how many runs the grid has."""
        return sum(s.workloads for s in self.sources) * len(self.machines) * len(self.choices) * len(self.caps)

    def expansions(self) -> list[str]:
        """Return what became of policies that follow from the machine, a sentence for each of them and machine."""
        pairs = product(self.choices, (machine for _, machine in self.machines))
        return [s for one, m in pairs for s in expansion(one.policy, dict(one.row), m, dict(one.on(m).row))]

    def cells(self, tables: Sequence[Row]) -> list[TaskCell]:
        """Return the runs in the order of the file's axes; ``tables`` are the rows that ``sources`` gave."""
        return list(self._cells(tables))

    def _cells(self, tables: Sequence[Row]) -> Iterator[TaskCell]:
        """Yield the product of windows, machines, policies and caps, the first the slowest."""
        workloads = [
            (label, row, window)
            for label, row in zip(self.labels, tables, strict=True)
            for window in workloads_of(row, label.length)
        ]
        made = {name: [choice.on(machine) for choice in self.choices] for name, machine in self.machines}
        for (label, row, window), (name, machine), k, cap in product(
            workloads, self.machines, range(len(self.choices)), self.caps
        ):
            limit, truth, choice = self.cap_of[name, cap], self.physics[name], made[name][k]
            if truth is not None:
                truth = replace(truth, seed=label.seed or 0)
            names: dict[str, Value] = {
                "workload": label.workload + window.called,
                "seed": label.seed,
                "machine": name,
                "policy": choice.policy,
                "estimator": choice.estimator,
                "oracle": choice.oracle,
                "cap": cap or "none",
                "cap_w": float(limit.cap_w[0]) if limit.limited and len(limit.cap_w) == 1 else None,
            }
            yield TaskCell(
                names, window.table, machine, choice.path, choice.row, limit,
                int(str(row["rows_unusable"])), choice.hashes, truth, window.before,
            )  # fmt: skip


def plan_of(path: Path) -> CampaignPlan:
    """Read a campaign file and resolve it; relative paths in it count from its folder.

    Every machine, policy, estimator and cap is built once here. Policies with learned estimators are also tested for
    warm windows, which begin with a past that the estimator must be able to take in.

    Raises: InputError, MachineError or PolicyError naming what is wrong.
    """
    folder = path.parent
    file = _anchored(read_campaign(path), folder)
    duration_s(file.slurm.wait, "slurm.wait")  # checked even where no Slurm is used: a wrong value is never ignored
    machines = tuple(_machines(file, folder))
    physics = {name: _physics(file, folder, machine) for name, machine in machines}
    sources, labels = _sources(file, folder, machines)
    choices = tuple(
        _choice(policy, estimator, folder) for policy in file.policies for estimator in file.estimators or (None,)
    )
    _refuse_twins(path, file.policies, [choice.policy for choice in choices[:: len(file.estimators or (None,))]])
    caps = tuple(file.caps or (None,))
    cap_of = {(name, cap): _cap(cap, machine, folder) for name, machine in machines for cap in caps}
    warm = any(workload.windows for workload in file.workloads)
    for choice, (_, machine) in product(choices, machines):
        made = policy_from_row(choice.path, dict(choice.on(machine).row))
        if warm and machine is machines[0][1]:
            check_recall(made, machine)
    plan = CampaignPlan(path, file, sources, labels, machines, choices, caps, cap_of, physics)
    if plan.runs > MOST_RUNS:
        raise InputError(f"the grid has {plan.runs:,} runs, more than {MOST_RUNS:,}", where=path, hint="split the file")
    return plan


def _sources(
    file: CampaignFile, folder: Path, machines: Sequence[tuple[str, Machine]]
) -> tuple[tuple[WorkloadSource | Replayed, ...], tuple[Label, ...]]:
    """Return sources and their labels; only generators depend on seeds, so a trace is one source.

    Calls are checked without generating, files by opening and hashing them. Raises: InputError.
    """
    found: list[WorkloadSource | Replayed] = []
    labels: list[Label] = []
    default_s = duration_s(file.default_walltime, "default_walltime")
    for workload in file.workloads:
        generated = is_generated(workload.trace)
        where, sha256 = workload.trace, ""
        if generated:
            check_call(where)
        else:
            where = str(folder / where)
            with opened(Path(where)):  # raises for a folder or a missing file, as in every other command
                sha256 = sha256_of(Path(where))
        begin_s, length_s = _window(workload)
        windows = workload.windows
        replay = None if windows is None else _replay(windows, file, folder, machines)
        seeded = generated or file.physics_error > 0.0
        for seed in file.seeds if seeded else [0]:
            source = WorkloadSource(where, seed, default_s, file.procs_per_node, begin_s, length_s, sha256)
            found.append(source if replay is None else Replayed(source, *replay))
            labels.append(Label(_label(workload), seed if seeded else None, windows.length if windows else ""))
    return tuple(found), tuple(labels)


def _replay(
    windows: WindowsTable, file: CampaignFile, folder: Path, machines: Sequence[tuple[str, Machine]]
) -> tuple[Machine, Draw, Physics | None]:
    """Return what replays a trace to find its windows. Raises: InputError, MachineError."""
    machine = _replay_machine(windows, folder, machines)
    return machine, _draw(windows), _physics(file, folder, machine)


def _physics(file: CampaignFile, folder: Path, machine: Machine) -> Physics | None:
    """Return what files say of the truth on a machine. Raises: InputError."""
    name = None if file.physics is None else in_folder(file.physics, folder)
    found = physics_of(Task("", physics=name, physics_error=file.physics_error or None), machine)
    if found is not None:
        on_machine(found, machine)  # refused now, not by each run
    return found


def _replay_machine(windows: WindowsTable, folder: Path, machines: Sequence[tuple[str, Machine]]) -> Machine:
    """Return the machine whose replay gives the queue of warm windows: the one they name, else the only one.

    Raises: InputError where the campaign has several machines and the windows name none.
    """
    if windows.machine is not None:
        return _machine(windows.machine, folder)
    if len(machines) > 1:
        raise InputError(
            "windows are cut from a replay on one machine, and the campaign has several",
            where="workloads.windows",
            hint=f'write machine = "{machines[0][0]}", or another',
        )
    return machines[0][1]


def _draw(windows: WindowsTable) -> Draw:
    """Return how windows are found, durations in seconds. Raises: InputError."""
    place = "workloads.windows."
    length_s = duration_s(windows.length, place + "length") or 0.0
    if windows.begins is not None:
        begins = tuple(duration_s(begin, place + "begins") or 0.0 for begin in windows.begins)
        return Draw(length_s, len(begins), begins)
    return Draw(
        length_s,
        windows.count or 0,
        seed=windows.seed,
        warm_s=duration_s(windows.warm, place + "warm") or 0.0,
        apart_s=duration_s(windows.apart, place + "apart") or length_s,
        busy=windows.busy,
    )


def _anchored(file: CampaignFile, folder: Path) -> CampaignFile:
    """Return a campaign file whose folder of Slurm's outputs is one of its own folder."""
    logs = file.slurm.log_folder
    return file if logs is None else replace(file, slurm=replace(file.slurm, log_folder=str(folder / logs)))


def _window(workload: WorkloadTable) -> tuple[float, float | None]:
    """Return beginning and length of a cold window in seconds; no length: the whole trace. Raises: InputError."""
    begin = duration_s(workload.begin, "workloads.begin") or 0.0
    return begin, duration_s(workload.length, "workloads.length")


def _label(workload: WorkloadTable) -> str:
    """Return the name of a workload with its cold window."""
    if workload.length is None:
        return workload.trace
    return f"{workload.trace} [{workload.begin or '0s'}, {workload.length}]"


def _machines(file: CampaignFile, folder: Path) -> Iterator[tuple[str, Machine]]:
    """Yield machines with their names. Raises: InputError, MachineError."""
    if file.machines is None:
        machine = task_machine(Task("", nodes=file.nodes, node_watts=file.node_watts))
        yield machine.name, machine
    for name in file.machines or ():
        yield name, _machine(name, folder)


def _machine(name: str, folder: Path) -> Machine:
    """Load a machine of the catalogue, or of a file in the campaign's folder."""
    return task_machine(Task("", machine=name if name in catalogue() else in_folder(name, folder)))


def _choice(policy: str, estimator: str | None, folder: Path) -> PolicyChoice:
    """Resolve a policy with an estimator. The policy is built once, so that a wrong part is found here.

    Raises: PolicyError.
    """
    path = composed(with_files(policy, lambda name: in_folder(name, folder)))
    label = with_files(path, lambda name: name.removeprefix(f"{folder}/"))
    named = policy_row(Task("", policy=path, estimator=estimator))
    if estimator:
        named["estimator"] = map_texts(named["estimator"], lambda name: in_folder(name, folder))
    row = with_absolute_paths(named)
    oracle = oracles_of(policy_from_row(path, row))
    shown = part_names(estimator or named["estimator"])
    return PolicyChoice(label, shown, path, row, _hashes(row), oracle)


def _hashes(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each file that a row of a policy names."""
    return {str(file): sha256_of(file) for file in files_in(row)}


def _refuse_twins(path: Path, written: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse two names of one policy: its runs would be counted twice in every mean. Raises: InputError."""
    for k, label in enumerate(labels):
        if (first := labels.index(label)) < k:
            what = f"policies: {written[k]!r} is {written[first]!r}"
            raise InputError(what, where=path, hint="leave one of them out")


def _cap(cap: str | None, machine: Machine, folder: Path) -> Cap:
    """Return a cap on a machine; None is the machine's own. Raises: InputError, MachineError."""
    if cap is None:
        return machine_cap(machine)
    return parse_cap(in_folder(cap, folder), machine)
