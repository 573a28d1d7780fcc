"""What can be limited on a node: processor packages (RAPL), frequencies of cores (cpufreq) and GPUs (NVML), by name.

Packages are limited through the kernel's powercap tree. Each has constraints; the one named ``long_term`` limits the
mean over about a second and is what a cap means. ``constraint_N_max_power_uw`` is the largest value that the processor
takes; some kernels show 0 there, or nothing, and then the limit found when the agent started is the largest. Values are
rounded by the hardware (1/8 W). Frequencies are those of the kernel's cpufreq policies, each of which covers some
cores. GPUs need the package nvidia-ml-py.

Reference: Linux kernel documentation, power/powercap and admin-guide/pm/cpufreq; NVIDIA Management Library API, device
queries and commands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from wattqueue_agent.limits import Bounds, Limit, LimitError, Unit, read_number, read_word, write_number

CPUFREQ = Path("/sys/devices/system/cpu/cpufreq")
LOWEST_W = 1.0
"""Lower end of the range where the kernel states none; a limit of 0 would be refused or mean no limit."""
BINARY = 1e-3
"""What is forgiven when a value is rounded down to whole microwatts or milliwatts: 0.7 W is a little less in binary."""


@dataclass
class RaplLimit:
    """The long-term limit of one package.

    Attributes:
        name: Name of the zone, such as ``package-0``.
        zone: Its folder.
        constraint: Number of the constraint.
        found_w: Limit in force when it was found, the largest where the kernel states none.
    """

    name: str
    zone: Path
    constraint: int
    found_w: float
    unit: Unit = "W"

    @property
    def path(self) -> Path:
        """Return the file that holds the limit in microwatts."""
        return self.zone / f"constraint_{self.constraint}_power_limit_uw"

    def range(self) -> Bounds:
        """Return the watts that the package takes."""
        low, high = (self._stated(f"constraint_{self.constraint}_{end}_power_uw") for end in ("min", "max"))
        return Bounds(low or LOWEST_W, high or self.found_w)

    def read(self) -> float:
        """Return the limit in watts."""
        return read_number(self.path) / 1e6

    def write(self, value: float) -> None:
        """Set the limit in watts, rounded down: limits of many packages together stay within what was shared out."""
        write_number(self.path, math.floor(value * 1e6 + BINARY))

    def _stated(self, name: str) -> float:
        path = self.zone / name
        return read_number(path) / 1e6 if path.exists() else 0.0


def rapl_limits(root: Path) -> list[RaplLimit]:
    """Return the packages that can be limited, in the order of their names; none without a powercap tree.

    Raises: LimitError where a package states no limit that can be read.
    """
    found = []
    for zone in sorted(root.iterdir()) if root.is_dir() else ():
        name = zone / "name"
        if zone.name.count(":") != 1 or not name.exists() or not read_word(name).startswith("package"):
            continue
        for constraint in range(8):
            title = zone / f"constraint_{constraint}_name"
            if title.exists() and read_word(title) == "long_term":
                if (zone / "enabled").exists() and read_number(zone / "enabled") == 0:
                    raise LimitError("the zone is disabled: its limit has no effect", where=zone, hint="write 1 there")
                path = zone / f"constraint_{constraint}_power_limit_uw"
                found.append(RaplLimit(read_word(name), zone, constraint, read_number(path) / 1e6))
    return found


@dataclass
class FrequencyLimit:
    """The highest frequency that one policy's governor may choose (``scaling_max_freq``, in kHz on disk)."""

    name: str
    folder: Path
    unit: Unit = "Hz"

    @property
    def path(self) -> Path:
        """Return the file that holds the limit in kHz."""
        return self.folder / "scaling_max_freq"

    def range(self) -> Bounds:
        """Return the frequencies that the cores have, in Hz."""
        low, high = (read_number(self.folder / f"cpuinfo_{end}_freq") * 1e3 for end in ("min", "max"))
        return Bounds(low, high)

    def read(self) -> float:
        """Return the limit in Hz."""
        return read_number(self.path) * 1e3

    def write(self, value: float) -> None:
        """Set the limit in Hz."""
        write_number(self.path, round(value / 1e3))


def frequency_limits(root: Path) -> list[FrequencyLimit]:
    """Return the policies, in the order of their numbers; none without cpufreq."""
    folders = [f for f in root.glob("policy*") if (f / "scaling_max_freq").exists()] if root.is_dir() else []
    return [FrequencyLimit(f.name, f) for f in sorted(folders, key=lambda f: int(f.name.removeprefix("policy")))]


@dataclass
class GpuLimit:
    """The power limit of one GPU; ``name`` is ``gpu-`` and its UUID, which stays with the device."""

    name: str
    library: ModuleType
    handle: Any
    unit: Unit = "W"

    def range(self) -> Bounds:
        """Return the watts that the GPU takes."""
        low, high = self._call("nvmlDeviceGetPowerManagementLimitConstraints")
        return Bounds(low / 1e3, high / 1e3)

    def read(self) -> float:
        """Return the limit in watts."""
        return float(self._call("nvmlDeviceGetPowerManagementLimit")) / 1e3

    def write(self, value: float) -> None:
        """Set the limit in watts, rounded down as that of a package."""
        self._call("nvmlDeviceSetPowerManagementLimit", math.floor(value * 1e3 + BINARY))

    def power_w(self) -> float:
        """Return what the GPU draws in watts, as the driver averages it: over a second on Hopper GPUs."""
        return float(self._call("nvmlDeviceGetPowerUsage")) / 1e3

    def energy_j(self) -> float | None:
        """Return the joules since the driver was loaded; None where the GPU does not count them (before Volta).

        On an H200 the count advances every 0.1 s.
        """
        try:
            return float(self._call("nvmlDeviceGetTotalEnergyConsumption")) / 1e3
        except LimitError:
            return None

    def _call(self, name: str, *arguments: int) -> Any:
        try:
            return getattr(self.library, name)(self.handle, *arguments)
        except self.library.NVMLError as error:
            raise LimitError(str(error), where=self.name) from error


def gpu_limits() -> list[GpuLimit]:
    """Return the GPUs of this node; none where the package or the driver is missing."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    handles = (pynvml.nvmlDeviceGetHandleByIndex(k) for k in range(pynvml.nvmlDeviceGetCount()))
    return [GpuLimit(f"gpu-{pynvml.nvmlDeviceGetUUID(handle)}", pynvml, handle) for handle in handles]


def find_limits(powercap: Path, cpufreq: Path, *, gpus: bool) -> dict[str, Limit]:
    """Return what can be limited under two trees of /sys, and the GPUs if asked for.

    Raises: LimitError where a package is there and its limit cannot be read.
    """
    found: list[Limit] = [*rapl_limits(powercap), *frequency_limits(cpufreq), *(gpu_limits() if gpus else ())]
    return {limit.name: limit for limit in found}
