"""Read RAPL through the kernel's powercap tree: energy counters of packages and memory, which wrap.

Each zone has ``energy_uj``, which grows and starts at zero again after ``max_energy_range_uj`` (a server package wraps
about every 20 minutes at 200 W). Power is the difference of two reads divided by the time between them, so the first
read of a node gives no sample.

A node's watts are the energy that all of its counters gained between two reads. If one of them vanishes, may not be
read, or may have wrapped more than once, the node has no sample: the sum of the others would be too low, and too low is
the dangerous direction.

Reference: Linux kernel documentation, power/powercap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from wattqueue.live.telemetry.base import PowerSample, Reading

SYSTEM = Path("/sys/class/powercap")
MOST_ZONE_W = 2000.0
"""No zone draws more. Where a counter's range is less than this power times the time between two reads, it may have
wrapped more than once, and the difference means nothing."""


class Counter(NamedTuple):
    """One zone's energy in microjoules, and the value at which it wraps."""

    energy_uj: int
    range_uj: int


@dataclass
class Powercap:
    """Node power from powercap trees, one root per node (on the node itself: one root).

    ``other_w`` is added to each node for what RAPL does not measure (fans, disks, network, losses): a site's own
    figure, which ``whatif`` and the machine file must use as well.
    """

    roots: Mapping[str, Path]
    other_w: float = 0.0
    name: str = "powercap"
    resolution_w: float = 0.0
    _last: dict[str, tuple[float, dict[str, Counter]]] = field(default_factory=dict)

    def read(self, now_s: float) -> Reading:
        """Read every node's counters once, and compute the power since the read before."""
        samples: dict[str, PowerSample] = {}
        problems: list[str] = []
        for node, root in self.roots.items():
            try:
                zones = counters(root)
            except (OSError, ValueError) as error:
                problems.append(f"{node}: {said(error)}")
                self._last.pop(node, None)
                continue
            before = self._last.get(node)
            self._last[node] = (now_s, zones)
            if before is None or now_s <= before[0]:
                continue
            if before[1].keys() != zones.keys():
                changed = sorted(before[1].keys() ^ zones.keys())
                problems.append(f"{node}: zone {changed[0]} came or went")
                continue
            power_w = _power(before[1], zones, now_s - before[0])
            if power_w is None:
                problems.append(
                    f"{node}: a counter wrapped more than once in {now_s - before[0]:.0f} s, or was set back"
                )
            else:
                samples[node] = PowerSample(power_w + self.other_w, now_s, self.name)
        return Reading(samples, tuple(problems))


def counters(root: Path) -> dict[str, Counter]:
    """Return the counters that make up a node: the platform's own (psys) where there is one, else packages and memory.

    psys contains the packages, so adding both would count them twice. Subzones of a package (core, uncore) are parts of
    it and left out; ``dram`` is not.

    Raises: OSError where one cannot be read, ValueError where one holds no number or there is none.
    """
    packages: dict[str, Counter] = {}
    platform: dict[str, Counter] = {}
    for zone in sorted(root.iterdir()):
        if ":" not in zone.name or not (zone / "name").exists():
            continue
        name = (zone / "name").read_text().strip()
        if name == "psys":
            platform[zone.name] = read_counter(zone)
        elif name.startswith("package") or name == "dram":
            packages[zone.name] = read_counter(zone)
    found = platform or packages
    if not found:
        raise ValueError(f"no RAPL package under {root}")
    return found


def read_counter(zone: Path) -> Counter:
    """Read one zone.

    Raises: OSError where it cannot be read, ValueError where it holds no number, or one that no counter has.
    """
    found = Counter(*(int((zone / name).read_text()) for name in ("energy_uj", "max_energy_range_uj")))
    if not 0 <= found.energy_uj <= found.range_uj:
        raise ValueError(f"{zone.name}: a counter of {found.energy_uj} uJ does not lie within 0 to {found.range_uj}")
    return found


def zone_w(before: Counter, now: Counter, seconds: float) -> float | None:
    """Return the watts of a zone between two reads; None where its counter may have wrapped more than once.

    A single wrap shows as a negative difference, to which the range is added. None as well for more watts than a zone
    can draw: the counter was set back.
    """
    if seconds * MOST_ZONE_W * 1e6 >= now.range_uj:
        return None
    gained = now.energy_uj - before.energy_uj
    power_w = (gained if gained >= 0 else gained + now.range_uj) / 1e6 / seconds
    return power_w if power_w <= MOST_ZONE_W else None


def _power(before: Mapping[str, Counter], now: Mapping[str, Counter], seconds: float) -> float | None:
    """Return the watts of all zones between two reads; None where one of them has none."""
    watts = [zone_w(before[zone], counter, seconds) for zone, counter in now.items()]
    return None if None in watts else sum(w for w in watts if w is not None)


def said(error: Exception) -> str:
    """Return one line about a failed read, with the way out where the kernel forbids it (root alone since 5.10)."""
    if isinstance(error, PermissionError):
        return f"may not read {error.filename} (give the controller's group read access to energy_uj)"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error)
