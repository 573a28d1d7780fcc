"""The naive twin of the site meter (rule 15): every figure from the list of all readings, by its definition."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.reference.meter import whole
from wattqueue.kernels import codes
from wattqueue.parts.ledger.adaptive import Adaptive
from wattqueue.policy.capabilities import LEAST_SHARE
from wattqueue.policy.sensors import DAY_S, PARTS_A_DAY

if TYPE_CHECKING:
    from tests.reference.simulator import Simulator

INF = math.inf


@dataclass
class SiteReading:
    """One reading: when, over how long, watts drawn and counted, seconds above the cap, whether the margin held a job
    back meanwhile, deviation, variances of the ledger and of the noise. None counted: nothing was measured."""

    time: float
    span: float
    drawn: float
    counted: float | None
    above: float
    held: bool
    deviation: float
    of_ledger: float = 0.0
    of_noise: float = 0.0


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
    held: list[tuple[float, bool]] = field(default_factory=list)
    """Whether the margin held a job back, from each instant on."""
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
        spans = itertools.pairwise([*self.held, (world.now, False)])
        held = any(kept and self.since <= begin < end for (begin, kept), (end, _) in spans)
        drawn, of_ledger = watts - base / 1e6, self.ledger.own * squares + self.ledger.common * counted**2
        of_noise = (self.ledger.noise * watts) ** 2
        spread = math.sqrt(of_ledger + of_noise / self.fitted**2)
        deviation = (drawn / self.fitted - counted) / spread if spread > 0 and counted > 0 else 0.0
        return SiteReading(world.now, span, drawn, counted, above, held, deviation, of_ledger, of_noise)

    def holds_back(self, world: Simulator) -> bool:
        """Whether the first entry of a partition that fits into units and watts does not fit with margin and share."""
        if world.cap_uw >= codes.NO_CAP:
            return False
        kept = world.margin(world.running)
        left = max(world.cap_uw - world.drawn(), world.available() + kept)
        for p in range(len(world.machine.partitions)):
            for entry in world.queued_entries():
                job = int(world.entries.job[entry])
                if world.entries.partition[entry] != p or world.jobs.nodes[job] > len(world.free_units(p)):
                    continue
                net = min(self.least_net(world, p, job, o) for o in world.all_options(entry))
                if net > left:
                    continue
                more = world.margin(world.running, new=[net]) - kept
                if net + more > world.available():
                    return True
                break
        return False

    def least_net(self, world: Simulator, p: int, job: int, option: int) -> int:
        """What a job counts on the best units of a partition."""
        every = [u for u, q in enumerate(world.unit_partition) if q == p]
        watts = sorted(world.watts_on(world.prediction, job, option, u) for u in every)
        return world.ledger(p, sum(watts[: int(world.jobs.nodes[job])]), job)

    def end_instant(self, world: Simulator) -> None:
        """Note what counts, and whether the margin holds a job back, from this instant on."""
        self.ledgers.append((world.now, [r.net for r in world.running]))
        self.held.append((world.now, self.holds_back(world)))

    def may_fall(self, world: Simulator) -> bool:
        """Whether readings can still let margin, or a share above 1, come down for a job that it holds back."""
        if not self.held or not self.held[-1][1]:
            return False
        falls = self.learned()[0] > 0 and self.ledger.gain * self.ledger.aim > 0
        forgets = not world.running and self.averages()[1] > 0
        return falls or forgets or sum(r.above for r in self.recent()) > 0

    def known(self) -> list[tuple[float, SiteReading]]:
        """The readings that are known by now, each with the time at which it became known."""
        late = self.ledger.late
        return [(self.readings[k + late].time, r) for k, r in enumerate(self.readings[: len(self.readings) - late])]

    def averages(self) -> tuple[float, float, float, float]:
        """Averages that forget: watts drawn and counted, variances of the ledger and of the noise."""
        drawn = counted = of_ledger = of_noise = 0.0
        for _, r in self.known():
            if r.counted == 0:
                drawn = counted = of_ledger = of_noise = 0.0
            elif r.counted is not None:
                weight = 1.0 - math.exp(-r.span / self.ledger.forget_s) if counted > 0 else 1.0
                drawn += weight * (r.drawn - drawn)
                counted += weight * (r.counted - counted)
                of_ledger += weight * (r.of_ledger - of_ledger)
                of_noise += weight * (r.of_noise - of_noise)
        return drawn, counted, of_ledger, of_noise

    def share(self) -> float:
        """Watts drawn for a watt predicted, nearer to 1 where noise is much of the variance."""
        drawn, counted, of_ledger, of_noise = self.averages()
        if counted <= 0:
            return 1.0
        trust = of_ledger / (of_ledger + of_noise) if of_ledger + of_noise > 0 else 1.0
        return max(1.0 + trust * (drawn / counted - 1.0), LEAST_SHARE)

    def learned(self) -> tuple[float, float]:
        """The conformal steps: z, and the greatest deviation of the window."""
        ledger = self.ledger
        allowed = ledger.epsilon * ledger.window_days * DAY_S
        z = ledger.begin
        for _, r in self.known():
            if r.held or r.above > 0:
                missed = r.span if r.deviation > z else 0.0
                z = max(z + ledger.gain * (missed - ledger.aim * ledger.epsilon * r.span) / allowed, 0.0)
        return z, max((r.deviation for r in self.recent() if r.held or r.above > 0), default=0.0)

    def z_in_force(self) -> float:
        """The conformal step, what the spent allowance adds, and its bound."""
        ledger, (z, greatest) = self.ledger, self.learned()
        allowed = ledger.epsilon * ledger.window_days * DAY_S
        most = max(z, ledger.most * max(greatest, ledger.begin))
        left = 1.0 - sum(r.above for r in self.recent()) / allowed
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
