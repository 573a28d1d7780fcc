"""The naive twin of the site meter (rule 15): every figure from the list of all readings, by its definition."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.reference.meter import whole
from wattqueue.kernels import codes
from wattqueue.parts.ledger.adaptive import DAY_S, PARTS_A_DAY, Adaptive
from wattqueue.policy.site_meter import LEAST_SHARE

if TYPE_CHECKING:
    from tests.reference.simulator import Simulator

INF = math.inf


@dataclass
class SiteReading:
    """One reading: when, over how long, watts drawn and counted, seconds above the cap, waiting jobs, deviation."""

    time: float
    span: float
    drawn: float
    counted: float
    above: float
    waited: bool
    deviation: float


@dataclass
class NaiveSiteMeter:
    """What an adaptive ledger keeps free; ``normal`` has the noise of each reading, empty for none."""

    ledger: Adaptive
    normal: list[float] = field(default_factory=list)
    read_at: float = -INF
    since: float = -INF
    cap_before: int = 0
    readings: list[SiteReading] = field(default_factory=list)
    ledgers: list[tuple[float, list[int]]] = field(default_factory=list)
    """What the ledger counted for each job from each instant on."""
    fitted: float = 1.0
    """The share at which jobs fitted last."""

    def at_instant(self, world: Simulator) -> None:
        """Read the meter if it is due, and put what follows in force."""
        if world.now < self.read_at:
            return
        self.read_at = (whole(world.now, self.ledger.meter_s) + 1) * self.ledger.meter_s
        if -INF < self.since < world.now:
            self.readings.append(self.reading(world))
        self.since, self.cap_before = world.now, world.cap_uw
        z = self.z_in_force()
        world.chance = self.share(), z * z * self.ledger.own, z * z * self.ledger.common
        if world.available() >= 0:
            self.fitted = self.share()

    def reading(self, world: Simulator) -> SiteReading:
        """The mean since the reading before."""
        rows = [step for k, step in enumerate(world.steps) if k == 0 or step[1:] != world.steps[k - 1][1:]]
        total = 0.0
        for k, (time, jobs, other, idle, _) in enumerate(rows):
            end = rows[k + 1][0] if k + 1 < len(rows) else world.now
            scope = {"machine": jobs + other, "dynamic": jobs - idle, "jobs": jobs}[world.machine.cap_scope]
            if end > max(time, self.since):
                total += scope / 1e6 * (end - max(time, self.since))
        span = world.now - self.since
        watts = total / span
        if self.normal:
            number = len(self.readings) % len(self.normal)
            watts = max(0.0, watts * (1.0 + self.ledger.noise * self.normal[number]))
        cap = max(self.cap_before, world.cap_uw)
        limited = cap < codes.NO_CAP
        base = 0
        if world.machine.cap_scope == "machine":
            base = sum(world.node_base_uw(units, world.unit_state[units[0]]) for units in world.nodes)
        counted = squares = 0.0
        for (time, nets), (end, _) in itertools.pairwise([*self.ledgers, (world.now, [])]):
            if time >= self.since:
                counted += sum(nets) / 1e6 * (end - time) / span
                squares += sum(round((net / 1e6) ** 2) for net in nets) * (end - time) / span
        above = span if limited and watts * 1e6 > cap + 1.0 else 0.0
        drawn, spread = watts - base / 1e6, math.sqrt(self.ledger.own * squares + self.ledger.common * counted**2)
        deviation = (drawn / self.fitted - counted) / spread if spread > 0 else 0.0
        return SiteReading(world.now, span, drawn, counted, above, limited and bool(world.queue), deviation)

    def known(self) -> list[tuple[float, SiteReading]]:
        """The readings that are known by now, each with the time at which it became known."""
        late = self.ledger.late
        return [(self.readings[k + late].time, r) for k, r in enumerate(self.readings[: len(self.readings) - late])]

    def share(self) -> float:
        """Watts drawn for a watt predicted: two averages that forget."""
        drawn = counted = 0.0
        for _, r in self.known():
            if r.counted > 0:
                weight = 1.0 - math.exp(-r.span / self.ledger.forget_s) if counted > 0 else 1.0
                drawn += weight * (r.drawn - drawn)
                counted += weight * (r.counted - counted)
        return max(drawn / counted, LEAST_SHARE) if counted > 0 else 1.0

    def z_in_force(self) -> float:
        """The conformal step, what the spent allowance adds, and its bound."""
        ledger, window = self.ledger, self.ledger.window_days * DAY_S
        allowed = ledger.epsilon * window
        z = ledger.begin
        for _, r in self.known():
            if r.waited or r.above > 0:
                missed = r.span if r.deviation > z else 0.0
                z = max(z + ledger.gain * (missed - ledger.aim * ledger.epsilon * r.span) / allowed, 0.0)
        recent = self.recent()
        greatest = max((r.deviation for r in recent if r.waited or r.above > 0), default=0.0)
        most = max(z, ledger.most * max(greatest, ledger.begin))
        left = 1.0 - sum(r.above for r in recent) / allowed
        return min(z - ledger.caution * math.log(left), most) if left > 0 else most

    def recent(self) -> list[SiteReading]:
        """The readings of the parts of the window that have not passed."""
        known = self.known()
        if not known:
            return []
        parts = max(1, round(self.ledger.window_days * PARTS_A_DAY))
        length = self.ledger.window_days * DAY_S / parts
        last = whole(known[-1][0], length)
        return [r for time, r in known if whole(time, length) > last - parts]
