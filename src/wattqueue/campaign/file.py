"""The campaign file: its tables and keys as pydantic models, and their checks.

Only the form is checked here: types, ranges, keys that exclude each other. Whether the names in it exist (machines,
policies, traces) is checked by ``plan``. Unknown keys are refused, so that a misspelt one cannot be ignored; strict
mode refuses texts in place of numbers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from wattqueue.formats.bounded import Count, Units
from wattqueue.formats.checked_toml import StrictTable, read_model

Name = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
"""Seed of a random generator; numpy refuses negative ones, scikit-learn those beyond 32 bits."""
MOST_SEEDS = 100_000
"""Length of ``seeds``; ``1..999999999`` would fill the memory before anything else could refuse it."""
_SEEDS = re.compile(r"([0-9]{1,10})\.\.([0-9]{1,10})")


class WindowsTable(StrictTable):
    """Warm windows of a trace: ``count`` that are drawn at random, or those that ``begins`` names."""

    length: Name
    """Length of each window, a duration."""
    count: Count | None = None
    """Number of windows to draw."""
    begins: Annotated[list[Name], Field(min_length=1)] | None = None
    """Beginnings, as durations after the first submission."""
    seed: Seed = 1
    """Seed of the draw."""
    warm: Name | None = None
    """Earliest beginning of a drawn window, a duration after the first submission."""
    busy: Annotated[float, Field(ge=0.0, le=1e6)] = 1.0
    """Units that jobs in the system must request at a beginning, as a multiple of the machine's."""
    apart: Name | None = None
    """Least distance of two beginnings; the length of a window by default."""
    machine: Name | None = None
    """Machine of the replay that gives the queue at a beginning; the campaign's only one by default."""

    @model_validator(mode="after")
    def _either(self) -> WindowsTable:
        """Require count or begins, and no key of drawing beside begins."""
        if (self.count is None) == (self.begins is None):
            raise ValueError("windows need either count or begins")
        drawn = sorted({"seed", "warm", "busy", "apart"} & self.model_fields_set)
        if self.begins is not None and drawn:
            raise ValueError(f"{drawn[0]} belongs to count: begins are not drawn")
        return self


class WorkloadTable(StrictTable):
    """A workload: a trace or a generator's call; all of it, a window of its submissions, or windows that begin warm."""

    trace: Name
    """File, relative to the campaign file, or generator call such as ``marconi:days=7``."""
    begin: Name | None = None
    """Beginning of a cold window, a duration after the first submission."""
    length: Name | None = None
    """Length of a cold window."""
    windows: WindowsTable | None = None
    """Warm windows, which begin with a queue and a history."""

    @model_validator(mode="after")
    def _whole(self) -> WorkloadTable:
        """Refuse a beginning without a length, and cold and warm windows together."""
        if self.begin is not None and self.length is None:
            raise ValueError("a window needs a length")
        if self.windows is not None and self.length is not None:
            raise ValueError("windows excludes begin and length")
        return self


class SlurmTable(StrictTable):
    """The Slurm jobs in which dask-jobqueue starts workers."""

    partition: Name | None = None
    """Partition of the jobs; Slurm's default if absent."""
    account: Name | None = None
    """Account of the jobs."""
    cores: Count = 1
    """Cores of a job."""
    processes: Count = 1
    """Workers in a job."""
    memory: Name = "2GB"
    """Memory of a job."""
    walltime: Name = "01:00:00"
    """Time limit of a job, as Slurm writes it."""
    wait: Name = "30min"
    """How long the first worker may take to start: jobs wait in the queue."""
    interface: Name | None = None
    """Network interface by which workers reach the scheduler."""
    directives: list[Name] = Field(default_factory=list)
    """Further lines of #SBATCH."""
    prologue: list[Name] = Field(default_factory=list)
    """Lines of shell before the worker starts: modules, environments."""
    log_folder: Name | None = None
    """Folder of the jobs' outputs."""


class CampaignFile(StrictTable):
    """The whole file: every list is an axis of the grid, the first one the slowest."""

    workloads: Annotated[list[WorkloadTable], Field(min_length=1)]
    """Traces or generator calls; a name alone is a whole trace."""
    machines: Annotated[list[Name], Field(min_length=1)] | None = None
    """Machines by name or TOML file."""
    nodes: Units | None = None
    """Nodes of a plain machine, in place of ``machines``."""
    node_watts: Name | None = None
    """IDLE:MAX watts of its nodes."""
    policies: Annotated[list[Name], Field(min_length=1)] = Field(default_factory=lambda: ["easy"])
    """Policies by name or TOML file."""
    estimators: Annotated[list[Name], Field(min_length=1)] | None = None
    """Estimators that replace those of the policies."""
    caps: Annotated[list[Name], Field(min_length=1)] | None = None
    """Caps as ``--cap`` takes them: watts, percent, a file, or ``none``."""
    seeds: Annotated[list[Seed], Field(min_length=1, max_length=MOST_SEEDS)] = Field(default_factory=lambda: [0])
    """Seeds of generators; a list, or ``"1..30"``. Traces have none."""
    default_walltime: Name | None = None
    """Walltime of jobs without a limit."""
    procs_per_node: Count = 1
    """Processors of a node, for traces that count processors."""
    out: Name | None = None
    """Folder of the results, relative to the campaign file."""
    slurm: SlurmTable = SlurmTable()
    """Slurm jobs for ``--cluster slurm``."""

    @field_validator("workloads", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Turn a name alone into the table of a whole trace."""
        if not isinstance(value, list):
            return value
        return [{"trace": item} if isinstance(item, str) else item for item in value]

    @field_validator("seeds", mode="before")
    @classmethod
    def _span(cls, value: Any) -> Any:
        """Turn ``"1..30"`` into every whole number from 1 to 30."""
        if not isinstance(value, str):
            return value
        found = _SEEDS.fullmatch(value.replace(" ", ""))
        if not found or int(found[1]) > int(found[2]):
            raise ValueError("write a list of whole numbers, or first..last")
        if int(found[2]) - int(found[1]) >= MOST_SEEDS:
            raise ValueError(f"more than {MOST_SEEDS:,} seeds")
        return list(range(int(found[1]), int(found[2]) + 1))

    @field_validator("policies", "estimators", "caps", "machines", "seeds", "workloads")
    @classmethod
    def _once(cls, values: list[Any] | None) -> list[Any] | None:
        """Refuse a value that occurs twice in an axis: its runs would be counted twice in every mean."""
        seen: set[str] = set()
        for value in values or ():
            text = value.strip() if isinstance(value, str) else repr(value)
            if text in seen:
                raise ValueError(f"{value!r} occurs twice")
            if not text:
                raise ValueError("an empty text names nothing")
            seen.add(text)
        return values

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
