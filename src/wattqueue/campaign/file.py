"""The campaign file: its keys as fields of dataclasses, from which its reader and the page of reference are made.

Only the form is checked here: types, ranges, keys that exclude each other. Whether the names in it exist (machines,
policies, traces) is checked by ``plan``. Unknown keys are refused, so that a misspelt one cannot be ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict, model_validator
from pydantic.dataclasses import dataclass

from wattqueue.formats.bounded import Count, Units
from wattqueue.formats.checked_toml import read_model
from wattqueue.options import about, option
from wattqueue.runs.options import MOST_ERROR

T = TypeVar("T")
CHECKED = ConfigDict(extra="forbid", allow_inf_nan=False)
"""Unknown keys, nan and inf are errors."""
Name = Annotated[str, Field(min_length=1)]
Whole = Annotated[Count, Strict()]
"""A whole number, which no text is converted to."""
Seed = Annotated[int, Strict(), Field(ge=0, le=2**32 - 1)]
"""Seed of a random generator; numpy refuses negative ones, scikit-learn those beyond 32 bits."""
MOST_SEEDS = 100_000
"""Length of ``seeds``; ``1..999999999`` would fill the memory before anything else could refuse it."""
_SEEDS = re.compile(r"([0-9]{1,10})\.\.([0-9]{1,10})")


def _named(value: Any) -> Any:
    """Turn names in a list into tables of whole traces."""
    return [{"trace": item} if isinstance(item, str) else item for item in value] if isinstance(value, list) else value


def _span(value: Any) -> Any:
    """Turn ``"1..30"`` into every whole number from 1 to 30."""
    if not isinstance(value, str):
        return value
    found = _SEEDS.fullmatch(value.replace(" ", ""))
    if not found or int(found[1]) > int(found[2]):
        raise ValueError("write a list of whole numbers, or first..last")
    if int(found[2]) - int(found[1]) >= MOST_SEEDS:
        raise ValueError(f"more than {MOST_SEEDS:,} seeds")
    return list(range(int(found[1]), int(found[2]) + 1))


def _once(values: tuple[T, ...]) -> tuple[T, ...]:
    """Refuse an axis without a value, and a value that occurs twice: its runs would count twice in every mean."""
    if not values:
        raise ValueError("names nothing")
    seen: set[str] = set()
    for value in values:
        text = value.strip() if isinstance(value, str) else repr(value)
        if text in seen:
            raise ValueError(f"{value!r} occurs twice")
        if not text:
            raise ValueError("an empty text names nothing")
        seen.add(text)
    return values


Axis = Annotated[tuple[T, ...], AfterValidator(_once)]
"""A list of the grid."""


@dataclass(frozen=True, kw_only=True, config=CHECKED)
class WindowsTable:
    """Warm windows of a trace: ``count`` that are drawn at random, or those that ``begins`` names."""

    length: Name = field(metadata=about("Length of each window, a duration."))
    count: Whole | None = option(
        None, "Windows to draw, from the full hours at which jobs in the system request `busy` times the machine."
    )
    begins: Annotated[tuple[Name, ...], Field(min_length=1)] | None = option(
        None, "Instead of `count`: beginnings, durations after the first submission."
    )
    warm: Name | None = option(
        None, "Earliest beginning; what comes before is the estimators' past. [the first submission]"
    )
    busy: Annotated[float, Strict(), Field(ge=0.0, le=1e6)] = option(
        1.0, "Units that jobs in the system request at a beginning, as a multiple of the machine's."
    )
    apart: Name | None = option(None, "Least distance of two beginnings. [`length`: no submission is in two windows]")
    seed: Seed = option(1, "Seed of the draw.")
    machine: Name | None = option(
        None, "Machine of the simulation that gives the queue at a beginning. [the campaign's only one]"
    )

    @model_validator(mode="wrap")
    @classmethod
    def _either(cls, given: Any, checked: Callable[[Any], WindowsTable]) -> WindowsTable:
        """Require count or begins, and no key of drawing beside begins."""
        found = checked(given)
        if (found.count is None) == (found.begins is None):
            raise ValueError("windows need either count or begins")
        drawn = sorted({"seed", "warm", "busy", "apart"} & set(given))
        if found.begins is not None and drawn:
            raise ValueError(f"{drawn[0]} belongs to count: begins are not drawn")
        return found


@dataclass(frozen=True, kw_only=True, config=CHECKED)
class WorkloadTable:
    """A workload: a trace or a generator's call; all of it, a window of its submissions, or windows that begin warm."""

    trace: Name = field(metadata=about("File of any format that `simulate` reads, or a generator: `marconi:days=7`."))
    begin: Name | None = option(
        None, "Beginning of a window on an empty machine, a duration after the first submission."
    )
    length: Name | None = option(None, "Length of that window: the jobs submitted in it.")
    windows: WindowsTable | None = option(None, "Windows that begin with a queue and a history.")

    @model_validator(mode="after")
    def _whole(self) -> WorkloadTable:
        """Refuse a beginning without a length, and cold and warm windows together."""
        if self.begin is not None and self.length is None:
            raise ValueError("a window needs a length")
        if self.windows is not None and self.length is not None:
            raise ValueError("windows excludes begin and length")
        return self


