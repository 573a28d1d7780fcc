"""What a campaign file may say, for pydantic."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from wattqueue.errors import InputError
from wattqueue.formats._schema import Place, first_finding
from wattqueue.formats._toml import read_toml

Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
_SEEDS = re.compile(r"(\d+)\.\.(\d+)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WindowsTable(_Strict):
    """Warm windows of a trace: ``count`` that are drawn, or those that ``begins`` names."""

    length: Name
    count: Count | None = None
    begins: Annotated[list[Name], Field(min_length=1)] | None = None
    seed: int = 1
    warm: Name | None = None
    busy: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 1.0
    apart: Name | None = None
    machine: Name | None = None

    @model_validator(mode="after")
    def _either(self) -> WindowsTable:
        if (self.count is None) == (self.begins is None):
            raise ValueError("windows have a count, or begins")
        drawn = sorted({"seed", "warm", "busy", "apart"} & self.model_fields_set)
        if self.begins is not None and drawn:
            raise ValueError(f"{drawn[0]} goes with count: begins are not drawn")
        return self


class WorkloadTable(_Strict):
    """A workload: a trace or a generator's call; of it a window of submissions, or windows that begin warm."""

    trace: Name
    begin: Name | None = None
    length: Name | None = None
    windows: WindowsTable | None = None

    @model_validator(mode="after")
    def _whole(self) -> WorkloadTable:
        if self.begin is not None and self.length is None:
            raise ValueError("a window has a length")
        if self.windows is not None and self.length is not None:
            raise ValueError("take windows, or one of begin and length")
        return self


class SlurmTable(_Strict):
    """The Slurm jobs that dask-jobqueue starts workers with; one job holds ``processes`` workers."""

    partition: Name | None = None
    account: Name | None = None
    cores: Count = 1
    processes: Count = 1
    memory: Name = "2GB"
    walltime: Name = "01:00:00"
    wait: Name = "30min"
    """How long the first worker may take to come up: queues are patient."""
    interface: Name | None = None
    directives: list[Name] = []
    """Further lines of #SBATCH."""
    prologue: list[Name] = []
    """Lines of shell before the worker starts: modules, environments."""
    log_folder: Name | None = None


class CampaignFile(_Strict):
    """The whole file: every list is an axis of the grid, the first one the slowest."""

    workloads: Annotated[list[WorkloadTable], Field(min_length=1)]
    machines: Annotated[list[Name], Field(min_length=1)] | None = None
    nodes: Count | None = None
    node_watts: Name | None = None
    policies: Annotated[list[Name], Field(min_length=1)] = ["easy"]
    estimators: Annotated[list[Name], Field(min_length=1)] | None = None
    caps: Annotated[list[Name], Field(min_length=1)] | None = None
    seeds: Annotated[list[int], Field(min_length=1)] = [0]
    default_walltime: Name | None = None
    procs_per_node: Count = 1
    out: Name | None = None
    slurm: SlurmTable = SlurmTable()

    @field_validator("workloads", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """A name alone is a whole trace."""
        if not isinstance(value, list):
            return value
        return [{"trace": item} if isinstance(item, str) else item for item in value]

    @field_validator("seeds", mode="before")
    @classmethod
    def _span(cls, value: Any) -> Any:
        """``"1..30"`` is every whole number from 1 to 30."""
        if not isinstance(value, str):
            return value
        found = _SEEDS.fullmatch(value.replace(" ", ""))
        if not found or int(found[1]) > int(found[2]):
            raise ValueError("write a list of whole numbers, or first..last")
        return list(range(int(found[1]), int(found[2]) + 1))

    @field_validator("policies", "estimators", "caps", "machines", "seeds", "workloads")
    @classmethod
    def _once(cls, values: list[Any] | None) -> list[Any] | None:
        for i, value in enumerate(values or ()):
            if value in (values or ())[:i]:
                raise ValueError(f"{value!r} stands here twice")
        return values

    @model_validator(mode="after")
    def _one_machine(self) -> CampaignFile:
        if (self.machines is None) == (self.nodes is None):
            raise ValueError("name machines, or nodes of a plain one")
        if self.node_watts is not None and self.nodes is None:
            raise ValueError("node_watts goes with nodes")
        return self


def read_campaign(path: Path) -> CampaignFile:
    """Read and check a campaign file. Raises: InputError naming the file and the key."""
    try:
        return CampaignFile.model_validate(read_toml(path))
    except ValidationError as error:
        what, mend = first_finding(error, _known)
        raise InputError(what, where=path, mend=mend) from error


def _known(place: Place) -> list[str]:
    table: type[BaseModel] = CampaignFile
    if place[0] == "workloads":
        table = WindowsTable if "windows" in place[:-1] else WorkloadTable
    elif place[0] == "slurm" and len(place) > 1:
        table = SlurmTable
    return list(table.model_fields)
