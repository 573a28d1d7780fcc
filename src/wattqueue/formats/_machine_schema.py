"""What a machine file may say, for pydantic; defaults are those of ``model.machine``. Loaded when a machine is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from wattqueue.model.machine import CapScope, Unit

Count = Annotated[int, Field(ge=1)]
Figure = Annotated[float, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]


class PartitionFile(BaseModel):
    """A ``[[partitions]]`` table; keys that are left out keep the defaults of Partition."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    name: Name
    nodes: Count
    unit: Unit | None = None
    sockets_per_node: Count | None = None
    cores_per_socket: Count | None = None
    frequencies_hz: list[float] | None = None
    idle_w: Figure | None = None
    max_w: Figure | None = None
    dvfs_beta: Figure | None = None
    dvfs_alpha: Figure | None = None
    memory_gb: Figure | None = None
    boot_s: Figure | None = None
    boot_w: Figure | None = None
    shutdown_s: Figure | None = None
    shutdown_w: Figure | None = None
    off_w: Figure | None = None


class MachineFile(BaseModel):
    """The file; keys that are left out keep the defaults of Machine."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    schema_version: int | None = None
    name: Name
    cap_scope: CapScope | None = None
    cap_w: Figure | None = None
    source: str | None = None
    partitions: Annotated[list[PartitionFile], Field(min_length=1)]
