"""A machine: partitions of equal units, their frequencies and watts, and what its cap covers.

Figures are those of the machine file (``formats/machine/file.py``): nameplate or measured maxima, not what a job draws.
All option tables are computed once per machine, because every estimator and the engine index them.

Below a partition stand its nodes, and in them its devices: what can be measured and limited by itself. A unit
belongs to one of each. Units of a core share the device of their socket; a unit of a socket or a node is a device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import MachineError
from wattqueue.model import bounds

if TYPE_CHECKING:
    from wattqueue.model.known_files import KnownFiles
    from wattqueue.model.physics import PhysicsFiles
    from wattqueue.model.power_sensor import Covers, PowerSensor
    from wattqueue.model.supply import SupplyDomain, SupplyTree

CapScope = Literal["machine", "dynamic", "jobs"]
"""What a cap covers (rule 14 of docs/semantics.md)."""
Unit = Literal["node", "socket", "core", "gpu"]
"""What a job occupies as a whole."""
_LIMITS = {
    "nodes": bounds.UNITS,
    "sockets_per_node": bounds.UNITS,
    "cores_per_socket": bounds.UNITS,
    "idle_w": bounds.UNIT_W,
    "max_w": bounds.UNIT_W,
    "dvfs_beta": bounds.DVFS_BETA,
    "dvfs_alpha": bounds.DVFS_ALPHA,
    "memory_gb": bounds.MEMORY_GB,
    "boot_s": bounds.TRANSITION_S,
    "boot_w": bounds.UNIT_W,
    "shutdown_s": bounds.TRANSITION_S,
    "shutdown_w": bounds.UNIT_W,
    "off_w": bounds.UNIT_W,
}
"""Limits of a partition's figures, by field."""

GPU_FIGURES = ("gpu_idle_w", "gpu_max_w", "gpu_caps_w", "gpu_floor_w", "curve_share", "curve_time")
"""Figures of a partition that state nothing without ``gpus_per_node``."""


@dataclass(frozen=True)
class Partition:
    """A set of equal units. Watts are of **one unit**; a unit is a node unless ``unit`` is another.

    Below the reference frequency, time and watts of a job without a model of its own follow
    ``time(f) = beta (f_ref/f - 1) + 1`` and ``watts(f) = idle + (P - idle) (f/f_ref)**alpha``.

    Raises: MachineError for figures outside ``model.bounds``, or that contradict each other.
    """

    name: str
    nodes: int
    """Number of nodes; units are ``nodes`` x units per node."""
    unit: Unit = "node"
    sockets_per_node: int = 1
    cores_per_socket: int = 1
    frequencies_hz: tuple[float, ...] = ()
    """From the highest (the reference) down; empty means one fixed frequency that nobody stated."""
    idle_w: float = 0.0
    """Watts of a powered unit that runs no job."""
    max_w: float | None = None
    """Highest watts of a unit; None: unknown, so predictions of the maximum and caps in percent are not possible."""
    dvfs_beta: float = 1.0
    """Sensitivity of run time to frequency: 0 none, 1 fully compute-bound."""
    dvfs_alpha: float = 2.0
    """Exponent of the watts above idle in frequency."""
    memory_gb: float | None = None
    """Memory of one node (not unit) in GB; None: memory does not limit jobs."""
    boot_s: float = 0.0
    boot_w: float = 0.0
    """Watts of one node (not unit) while it boots; counted once, however many units it has."""
    shutdown_s: float = 0.0
    shutdown_w: float = 0.0
    """Watts of one node while it shuts down."""
    off_w: float = 0.0
    """Watts of one node that is off (its management controller)."""
    gpus_per_node: int = 0
    """GPUs of a node, 0 for none; their watts are part of a unit's."""
    gpu_idle_w: float = 0.0
    gpu_max_w: float | None = None
    """Watts of one GPU."""
    gpu_caps_w: tuple[float, ...] = ()
    """Power limits of a GPU that policies may choose, ``gpu_max_w`` first; empty for none."""
    gpu_floor_w: float = 0.0
    """Lowest limit that holds: lower ones count as it."""
    curve_share: tuple[float, ...] = ()
    curve_time: tuple[float, ...] = ()
    """Run time by the share of a GPU's watts above idle that a limit leaves (``model.gpu_limits.GpuCurve``)."""

    def __post_init__(self) -> None:
        where = f"partition {self.name}"
        for name, bound in _LIMITS.items():
            value = getattr(self, name)
            if value is not None:
                bound.require(value, name, where=where, kind=MachineError)
        bounds.UNITS.require(self.units, "number of units", where=where, kind=MachineError)
        for hz in self.frequencies_hz:
            bounds.FREQUENCY_HZ.require(hz, "a frequency", where=where, kind=MachineError)
        if list(self.frequencies_hz) != sorted(self.frequencies_hz, reverse=True):
            raise MachineError(f"frequencies {self.frequencies_hz}", where=where, hint="write the highest first")
        if self.max_w is not None and self.max_w < self.idle_w:
            raise MachineError(
                f"idle_w = {self.idle_w} is above max_w = {self.max_w}", where=where, hint="need idle_w <= max_w"
            )
        if self.gpus_per_node or self.unit == "gpu" or any(getattr(self, name) for name in GPU_FIGURES):
            from wattqueue.model.gpu_options import require_gpus

            require_gpus(self, GPU_FIGURES)

    @property
    def units(self) -> int:
        """Return how many units jobs can occupy."""
        return self.nodes * self.units_per_node

    @property
    def units_per_node(self) -> int:
        """Return how many units a node has."""
        cores = self.sockets_per_node * self.cores_per_socket
        per_node = {"node": 1, "socket": self.sockets_per_node, "core": cores, "gpu": max(self.gpus_per_node, 1)}
        return per_node[self.unit]

    @property
    def units_per_device(self) -> int:
        """Return how many units share a device: the cores of a socket; else a unit is a device."""
        return self.cores_per_socket if self.unit == "core" else 1

    def units_per_sensor(self, covers: Covers) -> int:
        """Return how many units a power sensor covers: at least one."""
        sizes = {"node": self.units_per_node, "socket": self.units_per_device, "unit": 1}
        return sizes[covers]

    @property
    def frequency_count(self) -> int:
        """Return how many options the partition offers, frequencies or GPU limits: one where none is stated."""
        return max(1, len(self.frequencies_hz), len(self.gpu_caps_w))


