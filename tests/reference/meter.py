"""The naive twin of sensors and of the measured ledger (rule 15): integrals over a list of all that was drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wattqueue.model.power_sensor import PowerSensor
from wattqueue.parts.ledger.measured import Measured

if TYPE_CHECKING:
    from tests.reference.simulator import Running, Simulator

INF = math.inf


def whole(time: float, period: float) -> int:
    """Periods that have ended by a time."""
    return math.floor(time / period + 1e-9)


@dataclass
class Meter:
    """What sensors show, by definition; ``lost`` and ``noise`` answer for (sensor, number of the reading or sample)."""

    sensor: PowerSensor
    ledger: Measured
    counts: bool = True
    lost: Any = None
    noise: Any = None
    kept_above: dict[int, int] | None = None
    since: dict[int, float] = field(default_factory=dict)
    by_unit: bool = True
    """Whether domains count each unit by its own sensor."""
    history: list[tuple[float, list[int]]] = field(default_factory=list)

    def begin(self, world: Simulator) -> None:
        """An idle machine, whose samples say so."""
        self.world = world
        sizes = {"node": world.nodes, "socket": world.devices, "unit": [[u] for u in range(len(world.unit_partition))]}
        self.sensors = sizes[self.sensor.covers]
        self.of_unit = {unit: s for s, units in enumerate(self.sensors) for unit in units}
        self.history.append((-INF, world.drawn_uw()))
        self.samples: list[int | None] = [sum(self.history[0][1][u] for u in units) for units in self.sensors]
        self.share = [self.idle(s) for s in range(len(self.sensors))]
        self.begun = [-INF] * len(self.sensors)
        self.ended = [-INF] * len(self.sensors)
        self.since.update(dict.fromkeys(self.of_unit, -INF))
        self.read_at = INF if self.ledger.read == "submission" else -INF
        self.stale_at = INF
        self.stale_s = self.ledger.stale_s or 3.0 * (self.sensor.sample_s + self.sensor.poll_s)

    def idle(self, s: int) -> int:
        """Idle microwatts of one unit of a sensor."""
        return self.world.idle_uw(self.world.unit_partition[self.sensors[s][0]])

    def running_on(self) -> dict[int, Running]:
        """The job on each unit; the units of a suspended one are idle."""
        return {unit: r for r in self.world.running if r.begun and not r.parked for unit in r.units}

    # -- what a reading shows -----------------------------------------------------------------------

    def energy(self, s: int, low: float, high: float) -> float:
        """The integral of what the units of a sensor drew, in microjoules."""
        total, end = 0.0, INF
        for time, uw in reversed(self.history):  # what was drawn before is of no use
            seconds = min(end, high) - max(time, low)
            if seconds > 0:
                total += sum(uw[u] for u in self.sensors[s]) * seconds
            if time <= low:
                break
            end = time
        return total

    def reading(self, s: int) -> tuple[int, float, float]:
        """The mean of the samples within the averaging time, and the time that it covers."""
        period, poll = self.sensor.sample_s, whole(self.world.now, self.sensor.poll_s) * self.sensor.poll_s
        last = whole(poll, period)
        first = min(whole(poll - self.sensor.average_s, period), last - 1)
        total = 0.0
        for k in range(first, last):
            sample = self.energy(s, k * period, (k + 1) * period)
            total += max(0.0, sample * (1.0 + self.noise(s, k))) if self.noise else sample
        return round(total / ((last - first) * period)), first * period, last * period

    def at_instant(self, *, submitted: bool) -> None:
        """Read the sensors where they are due."""
        now = self.world.now
        if now >= self.read_at or (self.ledger.read == "submission" and submitted):
            for s in range(len(self.sensors)):
                self.read(s)
            self.learn()
            self.stale_at = now + self.stale_s if self.ledger.ages else INF
            if self.ledger.read == "period":
                self.read_at = (whole(now, self.sensor.poll_s) + 1) * self.sensor.poll_s
        elif now >= self.stale_at:
            self.samples = [None] * len(self.sensors)
            self.stale_at = INF
        if self.counts:
            for r in self.world.running:
                self.world.count(r)

    def read(self, s: int) -> None:
        """Take over one reading, unless it is lost."""
        now = self.world.now
        if self.lost and self.lost(s, whole(now, self.sensor.poll_s)):
            if now - self.ended[s] > self.stale_s:
                self.samples[s] = None
            return
        uw, self.begun[s], self.ended[s] = self.reading(s)
        units = self.sensors[s]
        idle = len(units) * self.idle(s)
        self.samples[s] = max(uw, idle) if uw >= idle * (1.0 - self.ledger.idle_tolerance) else None
        if self.ledger.share == "even":
            self.share[s] = -(-max(uw, idle) // len(units))
        else:
            covered = [u for u in units if u in self.running_on() and self.since[u] <= self.begun[s]]
            self.share[s] = self.idle(s) + -(-(max(uw, idle) - idle) // max(1, len(covered)))

    def learn(self) -> None:
        """Take over what the readings of this instant say of each job; nothing here."""

    # -- what the ledger counts ---------------------------------------------------------------------

    def counted_uw(self, r: Running) -> list[int]:
        """Share, prediction or maximum of each unit of a job; one figure for all of them where that is spread."""
        unseen = any(self.since[unit] > self.begun[self.of_unit[unit]] for unit in r.units)
        predicted = self.world.throttled(self.world.prediction, r)[0] if unseen else []
        found = []
        for k, unit in enumerate(r.units):
            s = self.of_unit[unit]
            part = self.world.machine.partitions[self.world.unit_partition[unit]]
            if self.since[unit] > self.begun[s]:
                found.append(predicted[k])
            elif self.samples[s] is None:
                found.append(round((part.max_w or 0.0) * 1e6))
            else:
                found.append(self.share[s])
        return found

    def share_of_square(self, r: Running) -> float:
        """The variance of a job beside that of one that was never measured."""
        return 1.0

    def idle_above(self) -> dict[int, int]:
        """What each idle unit counts above idle: those that a sample of a busy sensor covers."""
        if self.kept_above is not None:
            return self.kept_above
        if not self.counts or self.ledger.share == "busy" or self.world.machine.cap_scope == "jobs":
            return {}
        busy, above = self.running_on(), dict[int, int]()
        for s, units in enumerate(self.sensors):
            if self.samples[s] is None or not set(units) & set(busy):
                continue
            free = [u for u in units if u not in busy and self.since[u] <= self.begun[s]]
            above |= dict.fromkeys(free, self.share[s] - self.idle(s))
        return above
