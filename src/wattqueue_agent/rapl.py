"""Power limits of processor packages through the kernel's powercap tree (RAPL).

Each package has constraints; the one named ``long_term`` limits the mean over about a second and is what a cap means.
``constraint_N_max_power_uw`` is the largest value that the processor takes; some kernels show 0 there, or nothing, and
then the limit found when the agent started is the largest. Values are rounded by the hardware (1/8 W).

Reference: Linux kernel documentation, power/powercap.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wattqueue_agent.limits import Bounds, LimitError, Unit, read_number, read_word, write_number

LOWEST_W = 1.0
"""Lower end of the range where the kernel states none; a limit of 0 would be refused or mean no limit."""


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
        """Set the limit in watts."""
        write_number(self.path, round(value * 1e6))

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