@dataclass(frozen=True)
class Machine:
    """Partitions under one power cap.

    An **option** is a (partition, operating point): a frequency or a GPU limit. Options count partition by partition,
    the highest frequency or limit first; P partitions, O options. Units (U), devices (D) and nodes (N) are numbered
    over the whole machine, partition by partition; the units of a device are neighbours, and so are those of a node.

    Raises: MachineError without a partition, with two of one name, with too many units, or with power domains that are
    no tree (``SupplyTree``).
    """

    name: str
    partitions: tuple[Partition, ...]
    cap_scope: CapScope = "machine"
    """``machine``: running jobs plus idle watts of the other powered units; ``dynamic``: everything above idle;
    ``jobs``: running jobs alone (rule 14 of docs/semantics.md)."""
    cap_w: float | None = None
    """Cap of runs that state none; None for no cap."""
    sensor: PowerSensor | None = None
    """How its watts are measured; None: nothing measures."""
    physics: PhysicsFiles | None = None
    """Files that state what jobs truly draw and take on it; ``runs.physics`` reads them."""
    known: KnownFiles | None = None
    """Files that policies may read where their rows name none (``policy/for_machine.py``)."""
    supply: tuple[SupplyDomain, ...] = ()
    """Power domains through which it is supplied, in any order; empty where the cap alone limits (rule 22)."""
    source: str = ""
    """Where the figures come from, as free text for reports."""

    def __post_init__(self) -> None:
        names = [p.name for p in self.partitions]
        if not names:
            raise MachineError("no partition", where=self.name)
        if len(set(names)) != len(names):
            raise MachineError("two partitions of one name", where=self.name)
        bounds.UNITS.require(self.units, "number of units", where=self.name, kind=MachineError)
        if self.cap_w is not None:
            bounds.CAP_W.require(self.cap_w, "cap_w", where=self.name, kind=MachineError)
        if self.cap_scope not in ("machine", "dynamic", "jobs"):
            raise MachineError(f"cap_scope {self.cap_scope!r}", where=self.name, hint="use machine, dynamic or jobs")
        if self.supply:
            _ = self.supply_tree  # checked as a whole

    @cached_property
    def supply_tree(self) -> SupplyTree:
        """Return the power domains as a tree; without domains where none are stated."""
        from wattqueue.model.supply import SupplyTree

        return SupplyTree.of(self.supply, self.partitions, in_watts=self.cap_scope == "machine")

    @property
    def unit_scope_idle_w(self) -> list[float]:
        """Return what an idle unit of each partition draws in the cap's scope. Shape (P,)."""
        return [part.idle_w if self.cap_scope == "machine" else 0.0 for part in self.partitions]

    @property
    def unit_net_idle_w(self) -> list[float]:
        """Return what a unit of each partition draws beside a job's net watts: 0 if the cap covers jobs alone. (P,)"""
        return [part.idle_w if self.cap_scope != "jobs" else 0.0 for part in self.partitions]

    @cached_property
    def supply_idle_uw(self) -> NDArray[np.int64]:
        """Return the input of each power domain in microwatts while no job runs. Shape (D,)."""
        return self.supply_tree.input_uw(self.unit_scope_idle_w)

    def by_unit(self, figures: Sequence[float]) -> NDArray[np.float64]:
        """Return for each unit the figure of its partition. ``figures``: one for each partition. Shape (U,)."""
        return np.repeat(np.array(figures, np.float64), [p.units for p in self.partitions])

    @cached_property
    def unit_start(self) -> NDArray[np.int32]:
        """Return the first unit of each partition, and U at the end. Shape (P + 1,)."""
        return np.concatenate(([0], np.cumsum([p.units for p in self.partitions]))).astype(np.int32)

    @cached_property
    def device_start(self) -> NDArray[np.int32]:
        """Return the first unit of each device, and U at the end. Shape (D + 1,)."""
        return _starts([(p.units, p.units_per_device) for p in self.partitions])

    @cached_property
    def device_of_unit(self) -> NDArray[np.int32]:
        """Return the device of each unit. Shape (U,)."""
        return np.repeat(np.arange(len(self.device_start) - 1, dtype=np.int32), np.diff(self.device_start))

    @cached_property
    def device_idle_w(self) -> NDArray[np.float64]:
        """Return the idle watts of the units of each device. Shape (D,)."""
        return np.add.reduceat(self.by_unit([p.idle_w for p in self.partitions]), self.device_start[:-1])

    @cached_property
    def node_start(self) -> NDArray[np.int32]:
        """Return the first unit of each node, and U at the end. Shape (N + 1,)."""
        return _starts([(p.units, p.units_per_node) for p in self.partitions])

    @cached_property
    def node_of_unit(self) -> NDArray[np.int32]:
        """Return the node of each unit. Shape (U,)."""
        return np.repeat(np.arange(len(self.node_start) - 1, dtype=np.int32), np.diff(self.node_start))

    @cached_property
    def sensor_start(self) -> NDArray[np.int32]:
        """Return the first unit of each power sensor, and U at the end. Shape (S + 1,); S is 0 without sensors."""
        if self.sensor is None:
            return np.zeros(1, np.int32)
        covers = self.sensor.covers
        return _starts([(p.units, p.units_per_sensor(covers)) for p in self.partitions])

    @cached_property
    def sensor_of_unit(self) -> NDArray[np.int32]:
        """Return the power sensor of each unit. Shape (U,); empty where nothing measures."""
        return np.repeat(np.arange(len(self.sensor_start) - 1, dtype=np.int32), np.diff(self.sensor_start))

    @cached_property
    def option_start(self) -> NDArray[np.int32]:
        """Return the first option of each partition, and O at the end. Shape (P + 1,)."""
        return np.concatenate(([0], np.cumsum([p.frequency_count for p in self.partitions]))).astype(np.int32)

    @cached_property
    def option_partition(self) -> NDArray[np.int32]:
        """Return the partition of each option. Shape (O,)."""
        return np.repeat(np.arange(len(self.partitions)), np.diff(self.option_start)).astype(np.int32)

    @cached_property
    def option_frequency_hz(self) -> NDArray[np.float64]:
        """Return the frequency of each option, NaN where the machine states none. Shape (O,)."""
        return self._by_option(lambda p: p.frequencies_hz or (np.nan,) * p.frequency_count)

    @cached_property
    def option_gpu_cap_w(self) -> NDArray[np.float64]:
        """Return the GPU limit of each option, NaN where the machine states none. Shape (O,)."""
        return self._by_option(lambda p: p.gpu_caps_w or (np.nan,) * p.frequency_count)

    @cached_property
    def option_time_factor(self) -> NDArray[np.float64]:
        """Return run time relative to the partition's reference frequency, by the machine's figures. Shape (O,).

        Under GPU limits of a job that draws the unit's maximum.
        """
        return self._by_option(_time_factors)

    @cached_property
    def option_dynamic_factor(self) -> NDArray[np.float64]:
        """Return watts above idle relative to the reference frequency, by the machine's figures. Shape (O,).

        Under GPU limits at the unit's maximum.
        """
        return self._by_option(_dynamic_factors)

    @cached_property
    def option_host_share(self) -> NDArray[np.float64]:
        """Return the share of a unit's watts above idle that an option takes from none, or scales (0 of it held).

        The dynamic factor of a frequency; under a GPU limit what is not the GPUs'. Shape (O,).
        """
        return self._by_option(lambda p: _left_by_limits(p)[0] if p.gpu_caps_w else _dynamic_factors(p))

    @cached_property
    def option_held_w(self) -> NDArray[np.float64]:
        """Return the watts above idle that a GPU limit leaves the GPUs of a unit, 0 for other options. Shape (O,)."""
        return self._by_option(lambda p: _left_by_limits(p)[1] if p.gpu_caps_w else [0.0] * p.frequency_count)

    def option_text(self, option: int) -> str:
        """Return an operating point in words."""
        hz, cap_w = float(self.option_frequency_hz[option]), float(self.option_gpu_cap_w[option])
        return f"{hz / 1e9:.2f} GHz" if np.isnan(cap_w) else f"a GPU limit of {cap_w:g} W"

    def _by_option(self, figures: Callable[[Partition], Sequence[float]]) -> NDArray[np.float64]:
        """Return the figures of all options, partition by partition. Shape (O,)."""
        return np.array([figure for p in self.partitions for figure in figures(p)], np.float64)

    @property
    def units(self) -> int:
        """Return the number of units of all partitions."""
        return sum(p.units for p in self.partitions)

    @property
    def devices(self) -> int:
        """Return the number of devices of all partitions."""
        return sum(p.units // p.units_per_device for p in self.partitions)

    @property
    def nodes(self) -> int:
        """Return the number of nodes of all partitions."""
        return sum(p.nodes for p in self.partitions)

    @property
    def idle_w(self) -> float:
        """Return the watts of the powered machine while no job runs."""
        return float(sum(p.units * p.idle_w for p in self.partitions))

    def scope_max_w(self) -> float | None:
        """Return the sum of unit maxima in the cap's scope (what ``70%`` refers to); None if one is unknown."""
        total = 0.0
        for p in self.partitions:
            if p.max_w is None:
                return None
            total += p.units * (p.max_w - (p.idle_w if self.cap_scope == "dynamic" else 0.0))
        return total

    def scope_node_max_w(self) -> float:
        """Return the greatest maximum of a node in the cap's scope, of those that are stated; 0 where none is."""
        dynamic = self.cap_scope == "dynamic"
        stated = [(p.units_per_node, p.max_w, p.idle_w if dynamic else 0.0) for p in self.partitions]
        return max((units * (most - idle) for units, most, idle in stated if most is not None), default=0.0)

    def scope_idle_w(self) -> float:
        """Return the watts in the cap's scope while no job runs."""
        return self.idle_w if self.cap_scope == "machine" else 0.0


def _time_factors(part: Partition) -> list[float]:
    """Return run time at each option of a partition relative to its first one."""
    if part.gpu_caps_w and part.max_w is not None:
        from wattqueue.model.gpu_options import time_factors

        found: list[float] = time_factors(part, np.array([part.max_w - part.idle_w]))[0].tolist()
        return found
    return [part.dvfs_beta * (part.frequencies_hz[0] / f - 1.0) + 1.0 for f in part.frequencies_hz] or [1.0]


def _left_by_limits(part: Partition) -> tuple[list[float], list[float]]:
    """Return for each GPU limit the share of a unit's watts that is not its GPUs', and the watts that these have."""
    from wattqueue.model.gpu_options import held_w, host_share

    return host_share(part), held_w(part)


def _dynamic_factors(part: Partition) -> list[float]:
    """Return watts above idle at each option of a partition relative to its first one."""
    if part.gpu_caps_w and part.max_w is not None:
        dynamic = max(part.max_w - part.idle_w, 1e-9)
        return [min(1.0, s + h / dynamic) for s, h in zip(*_left_by_limits(part), strict=True)]
    return [(f / part.frequencies_hz[0]) ** part.dvfs_alpha for f in part.frequencies_hz] or [1.0]


def _starts(groups: list[tuple[int, int]]) -> NDArray[np.int32]:
    """Return the first unit of each group, and the number of units at the end; a row is (units, units of a group)."""
    sizes = np.repeat([size for _, size in groups], [units // size for units, size in groups])
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)


def plain_machine(units: int, idle_w: float = 0.0, max_w: float | None = None) -> Machine:
    """Return the machine of ``--nodes N [--node-watts IDLE:MAX]``: one partition, one frequency.

    Raises: MachineError as the classes do.
    """
    return Machine(f"{units}-nodes", (Partition("batch", units, idle_w=idle_w, max_w=max_w),), source="command line")