@dataclass(frozen=True, kw_only=True, config=CHECKED)
class SlurmTable:
    """The Slurm jobs in which dask-jobqueue starts workers."""

    partition: Name | None = option(None, "Partition of the jobs. [Slurm's own default]")
    account: Name | None = option(None, "Account of the jobs.")
    cores: Whole = option(1, "Cores of a job.")
    processes: Whole = option(1, "Workers in a job.")
    memory: Name = option("2GB", "Memory of a job.")
    walltime: Name = option("01:00:00", "Time limit of a job, as Slurm writes it.")
    wait: Name = option("30min", "How long the first worker may wait in the queue, a duration.")
    interface: Name | None = option(None, "Network interface by which workers reach the scheduler.")
    directives: tuple[Name, ...] = option((), "Further lines of #SBATCH.")
    prologue: tuple[Name, ...] = option((), "Lines of shell before the worker starts: modules, environments.")
    log_folder: Name | None = option(None, "Folder of the jobs' outputs.")


@dataclass(frozen=True, kw_only=True, config=CHECKED)
class CampaignFile:
    """The whole file: every list is an axis of the grid, the first one the slowest."""

    workloads: Annotated[Axis[WorkloadTable], BeforeValidator(_named)] = field(
        metadata=about("Traces or generators; a name alone is a whole trace.")
    )
    machines: Axis[Name] | None = option(None, "Machines of the catalogue, or TOML files.")
    nodes: Annotated[Units, Strict()] | None = option(None, "Instead of `machines`: nodes of a plain machine.")
    node_watts: Name | None = option(None, "IDLE:MAX of its nodes.", unit="W")
    policies: Axis[Name] = option(
        ("easy",), "Policies by name, `my.toml:row` or `my.py:MyPart`; `easy+backfill=conservative` changes a choice."
    )
    estimators: Axis[Name] | None = option(None, "Estimators that replace those of the policies. [the policy's own]")
    caps: Axis[Name] | None = option(
        None, "Caps: `400kW`, `70%`, `none`, or a CSV of `time_s,cap_w`. [the machine's own]"
    )
    seeds: Annotated[Axis[Seed], Field(max_length=MOST_SEEDS), BeforeValidator(_span)] = option(
        (0,), 'Seeds of generators and of `physics_error`, also `"first..last"`; a trace without it runs once.'
    )
    physics: Name | None = option(None, "A TOML of what jobs truly draw and take. [the machine file's]")
    physics_error: Annotated[float, Strict(), Field(ge=0.0, le=MOST_ERROR)] = option(
        0.0, "Multiplies that truth by a log-normal draw for each application, partition and seed; 0.05 is about 5 %."
    )
    default_walltime: Name | None = option(None, "Walltime of jobs without a limit, a duration.")
    procs_per_node: Whole = option(1, "Processors of a node, for traces that count processors.")
    out: Name | None = option(None, "Folder of the results; `--out` overrides it. [the file's name without .toml]")
    slurm: SlurmTable = option(SlurmTable(), "Slurm jobs for `--cluster slurm`.")

    @model_validator(mode="after")
    def _one_machine(self) -> CampaignFile:
        """Require machines or nodes, and node_watts with nodes only."""
        if (self.machines is None) == (self.nodes is None):
            raise ValueError("give either machines, or nodes of a plain machine")
        if self.node_watts is not None and self.nodes is None:
            raise ValueError("node_watts belongs to nodes")
        return self


def read_campaign(path: Path) -> CampaignFile:
    """Read and check a campaign file. Raises: InputError naming the file and the key."""
    return read_model(path, CampaignFile)
