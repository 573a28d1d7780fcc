"""From a campaign file to the grid of its runs, everything in it read and checked before any work starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from wattqueue.campaign.cell import Row, Value
from wattqueue.campaign.file import CampaignFile, WindowsTable, WorkloadTable, read_campaign
from wattqueue.campaign.source import Source
from wattqueue.campaign.task_cell import TaskCell
from wattqueue.campaign.windows import Draw, Replayed, pieces_of
from wattqueue.errors import InputError
from wattqueue.formats._source import opened, sha256_of
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.duration import duration_s
from wattqueue.formats.machine_toml import catalogue
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import policy_from_row
from wattqueue.sim.foresight import check_recall
from wattqueue.sim.task import Task, machine_cap, policy_row, task_machine
from wattqueue.workload.generated import check_call, is_generated


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One value of the axis of policies and estimators, resolved."""

    policy: str
    estimator: str
    path: str
    row: Mapping[str, Any]
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Label:
    """What a source's runs are called: its trace and window, the seed (None for a file), the windows' length."""

    workload: str
    seed: int | None
    length: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A campaign file, resolved. ``sources`` and ``labels`` go together; ``cells`` makes the runs of them."""

    path: Path
    file: CampaignFile
    sources: tuple[Source | Replayed, ...]
    labels: tuple[Label, ...]
    machines: tuple[tuple[str, Machine], ...]
    choices: tuple[Choice, ...]
    caps: tuple[str | None, ...]
    cap_of: Mapping[tuple[str, str | None], Cap]

    @property
    def runs(self) -> int:
        """How many runs the grid has."""
        return sum(s.pieces for s in self.sources) * len(self.machines) * len(self.choices) * len(self.caps)

    def cells(self, tables: Sequence[Row]) -> list[TaskCell]:
        """The runs, in the order of the file's axes, of what ``sources`` gave."""
        return list(self._cells(tables))

    def _cells(self, tables: Sequence[Row]) -> Iterator[TaskCell]:
        workloads = [
            (label, row, piece)
            for label, row in zip(self.labels, tables, strict=True)
            for piece in pieces_of(row, label.length)
        ]
        for (label, row, piece), (name, machine), choice, cap in product(
            workloads, self.machines, self.choices, self.caps
        ):
            limit = self.cap_of[name, cap]
            names: dict[str, Value] = {
                "workload": label.workload + piece.called,
                "seed": label.seed,
                "machine": name,
                "policy": choice.policy,
                "estimator": choice.estimator,
                "cap": cap or "none",
                "cap_w": float(limit.cap_w[0]) if limit.limited and len(limit.cap_w) == 1 else None,
            }
            yield TaskCell(
                names, piece.table, machine, choice.path, choice.row, limit,
                int(str(row["rows_unusable"])), choice.hashes, piece.before,
            )  # fmt: skip


def plan_of(path: Path) -> Plan:
    """Read a campaign file; relative paths in it start at its folder.

    Raises: InputError, MachineError or PolicyError naming what is wrong.
    """
    file, folder = read_campaign(path), path.parent
    machines = tuple(_machines(file, folder))
    sources, labels = _sources(file, folder, machines)
    choices = tuple(
        _choice(policy, estimator, folder) for policy in file.policies for estimator in file.estimators or (None,)
    )
    caps = tuple(file.caps or (None,))
    cap_of = {(name, cap): _cap(cap, machine, folder) for name, machine in machines for cap in caps}
    if any(workload.windows for workload in file.workloads):
        for choice in choices:
            check_recall(policy_from_row(choice.path, dict(choice.row)).estimator, machines[0][1])
    return Plan(path, file, sources, labels, machines, choices, caps, cap_of)


