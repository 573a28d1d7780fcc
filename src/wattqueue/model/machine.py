"""A machine: partitions of equal units, their frequencies and watts, and what its cap covers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import MachineError

CapScope = Literal["machine", "dynamic", "jobs"]
Unit = Literal["node", "socket", "core"]
MOST_UNITS = 2**31 - 1
"""Units are numbered by int32."""


@dataclass(frozen=True)
class Partition:
    """A set of equal units. Watts are of **one unit**; a unit is a node unless ``unit`` says otherwise.

    ``frequencies_hz`` runs from the highest (the reference) down; empty means one fixed frequency.
    Below the reference, time and watts of a job without a model of its own follow
    ``time(f) = beta (f_ref/f - 1) + 1`` and ``watts(f) = idle + (P - idle) (f/f_ref)**alpha``.

    Raises: MachineError for figures that contradict each other.
    """

    name: str
    nodes: int
    unit: Unit = "node"
    sockets_per_node: int = 1
    cores_per_socket: int = 1
    frequencies_hz: tuple[float, ...] = ()
    idle_w: float = 0.0
    max_w: float | None = None
    dvfs_beta: float = 1.0
    dvfs_alpha: float = 2.0
    memory_gb: float | None = None
    boot_s: float = 0.0
    boot_w: float = 0.0
    shutdown_s: float = 0.0
    shutdown_w: float = 0.0
    off_w: float = 0.0

    def __post_init__(self) -> None:
        where = f"partition {self.name}"
        if self.nodes < 1 or self.sockets_per_node < 1 or self.cores_per_socket < 1:
            raise MachineError("nodes, sockets and cores must be at least 1", where=where)
        if self.idle_w < 0 or (self.max_w is not None and self.max_w < self.idle_w):
            raise MachineError(
                f"idle {self.idle_w} W and maximum {self.max_w} W: need 0 <= idle <= maximum", where=where
            )
        if any(f <= 0 for f in self.frequencies_hz) or list(self.frequencies_hz) != sorted(
            self.frequencies_hz, reverse=True
        ):
            raise MachineError("frequencies must be positive, the highest first", where=where)
        if min(self.boot_s, self.boot_w, self.shutdown_s, self.shutdown_w, self.off_w) < 0:
            raise MachineError("boot, shutdown and off figures must not be negative", where=where)

    @property
    def units(self) -> int:
        """How many units jobs can occupy."""
        per_node = {"node": 1, "socket": self.sockets_per_node, "core": self.sockets_per_node * self.cores_per_socket}
        return self.nodes * per_node[self.unit]

    @property
    def frequency_count(self) -> int:
        """How many options the partition offers: one where no frequency is stated."""
        return max(1, len(self.frequencies_hz))


@dataclass(frozen=True)
class Machine:
    """Partitions under one power cap. ``cap_scope`` says what a cap covers.

    ``machine``: running jobs plus idle watts of the other powered units; ``dynamic``: everything
    above idle; ``jobs``: running jobs alone. ``source`` says where the figures come from.

    An **option** is a (partition, frequency): options count partition by partition, the highest
    frequency first. O = total number of options.
    """

    name: str
    partitions: tuple[Partition, ...]
    cap_scope: CapScope = "machine"
    cap_w: float | None = None
    """The cap that the machine is run under where none is stated."""
    source: str = ""

    def __post_init__(self) -> None:
        names = [p.name for p in self.partitions]
        if not names:
            raise MachineError("no partition", where=self.name)
        if len(set(names)) != len(names):
            raise MachineError("two partitions of one name", where=self.name)
        if self.units > MOST_UNITS:
            raise MachineError(f"{self.units:,} units", where=self.name, mend=f"at most {MOST_UNITS:,}")
        if self.cap_scope not in ("machine", "dynamic", "jobs"):
            raise MachineError(f"cap_scope {self.cap_scope!r}", where=self.name, mend="use machine, dynamic or jobs")

    @cached_property
    def option_start(self) -> NDArray[np.int32]:
        """First option of each partition, and O at the end. Shape (P + 1,)."""
        return np.concatenate(([0], np.cumsum([p.frequency_count for p in self.partitions]))).astype(np.int32)

    @cached_property
    def option_partition(self) -> NDArray[np.int32]:
        """Partition of each option. Shape (O,)."""
        return np.repeat(np.arange(len(self.partitions)), np.diff(self.option_start)).astype(np.int32)

    @cached_property
    def option_frequency_hz(self) -> NDArray[np.float64]:
        """Frequency of each option, NaN where the machine states none. Shape (O,)."""
        return np.array([f for p in self.partitions for f in (p.frequencies_hz or (np.nan,))], np.float64)

    @cached_property
    def option_time_factor(self) -> NDArray[np.float64]:
        """Run time relative to the partition's reference frequency, by the machine's figures. Shape (O,)."""
        return np.array(
            [
                p.dvfs_beta * (p.frequencies_hz[0] / f - 1.0) + 1.0 if f else 1.0
                for p in self.partitions
                for f in (p.frequencies_hz or (0.0,))
            ],
            np.float64,
        )

    @cached_property
    def option_dynamic_factor(self) -> NDArray[np.float64]:
        """Watts above idle relative to the reference frequency, by the machine's figures. Shape (O,)."""
        return np.array(
            [
                (f / p.frequencies_hz[0]) ** p.dvfs_alpha if f else 1.0
                for p in self.partitions
                for f in (p.frequencies_hz or (0.0,))
            ],
            np.float64,
        )

    @property
    def units(self) -> int:
        """Units of all partitions."""
        return sum(p.units for p in self.partitions)

    @property
    def idle_w(self) -> float:
        """Watts of the powered machine without a job."""
        return float(sum(p.units * p.idle_w for p in self.partitions))

    def scope_max_w(self) -> float | None:
        """Sum of unit maxima in the cap's scope (what ``70%`` refers to); None if one is unknown."""
        total = 0.0
        for p in self.partitions:
            if p.max_w is None:
                return None
            total += p.units * (p.max_w - (p.idle_w if self.cap_scope == "dynamic" else 0.0))
        return total

    def scope_idle_w(self) -> float:
        """Watts in the cap's scope while no job runs."""
        return self.idle_w if self.cap_scope == "machine" else 0.0


def plain_machine(units: int, idle_w: float = 0.0, max_w: float | None = None) -> Machine:
    """The machine of ``--nodes N [--node-watts IDLE:MAX]``: one partition, one frequency."""
    return Machine(f"{units}-nodes", (Partition("batch", units, idle_w=idle_w, max_w=max_w),), source="command line")
