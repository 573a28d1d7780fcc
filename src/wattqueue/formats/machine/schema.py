"""The keys and types of a machine file, for pydantic; defaults are those of ``model.machine``.

pydantic reports every finding with its place in the file, which ``formats.checked_toml`` puts into words. It is
imported only when a machine is read, since the import takes 40 ms. What depends on several keys (idle above maximum, an
option without watts) is checked by ``model.machine`` itself.

The place in the flow: ``toml.read_toml`` gives nested dictionaries, ``MachineFile`` checks keys, types and the range
of each figure, ``file.machine_of`` builds ``Machine`` from the keys that the file states. Three properties hold
for every table of the file:

- an unknown key is an error (``extra="forbid"``), since a key that is misspelt would otherwise leave a default in force
  without a warning;
- types are strict: ``nodes = "64"`` is an error and is not converted;
- ``nan`` and ``inf``, which TOML can write, are refused.

A key that is absent is not set in the result. So the fields here have None as default and never a figure: a figure
would be a second copy of a default of ``model.machine``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from wattqueue.formats.bounded import CountOrNone, Instant, Seconds, Share, Units, Watts, within
from wattqueue.model import bounds
from wattqueue.model.machine import CapScope, Unit
from wattqueue.model.power_sensor import Covers

Frequency = Annotated[float, within(bounds.FREQUENCY_HZ)]
Transition = Annotated[float, within(bounds.TRANSITION_S)]
Name = Annotated[str, Field(min_length=1)]
Watt = Annotated[float, within(bounds.CAP_W)]


class PartitionFile(BaseModel):
    """A ``[[partitions]]`` table; keys that are left out keep the defaults of Partition."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    # Required. ``nodes`` counts nodes also where ``unit`` is a socket or a core.
    name: Name
    nodes: Units
    # Units and their frequencies in Hz, the highest first.
    unit: Unit | None = None
    sockets_per_node: Units | None = None
    cores_per_socket: Units | None = None
    frequencies_hz: list[Frequency] | None = None
    # Watts of one unit: powered without a job, and the most that it draws.
    idle_w: Watts | None = None
    max_w: Watts | None = None
    # Sensitivity of run time and exponent of watts at lower frequencies; the formulas stand in ``Partition``.
    dvfs_beta: Annotated[float, within(bounds.DVFS_BETA)] | None = None
    dvfs_alpha: Annotated[float, within(bounds.DVFS_ALPHA)] | None = None
    memory_gb: Annotated[float, within(bounds.MEMORY_GB)] | None = None
    # Transitions between on and off: seconds and watts of one node while it boots or shuts down, and watts when off.
    boot_s: Transition | None = None
    boot_w: Watts | None = None
    shutdown_s: Transition | None = None
    shutdown_w: Watts | None = None
    off_w: Watts | None = None
    # GPUs: how many a node has, watts of one, the limits to choose among, and how much longer jobs take under them:
    # a file of limit_w,watts,time_s, from the folder of this one, or its curve.
    gpus_per_node: Annotated[int, within(bounds.GPUS_PER_NODE)] | None = None
    gpu_idle_w: Watts | None = None
    gpu_max_w: Watts | None = None
    gpu_caps_w: list[Watts] | None = None
    gpu_floor_w: Watts | None = None
    curve: Name | None = None
    curve_share: list[Share] | None = None
    curve_time: list[Annotated[float, within(bounds.TIME_FACTOR)]] | None = None


class SensorFile(BaseModel):
    """The ``[sensor]`` table; keys that are left out keep the defaults of PowerSensor."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    # Seconds of a sample, and between two readings.
    sample_s: Seconds
    poll_s: Seconds
    covers: Covers | None = None
    average_s: Annotated[float, Field(ge=0, le=bounds.PERIOD_S.high)] | None = None
    # Errors of a simulated sensor: deviation of a sample relative to its watts, probability that a reading is lost.
    noise: Annotated[float, Field(ge=0, le=10)] | None = None
    loss: Share | None = None


class EarTable(BaseModel):
    """The table ``ear`` of physics and ``[known]``: EAR's coefficients, and metrics of applications from one source."""

    model_config = ConfigDict(extra="forbid", strict=True)

    coefficients: Name
    apps: Name | None = None
    database: Name | None = None


class PhysicsTable(BaseModel):
    """The ``[physics]`` table, and a physics file as a whole; keys have the meaning of PhysicsFiles."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    # Where jobs ran whose table does not say it: partition, and its clock in Hz.
    reference: Name | None = None
    reference_hz: Frequency | None = None
    # Files, from the folder of this one.
    table: Name | None = None
    units: Name | None = None
    limits: Name | None = None
    ear: EarTable | None = None


class KnownTable(BaseModel):
    """The ``[known]`` table; keys have the meaning of KnownFiles."""

    model_config = ConfigDict(extra="forbid", strict=True)

    # Files, from the folder of this one.
    ear: EarTable | None = None
    units: Name | None = None
    prices: Name | None = None


class SupplyTable(BaseModel):
    """A ``[[supply]]`` table; keys have the meaning of SupplyDomain. Names may have a range: ``rack[01-16]``."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    name: Name
    # A list is read to say why there is one parent.
    parent: str | list[str] | None = None
    nodes: str | None = None
    # A constant, a file of time_s,limit_w from the folder of this one, or its rows.
    limit_w: Watt | None = None
    limit_csv: Name | None = None
    limit_s: list[Instant] | None = None
    limits_w: list[Watt] | None = None
    known_s: list[Instant] | None = None
    base_w: Watt | None = None
    efficiency: Share | None = None
    meter: str | None = None


class MachineFile(BaseModel):
    """The file; keys that are left out keep the defaults of Machine."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    # Written by WattQueue; a file without it has the present version. ``machine_of`` refuses newer ones.
    schema_version: CountOrNone | None = None
    name: Name
    cap_scope: CapScope | None = None
    cap_w: Annotated[float, within(bounds.CAP_W)] | None = None
    # How watts are measured.
    sensor: SensorFile | None = None
    # What jobs truly draw and take.
    physics: PhysicsTable | None = None
    # What policies may read.
    known: KnownTable | None = None
    # Power domains, and the file of node, rack, row, feed that says how they stand.
    supply: list[SupplyTable] | None = None
    supply_csv: Name | None = None
    # Where the figures come from, as free text; no computation uses it.
    source: str | None = None
    partitions: Annotated[list[PartitionFile], Field(min_length=1)]
