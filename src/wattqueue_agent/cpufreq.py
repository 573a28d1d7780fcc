"""Highest frequency of processor cores through the kernel's cpufreq policies, each of which covers some cores.

Reference: Linux kernel documentation, admin-guide/pm/cpufreq.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wattqueue_agent.limits import Bounds, Unit, read_number, write_number

SYSTEM = Path("/sys/devices/system/cpu/cpufreq")


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
