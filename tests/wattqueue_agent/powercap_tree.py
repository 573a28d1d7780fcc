"""A powercap tree in a folder whose packages draw what their load wants, and never more than their limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

RANGE_UJ = 262_143_328_850


@dataclass
class PowercapTree:
    """Packages of one node. ``demand_w`` is what each would draw without a limit; ``run`` lets time pass.

    With ``top_hz`` the node has a cpufreq policy, too, from half of that frequency on; watts go with the frequency.
    """

    root: Path
    demand_w: list[float]
    limit_w: float = 150.0
    most_w: float = 165.0
    top_hz: float = 0.0
    energy_j: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.energy_j = [200.0] * len(self.demand_w)
        if self.top_hz:
            self.policy.mkdir(parents=True)
            for name, hertz in (
                ("cpuinfo_min", self.top_hz / 2),
                ("cpuinfo_max", self.top_hz),
                ("scaling_max", self.top_hz),
            ):
                (self.policy / f"{name}_freq").write_text(f"{round(hertz / 1e3)}\n")
        for k in range(len(self.demand_w)):
            zone = self.zone(k)
            zone.mkdir(parents=True)
            values = {
                "name": f"package-{k}", "enabled": 1, "max_energy_range_uj": RANGE_UJ,
                "constraint_0_name": "long_term", "constraint_0_power_limit_uw": round(self.limit_w * 1e6),
                "constraint_0_max_power_uw": round(self.most_w * 1e6), "constraint_1_name": "short_term",
                "constraint_1_power_limit_uw": round(1.2 * self.limit_w * 1e6),
            }  # fmt: skip
            for name, value in values.items():
                (zone / name).write_text(f"{value}\n")
        self.run(0.0)

    def zone(self, k: int) -> Path:
        """Folder of a package."""
        return self.root / f"intel-rapl:{k}"

    @property
    def policy(self) -> Path:
        """Folder of the cpufreq policy of all cores."""
        return self.root.parent / "cpufreq" / "policy0"

    def hertz(self) -> float:
        """Highest frequency in force."""
        text = ""
        while not text:  # as below
            text = (self.policy / "scaling_max_freq").read_text()
        return int(text) * 1e3

    def limits_w(self) -> list[float]:
        """Limits in force."""
        return [self._limit_w(k) for k in range(len(self.demand_w))]

    def _limit_w(self, k: int) -> float:
        text = ""
        while not text:  # empty for a moment while it is written, which files of /sys never are
            text = (self.zone(k) / "constraint_0_power_limit_uw").read_text()
        return int(text) / 1e6

    def power_w(self) -> list[float]:
        """What the packages draw now."""
        speed = self.hertz() / self.top_hz if self.top_hz else 1.0
        return [min(speed * wanted, limit) for wanted, limit in zip(self.demand_w, self.limits_w(), strict=True)]

    def run(self, seconds: float) -> None:
        """Let the counters run on for so long."""
        for k, watts in enumerate(self.power_w()):
            self.energy_j[k] += watts * seconds
            new = self.zone(k) / "energy_uj.new"  # renamed: a counter is never empty while it is read
            new.write_text(f"{round(self.energy_j[k] * 1e6) % RANGE_UJ}\n")
            new.rename(self.zone(k) / "energy_uj")