def _sources(
    file: CampaignFile, folder: Path, machines: Sequence[tuple[str, Machine]]
) -> tuple[tuple[Source | Replayed, ...], tuple[Label, ...]]:
    """Workloads one by one; seeds concern generators alone, so a trace stands here once."""
    found: list[Source | Replayed] = []
    labels: list[Label] = []
    default_s = duration_s(file.default_walltime, "default_walltime")
    for workload in file.workloads:
        generated = is_generated(workload.trace)
        where, sha256 = workload.trace, ""
        if generated:
            check_call(where)
        else:
            where = str(folder / where)
            with opened(Path(where)):  # a folder, or nothing at all: the words of every other verb
                sha256 = sha256_of(Path(where))
        begin_s, length_s = _window(workload)
        windows = workload.windows
        replay = None if windows is None else (_replay_machine(windows, folder, machines), _draw(windows))
        for seed in file.seeds if generated else [0]:
            source = Source(where, seed, default_s, file.procs_per_node, begin_s, length_s, sha256)
            found.append(source if replay is None else Replayed(source, *replay))
            labels.append(Label(_label(workload), seed if generated else None, windows.length if windows else ""))
    return tuple(found), tuple(labels)


def _replay_machine(windows: WindowsTable, folder: Path, machines: Sequence[tuple[str, Machine]]) -> Machine:
    """Whose queue windows begin with: the machine that they name, else the campaign's only one."""
    if windows.machine is not None:
        return _machine(windows.machine, folder)
    if len(machines) > 1:
        raise InputError(
            "windows are cut from a replay on one machine, and here are several",
            where="workloads.windows",
            mend=f'state machine = "{machines[0][0]}", or another',
        )
    return machines[0][1]


def _draw(windows: WindowsTable) -> Draw:
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


def _window(workload: WorkloadTable) -> tuple[float, float | None]:
    begin = duration_s(workload.begin, "workloads.begin") or 0.0
    return begin, duration_s(workload.length, "workloads.length")


def _label(workload: WorkloadTable) -> str:
    if workload.length is None:
        return workload.trace
    return f"{workload.trace} [{workload.begin or '0s'}, {workload.length}]"


def _machines(file: CampaignFile, folder: Path) -> Iterator[tuple[str, Machine]]:
    if file.machines is None:
        machine = task_machine(Task("", nodes=file.nodes, node_watts=file.node_watts))
        yield machine.name, machine
    for name in file.machines or ():
        yield name, _machine(name, folder)


def _machine(name: str, folder: Path) -> Machine:
    return task_machine(Task("", machine=name if name in catalogue() else _anchored(name, folder)))


def _choice(policy: str, estimator: str | None, folder: Path) -> Choice:
    path = _anchored(policy, folder)
    named = policy_row(Task("", policy=path, estimator=_anchored(estimator, folder) if estimator else None))
    row = _from_anywhere(named)
    policy_from_row(path, row)
    own = estimator or named["estimator"]
    shown = own if isinstance(own, str) else str(own["part"])
    files = [value.partition(":")[0] for value in _texts(row) if ".py" in value]
    return Choice(policy, shown, path, row, {name: sha256_of(Path(name)) for name in files if Path(name).is_file()})


def _texts(value: Any) -> Iterator[str]:
    """Every text in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _from_anywhere(value: Any) -> Any:
    """Nested tables and lists, Python files in them as workers elsewhere can find them."""
    if isinstance(value, Mapping):
        return {key: _from_anywhere(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_from_anywhere(inner) for inner in value]
    path = value.partition(":")[0] if isinstance(value, str) else ""
    return str(Path(path).absolute()) + value.removeprefix(path) if path.endswith(".py") else value


def _cap(cap: str | None, machine: Machine, folder: Path) -> Cap:
    if cap is None:
        return machine_cap(machine)
    return parse_cap(_anchored(cap, folder), machine)


def _anchored(name: str, folder: Path) -> str:
    """A file's name, with what follows its colon, from the folder of the campaign file; other names as they are."""
    path, colon, rest = name.partition(":")
    here = folder / path
    return f"{here}{colon}{rest}" if here.is_file() or path.endswith((".toml", ".py", ".csv", ".gz")) else name
