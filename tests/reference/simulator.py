"""The naive twin of engine and passes: SEMANTICS.md rule by rule, lists and loops, written to be read.

It shares no code with kernels/: no tree, no blocks, no heap, no bitmap, no incremental pass.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.reference.meter import Meter
from tests.reference.recent_runs import RecentRuns
from tests.reference.site_meter import NaiveSiteMeter
from tests.reference.supply import Figures, Load, NaiveSupply, Room
from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import (
    DelayStart,
    DrainNode,
    Requeue,
    Resume,
    SetDeviceLimits,
    SetFrequency,
    StartJob,
    StopNode,
    Suspend,
    WakeNode,
)
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.sim.truth import NodeEvents

INF = math.inf
STEPS_S = [0.0, *(60.0 * m for m in (1, 5, 15, 30)), *(3600.0 * h for h in (1, 2, 5, 10, 20, 50, 100))]


def micro(watts: float) -> int:
    return round(watts * 1e6) if math.isfinite(watts) else 0


def groups(sizes: list[tuple[int, int]]) -> list[list[int]]:
    """Units in their order, cut into groups; a row of ``sizes`` is (units of a partition, units of a group)."""
    cuts = [size for units, size in sizes for _ in range(units // size)]
    ends = list(itertools.accumulate(cuts))
    return [list(range(end - size, end)) for end, size in zip(ends, cuts, strict=True)]


def mean_factor(row: Any, units: Sequence[int]) -> float:
    """What the watts of a job are over those on units of factor 1."""
    return sum(float(row[unit]) for unit in units) / len(units) if units else 1.0


@dataclass
class Running:
    job: int
    option: int
    units: list[int]
    start: float
    since: float
    end: float
    expected: float
    uw: int
    factor: float
    predicted_factor: float
    net: int
    begun: bool = False
    parked: bool = False
    left: float = 0.0
    expected_left: float = 0.0
    readings: list[tuple[float, float, int, int]] = field(default_factory=list)
    """Of sensors, for an in-flight ledger: end, seconds, microwatts drawn, microwatts predicted."""
    figures: list[int] = field(default_factory=list)
    """Net microwatts that domains count for each unit, where these are measured; empty: the same for all."""


@dataclass
class Reservation:
    job: int
    time: float
    nodes: float
    watts: float
    beside: Sequence[Running] = ()
    """Running jobs that have not ended at that time."""
    unit_uw: int = 0
    """Net microwatts of a unit of the reserved job."""
    free: set[int] = field(default_factory=set)
    """Units that are free at that time, and in ``load`` what runs then (``NaiveSupply``)."""
    load: list[tuple[Sequence[int], Figures, float]] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    """Net microwatts of the reserved job, and of jobs started since that have not ended then."""


@dataclass
class Simulator:
    """Runs one workload to its end; the results are in ``start``, ``end``, ``state``, ``units``, ``steps``."""

    jobs: Jobs
    machine: Machine
    prediction: Prediction
    actual: Prediction
    entries: Entries
    window: tuple[Any, Any, Any]
    """First option of each entry, last one in load targets as far as users consent, and last one outside of them."""
    code: int
    cap: Cap
    reject: Any
    depth: int = 0
    interval: float = 0.0
    events: NodeEvents = field(default_factory=NodeEvents.none)
    script: Callable[[int], Sequence[Any]] | None = None
    period: float = 0.0
    chance: tuple[float, float, float] | None = None
    unit_rank: Any = None
    keeps_base: bool = False
    """Whether jobs without factors of units count what is predicted, not the maximum of a unit."""
    at_completion: bool = False
    phases_s: float | None = None
    targets: Sequence[tuple[float, float, float]] = ()
    """Notice, begin and end of load targets."""
    by_target: bool = False
    """Whether a job starts at the last option to which its user consents while one is in force."""
    ahead: Sequence[tuple[float, float, float, bool]] = ()
    """Notice, begin and watts of load targets, where the pass looks ahead to the next one, and True."""
    ahead_all: bool = False
    """Whether it looks at all announced limits instead."""
    known: Callable[[float], Cap] | None = None
    """The limit that is announced at a time."""
    known_at: tuple[float, Cap] = (math.nan, Cap.none())
    ahead_slowed: bool = True
    ramps: Sequence[tuple[float, float, float]] | None = None
    """Begin, end and watts a second of load targets, where the ledger rises at that rate after one."""
    full_cap: Cap | None = None
    """The cap without load targets, where there are targets."""
    planned: list[float] = field(default_factory=list)
    correction: int = codes.PLAN_IS_LIMIT
    recent: RecentRuns | None = None
    wakes: frozenset[str] = frozenset()
    slower_under_limits: Callable[[int, int, float], float | None] | None = None
    """True run time of a job at an option over that at full speed, by its speed; None: by the exponents."""
    meter: Meter | None = None
    site: NaiveSiteMeter | None = None
    supply: NaiveSupply | None = None

    def __post_init__(self) -> None:
        n = len(self.jobs)
        self.start = [math.nan] * n
        self.end = [math.nan] * n
        self.state = [codes.NOT_STARTED] * n
        self.taught: dict[int, tuple[list[int], int, float]] = {}
        """Units of each job that ended, its option then, and the lowest limit on them in microwatts."""
        self.never: dict[int, int] = {}
        """Why a job can start under no limit to come."""
        self.margin_uw: dict[int, int] = {}
        """The least margin of a job that cannot start under the ledger."""
        self.energy = [0.0] * n
        self.units: list[list[int]] = [[] for _ in range(n)]
        self.option = [-1] * n
        self.queue: list[int] = []
        self.place: dict[int, int] = {}
        self.profile_mean_w: list[float] = []
        if self.jobs.profiles is not None:
            done_s = np.minimum(self.jobs.runtime_s, self.jobs.walltime_s)
            self.profile_mean_w = self.jobs.profiles.mean_power_w(done_s).tolist()
        self.running: list[Running] = []
        self.unit_partition = [p for p, part in enumerate(self.machine.partitions) for _ in range(part.units)]
        self.unit_state = [codes.UNIT_ON] * len(self.unit_partition)
        self.base_of: dict[tuple[int, int], int] = {}
        parts = self.machine.partitions
        self.nodes = groups([(part.units, part.units // part.nodes) for part in parts])
        self.devices = groups([(part.units, part.cores_per_socket if part.unit == "core" else 1) for part in parts])
        self.device_limit = [INF] * len(self.devices)
        self.settled: Any = None  # limits, running jobs and phases for which ``speeds`` holds
        self.speeds: dict[Any, tuple[list[int], float]] = {}
        self.held = False
        """Whether a control lets nothing start beside running jobs."""
        self.before_target: dict[int, float] = {}
        """Limits of devices that were lowered for a load target: those that held before."""
        if self.meter is not None:
            self.meter.begin(self)
        self.timers: list[tuple[float, int]] = []
        self.delayed: dict[int, float] = {}
        self.steps: list[tuple[float, int, int, int, int]] = []
        self.cap_uw = self._cap_row(0)
        self.last_pass = -INF
        self.now = -INF
        self.rise: tuple[float, float, float] | None = None  # when the ledger rose last after a target, to what, rate
        self.kept = [0.0] * n
        self.limit = [float(w) for w in self.jobs.walltime_s]
        self.planned = list(self.planned) or list(self.limit)
        self.overruns = [0] * n
        self.promise = [INF] * n
        self.promises: dict[int, Reservation] = {}
        order = sorted(
            range(len(self.entries.job)),
            key=lambda e: (
                -self.entries.priority[e],
                self.jobs.submit_s[self.entries.job[e]],
                self.entries.job[e],
                self.entries.partition[e],
            ),
        )
        self.rank = {e: r for r, e in enumerate(order)}

    # -- what things cost ---------------------------------------------------------------------------

    def _cap_row(self, row: int) -> int:
        value = float(self.cap.cap_w[row])
        return round(value * 1e6) if value * 1e6 < codes.NO_CAP else codes.NO_CAP

    def _row(self, table: Prediction, values: Any, job: int) -> Any:
        if len(values) == 1:
            return values[0]
        return values[job if table.row is None else table.row[job]]

    def has_factors(self, table: Prediction, job: int) -> bool:
        app = int(self.jobs.app.codes[job])
        return table.unit_factor is not None and app >= 0 and not np.isnan(table.unit_factor[app, 0])

    def sample_uw(self, job: int, option: int) -> int:
        """What one unit of a job draws in the period of its profile that it has reached."""
        profiles, part = self.jobs.profiles, self.machine.partitions[int(self.machine.option_partition[option])]
        assert profiles is not None
        middle = np.array([(self.place[job] + 0.5) * profiles.period_s])
        watt = float(profiles.power_at(np.array([job]), middle)[0]) * 1e6
        mean = micro(self.profile_mean_w[job])
        here, idle = micro(float(self._row(self.actual, self.actual.power_w, job)[option])), micro(part.idle_w)
        if here != mean and mean > idle and here >= idle:
            watt = idle + (watt - idle) * ((here - idle) / (mean - idle))
        elif here != mean and mean > 0:
            watt = watt * (here / mean)
        return max(0, math.floor(watt + 0.5))

    def tick(self) -> None:
        """Every running job draws what its profile says of the work that it has done."""
        for r in self.running:
            if r.begun and not r.parked and r.job in self.place:
                done = self.kept[r.job] + max(0.0, self.work(r.job) - (r.end - self.now) / r.factor)
                assert self.jobs.profiles is not None
                self.place[r.job] = math.floor((done + 1e-6) / self.jobs.profiles.period_s)
        self.apply_speeds()

    def unit_uw(self, table: Prediction, job: int, option: int) -> int:
        if table is self.actual and job in self.place:
            return self.sample_uw(job, option)
        worst = table is self.prediction and table.unit_factor is not None and not self.keeps_base
        if worst and not self.has_factors(table, job):
            part = self.machine.partitions[int(self.machine.option_partition[option])]
            assert part.max_w is not None  # the machine's worst case stands for what is not known
            return micro(part.idle_w + (part.max_w - part.idle_w) * float(self.machine.option_dynamic_factor[option]))
        return micro(float(self._row(table, table.power_w, job)[option]))

    def watts_on(self, table: Prediction, job: int, option: int, unit: int) -> int:
        """Microwatts of one very unit, rounded (rule 12)."""
        uw = self.unit_uw(table, job, option)
        if table.unit_factor is None or not self.has_factors(table, job):
            return uw
        return round(uw * float(table.unit_factor[int(self.jobs.app.codes[job]), unit]))

    def watts_of(self, table: Prediction, r: Running) -> list[int]:
        """Microwatts of each unit of a running job."""
        if table.unit_factor is None:
            return [self.unit_uw(table, r.job, r.option)] * len(r.units)
        return [self.watts_on(table, r.job, r.option, u) for u in r.units]

    def factor(self, table: Prediction, job: int, option: int) -> float:
        return float(self._row(table, table.time_factor, job)[option])

    def idle_uw(self, p: int) -> int:
        return micro(self.machine.partitions[p].idle_w)

    def net(self, job: int, option: int) -> int:
        """What a start now would add to the ledger, on the very units that it would get."""
        p = int(self.machine.option_partition[option])
        return self.ledger(p, sum(self.watts_on(self.prediction, job, option, u) for u in self.chosen(p, job)), job)

    def promised_net(self, job: int, option: int) -> int:
        """What a reservation or a plan counts: the worst units of the partition, free or not (rule 12)."""
        p = int(self.machine.option_partition[option])
        all_units = [u for u, q in enumerate(self.unit_partition) if q == p]
        watts = sorted(self.watts_on(self.prediction, job, option, u) for u in all_units)
        return self.ledger(p, sum(watts[-int(self.jobs.nodes[job]) :]), job)

    def chosen(self, p: int, job: int) -> list[int]:
        """The free units that a start would take: by (rank for the job's application, number)."""
        return sorted(self.by_rank(p, job)[: int(self.jobs.nodes[job])])

    def by_rank(self, p: int, job: int) -> list[int]:
        """The free units in the order of placement."""
        app = int(self.jobs.app.codes[job])

        def place(unit: int) -> tuple[float, int]:
            if self.unit_rank is None:
                return 0.0, unit
            return float(self.unit_rank[app, unit] if app >= 0 else self.unit_rank[:, unit].mean()), unit

        return sorted(self.free_units(p), key=place)

    def ledger(self, p: int, uw: int, job: int) -> int:
        """What the ledger counts for a job of ``uw`` microwatts: never less than its units draw idle (rule 14)."""
        idle = int(self.jobs.nodes[job]) * self.idle_uw(p)
        return uw if self.machine.cap_scope == "jobs" else max(uw, idle) - idle

    def wall(self, job: int, option: int) -> float:
        return max(self.planned[job] * self.factor(self.prediction, job, option), 1e-6)

    def node_units(self, unit: int) -> list[int]:
        """The units of the node in which ``unit`` stands: power is switched by the node."""
        return next(units for units in self.nodes if unit in units)

    def node_base_uw(self, units: list[int], state: int) -> int:
        """What the base counts: a node on its way for the greater of its watts now and afterwards."""
        key = (units[0], state)  # kept, since every pass asks it of every node
        if key not in self.base_of:
            later = {codes.UNIT_BOOTING: codes.UNIT_ON, codes.UNIT_STOPPING: codes.UNIT_OFF}.get(state, state)
            self.base_of[key] = max(self.node_state_uw(units, state), self.node_state_uw(units, later))
        return self.base_of[key]

    def base_fits(self, units: list[int], state: int) -> bool:
        """Whether the node of ``units`` may go into ``state``: what lowers the base always may."""
        before = self.unit_state[units[0]]
        if self.machine.cap_scope != "machine":
            return True
        lower = self.node_base_uw(units, state) <= self.node_base_uw(units, before)
        load = self.load(self.running)
        domains = self.supply.room(self.now, self.standing(), load) if self.supply is not None else {}
        self.set_node(units, state)
        room = self.available()
        after = self.supply.room(self.now, self.standing(), load) if self.supply is not None else {}
        self.set_node(units, before)
        return (lower or room >= 0) and self.domains_fit(domains, after)

    def set_node(self, units: list[int], state: int) -> None:
        for unit in units:
            self.unit_state[unit] = state

    def node_state_uw(self, units: list[int], state: int) -> int:
        """Watts of a node without a job: the idle watts of each unit, else the node's figure once."""
        part = self.machine.partitions[self.unit_partition[units[0]]]
        if state in (codes.UNIT_ON, codes.UNIT_DRAINING):
            return len(units) * micro(part.idle_w)
        watts = {
            codes.UNIT_STOPPING: part.shutdown_w,
            codes.UNIT_OFF: part.off_w,
            codes.UNIT_BOOTING: part.boot_w,
            codes.UNIT_DOWN: 0.0,
        }
        return micro(watts[state])

    def drawn(self) -> int:
        """What the ledger counts in the scope of the cap."""
        drawn = sum(r.net for r in self.running)
        if self.meter is not None:
            drawn += sum(self.meter.idle_above().values())
        if self.machine.cap_scope == "machine":
            drawn += sum(self.node_base_uw(units, self.unit_state[units[0]]) for units in self.nodes)
        return drawn

    def available(self) -> int:
        if self.limit_uw() >= codes.NO_CAP:
            return 1 << 62
        return self.room(self.limit_uw())

    def limit_uw(self) -> int:
        """The limit in force: the lower of cap and target, and of a rise after one."""
        if self.rise is None:
            return self.cap_uw
        since, level, rate = self.rise
        return min(self.cap_uw, round(level) + math.floor(rate * 1e6 * (self.now - since)))

    def room(self, limit: int) -> int:
        drawn = self.drawn()
        if self.chance is not None:
            base = drawn - sum(r.net for r in self.running)
            limit = math.floor((limit - base) / self.chance[0]) + base
            drawn += self.margin(self.running)
        return limit - drawn

    def margin(
        self,
        running: Sequence[Running],
        nets: Sequence[int] | None = None,
        new: Sequence[int] = (),
        *,
        always: bool = False,
    ) -> int:
        """What a chance ledger keeps free beside these jobs, or were they of other net watts, and beside new ones."""
        if self.chance is None or (self.limit_uw() >= codes.NO_CAP and not always):
            return 0
        _, own, common = self.chance
        nets = [r.net for r in running] if nets is None else nets
        shares = [1.0 if self.meter is None else self.meter.share_of_square(r) for r in running]
        squares = sum(round(share * round((net / 1e6) ** 2)) for share, net in zip(shares, nets, strict=True))
        squares += sum(round((net / 1e6) ** 2) for net in new)
        return math.ceil(math.sqrt(own * squares + common * ((sum(nets) + sum(new)) / 1e6) ** 2) * 1e6)

    def free_units(self, p: int) -> list[int]:
        busy = {u for r in self.running for u in r.units}
        return [
            u
            for u, q in enumerate(self.unit_partition)
            if q == p and self.unit_state[u] == codes.UNIT_ON and u not in busy
        ]

    # -- passes (rules 7-10) ------------------------------------------------------------------------

    def queued_entries(self) -> list[int]:
        waiting = set(self.queue)
        eligible = (
            e for e in self.rank if self.entries.job[e] in waiting and not self.is_delayed(int(self.entries.job[e]))
        )
        return sorted(eligible, key=self.rank.__getitem__)

    def is_delayed(self, job: int) -> bool:
        """Whether a control has delayed its start beyond now."""
        return self.delayed.get(job, -INF) > self.now

    def delay(self, name: str, until: float) -> None:
        """Delay the start of a job that waits, where its user consents and it can still end in time."""
        job = int(name) - 1
        firsts = [int(self.window[0][e]) for e in self.rank if self.entries.job[e] == job]
        if not (job in self.queue and firsts and self.consents(job)) or self.latest(job) == INF:
            return
        if until <= self.latest(job) - self.limit[job] * max(self.factor(self.prediction, job, o) for o in firsts):
            self.delayed[job] = until

    def launch(self, entry: int, option: int, until: float | None = None) -> None:
        """Start an entry; ``until``: announced limits of domains hold up to then, by default its expected end."""
        job = int(self.entries.job[entry])
        until = self.now + self.wall(job, option) if until is None else until
        p = int(self.entries.partition[entry])
        net = self.net(job, option)
        units = self.chosen(p, job) if self.supply is None else self.under_supply(p, job, net, until)
        if units is None:  # by rule 19
            units = self.under_supply(p, job, net, until, bare=True)
        assert units is not None
        predicted = self.factor(self.prediction, job, option)
        if self.correction == codes.LIMIT_AT_START:
            self.planned[job] = self.limit[job]
        r = Running(
            job, option, units, self.now, self.now, INF, self.now + self.wall(job, option), 0, 1.0, predicted, 0
        )
        r.net = self.net(job, option)  # before the job is among the running ones: its units are still free
        self.queue.remove(job)
        self.running.append(r)
        if self.phases_s is not None and self.jobs.profiles is not None and self.jobs.profiles.pattern[job] >= 0:
            self.place[job] = math.floor((self.kept[job] + 1e-6) / self.jobs.profiles.period_s)
        self.start[job], self.units[job], self.option[job] = self.now, units, option
        self.state[job] = codes.RUNNING_NOW

    def set_end(self, r: Running) -> None:
        work = self.work(r.job)
        r.end = self.now + work
        if r.factor != 1.0:
            r.end = max(self.now, round((self.now + work * r.factor) * 1e6) / 1e6)

    def fits(self, entry: int, option: int, *, ahead: bool = True) -> bool:
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        if self.jobs.nodes[job] > len(self.free_units(p)):
            return False
        net, available = self.net(job, option), self.available()
        until = self.now + self.wall(job, option) if ahead else -INF
        if self.supply is not None and self.under_supply(p, job, net, until) is None:
            return False
        more = self.margin(self.running, new=[net]) - self.margin(self.running)
        return net <= available and net + more <= available

    def unit_net(self, job: int, net: int) -> int:
        return math.ceil(net / int(self.jobs.nodes[job]))

    def standing(self) -> list[tuple[Sequence[int], int, float]]:
        """What nodes draw without the jobs on them: idle units each, nodes in another state once."""
        found = list[tuple[Sequence[int], int, float]]()
        if self.supply is not None and self.meter is not None and self.meter.by_unit:
            self.supply.idle_above = self.meter.idle_above()
        for units in self.nodes:
            if self.unit_state[units[0]] in (codes.UNIT_ON, codes.UNIT_DRAINING):
                found.append((units, self.idle_uw(self.unit_partition[units[0]]), 1.0))
            else:
                found.append((units[:1], self.node_base_uw(units, self.unit_state[units[0]]), 1.0))
        return found

    def domains_fit(self, before: dict[str, Room], after: dict[str, Room]) -> bool:
        """Whether no domain leaves less than before, and less than nothing."""
        return not any(after[name].left(self.chance) < min(before[name].left(self.chance), 0) for name in after)

    def load(
        self, running: Sequence[Running], nets: Sequence[int] | None = None, figures: Sequence[list[int]] | None = None
    ) -> Load:
        """What jobs count in domains, at their net microwatts and the figures of their units, or at others."""
        nets = [r.net for r in running] if nets is None else nets
        figures = [r.figures for r in running] if figures is None else figures
        shares = [1.0 if self.meter is None else self.meter.share_of_square(r) for r in running]
        rows = zip(running, nets, figures, shares, strict=True)
        return [(r.units, own or self.unit_net(r.job, net), share) for r, net, own, share in rows]

    def under_supply(self, p: int, job: int, net: int, until: float, *, bare: bool = False) -> list[int] | None:
        """The units that a start would get under all domains; None where it does not fit. ``bare``: no margins.

        ``until``: its expected end, up to which announced limits of domains hold.
        """
        assert self.supply is not None
        room = self.supply.room(self.now, self.standing(), self.load(self.running))
        self.supply.later = self.later_rooms(until)
        anywhere = [unit for q in range(len(self.machine.partitions)) for unit in self.free_units(q)]
        free = self.by_rank(p, job)
        return self.supply.place(
            free, anywhere, int(self.jobs.nodes[job]), self.unit_net(job, net), room, None if bare else self.chance
        )

    def later_rooms(self, until: float) -> list[dict[str, Room]]:
        """What a domain has when each of its announced limits begins, before ``until``."""
        assert self.supply is not None
        found = []
        for t, name in self.supply.falls(self.now, until) if self.ahead_all else ():
            runs = [r for r in self.running if r.expected > t]
            found.append({name: self.supply.room(t, self.standing(), self.load(runs))[name]})
        return found

    def domains_hold_back(self, entry: int, option: int) -> bool:
        """Whether announced limits of domains alone forbid a start, on whatever units."""
        if self.supply is None:
            return False
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        units = [u for u, q in enumerate(self.unit_partition) if q == p]
        self.supply.later = self.later_rooms(self.now + self.wall(job, option))
        each = self.unit_net(job, self.promised_net(job, option))
        return self.supply.choose(units, int(self.jobs.nodes[job]), each, {}, self.chance) is None

    def reserved_fits(self, p: int, r: Reservation) -> bool:
        """Whether a reserved job fits into what is expected at its shadow time."""
        if self.supply is None:
            return True
        free = sorted(u for u in r.free if self.unit_partition[u] == p)
        room = self.supply.room(self.now, self.standing(), r.load)
        self.supply.later = []
        return self.supply.choose(free, int(self.jobs.nodes[r.job]), r.unit_uw, room, self.chance) is not None

    def keeps_supply(self, q: int, r: Reservation, p: int, job: int, net: int, until: float) -> bool:
        """Whether a reserved job still fits then if another one, which would outlive that time, starts now."""
        if self.supply is None:
            return True
        units = self.under_supply(p, job, net, until)
        assert units is not None
        load = [*r.load, (units, self.unit_net(job, net), 1.0)]
        return self.reserved_fits(q, replace(r, free=r.free - set(units), load=load))

    def all_options(self, entry: int) -> range:
        """The window, and behind it what is for targets alone, as far as the user consents (rule 20)."""
        return range(int(self.window[0][entry]), max(self.plain(entry), self.reach(entry)) + 1)

    def plain(self, entry: int) -> int:
        """The last option of the window outside of load targets."""
        return int(self.window[2][entry])

    def options(self, entry: int) -> range:
        """The options at which an entry may start now (rules 13 and 20)."""
        first, last, consented = int(self.window[0][entry]), self.plain(entry), self.consented(entry)
        if self.by_target and self.in_target(self.now) and consented > last:
            return range(consented, consented + 1)
        if not self.looks_at_target():
            return range(first, last + 1)
        if self.by_target:
            consented = min(consented, last)  # the rest is for the time in which a target is in force
        alone = next((o for o in range(first, last + 1) if self.fits_cap_alone(entry, o)), last)
        return range(first, max(alone, consented) + 1)

    def in_target(self, time: float) -> bool:
        """Whether a load target is in force at a time."""
        return any(begin <= time < end for _, begin, end in self.targets)

    # -- consent (rule 20) ----------------------------------------------------------------------------

    def alone_uw(self) -> int:
        """The cap without load targets."""
        if self.full_cap is None:
            return self.cap_uw
        watts = self.full_cap.in_force_w(self.now)
        return micro(watts) if watts * 1e6 < codes.NO_CAP else codes.NO_CAP

    def looks_at_target(self) -> bool:
        """Whether a target limits now, or the pass looks ahead to one."""
        return self.limit_uw() < self.alone_uw() or self.next_target() < INF

    def fits_cap_alone(self, entry: int, option: int, *, idle: bool = False) -> bool:
        """Whether an entry fits the cap alone, beside what runs or on an idle machine."""
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        enough = self.jobs.nodes[job] <= len(self.free_units(p)) and not idle
        net = self.net(job, option) if enough else self.promised_net(job, option)
        if self.alone_uw() >= codes.NO_CAP:
            return True
        room = self.room(self.alone_uw())
        if idle:
            return net <= room + sum(r.net for r in self.running)
        more = self.margin(self.running, new=[net]) - self.margin(self.running)
        return net <= room and net + more <= room

    def consents(self, job: int) -> bool:
        return self.jobs.consent is not None and float(self.jobs.consent.allowed[job]) == 1

    def most(self, job: int) -> float:
        """The greatest multiple of the run time at full speed to which a user consents."""
        if self.jobs.consent is None or not self.consents(job):
            return 1.0
        most = float(self.jobs.consent.greatest_slowdown[job])
        return INF if math.isnan(most) else most

    def latest(self, job: int) -> float:
        at = math.nan if self.jobs.consent is None else float(self.jobs.consent.latest_end_s[job])
        return INF if math.isnan(at) else at

    def checkpoint(self, job: int) -> float:
        return math.nan if self.jobs.consent is None else float(self.jobs.consent.checkpoint_s[job])

    def full_factor(self, job: int, p: int) -> float:
        return self.factor(self.prediction, job, int(self.machine.option_start[p]))

    def reach(self, entry: int) -> int:
        """The last option to which the consent reaches by the flag and the greatest slow-down; the first without."""
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        first, last = int(self.window[0][entry]), int(self.window[1][entry])
        most = self.most(job) * self.full_factor(job, p) * (1 + 1e-9)
        found = first
        while self.consents(job) and found < last and self.factor(self.prediction, job, found + 1) <= most:
            found += 1
        return found

    def consented(self, entry: int) -> int:
        """The same, where the job is expected to meet its latest end if it starts now."""
        found, job = self.reach(entry), int(self.entries.job[entry])
        while found > self.window[0][entry] and self.now + self.wall(job, found) > self.latest(job):
            found -= 1
        return found

    def promised(self, entry: int) -> int:
        """The option that a reservation or a plan counts."""
        first, last = int(self.window[0][entry]), self.plain(entry)
        if self.by_target:
            return max(last, self.reach(entry))
        if not self.looks_at_target():
            return last
        reach = self.consented(entry)
        if reach >= last:
            return reach
        fitting = (o for o in range(first, last) if o >= reach and self.fits_cap_alone(entry, o, idle=True))
        return next(fitting, last)

    def serves_target(self) -> bool:
        """Whether an action that slows a job now is for a target: one is known, and the cap alone is kept."""
        known = any(notice <= self.now < end for notice, _, end in self.targets)
        if not known and self.limit_uw() >= self.alone_uw():
            return False
        return self.alone_uw() >= codes.NO_CAP or self.room(self.alone_uw()) >= 0

    def agrees(self, r: Running, factor: float) -> bool:
        """Whether a user agrees that a running job goes on at a relative run time."""
        full = self.full_factor(r.job, int(self.machine.option_partition[r.option]))
        left = (r.expected - self.now) / r.predicted_factor
        in_time = self.now + left * factor <= self.latest(r.job)
        return self.consents(r.job) and factor <= full * self.most(r.job) * (1 + 1e-9) and in_time

    def may_park(self, r: Running) -> bool:
        """Whether a user agrees that a running job waits for the end of the target."""
        ends = [end for notice, _, end in self.targets if notice <= self.now < end]
        pause = max(0.0, min(ends, default=self.now) - self.now)
        every, lost = self.checkpoint(r.job), 0.0
        if not math.isnan(every):
            left = max(0.0, r.expected - self.now) / r.predicted_factor
            done = max(0.0, self.planned[r.job] - left)
            lost = max(0.0, done - math.floor(done / every + 1e-9) * every) * r.predicted_factor
        end = r.expected + lost + pause
        full = self.full_factor(r.job, int(self.machine.option_partition[r.option]))
        longest = self.most(r.job) * float(self.jobs.walltime_s[r.job]) * full
        return self.consents(r.job) and end <= self.latest(r.job) and end - self.start[r.job] <= longest * (1 + 1e-12)

    def refuses(self, action: Any, by_job: dict[str, Running]) -> bool:
        """Whether an action lacks the consent of a user."""
        r = by_job.get(getattr(action, "job", ""))
        if (
            isinstance(action, Requeue)
            and action.checkpointed_s > 0
            and (r is None or math.isnan(self.checkpoint(r.job)))
        ):
            return True
        if not self.serves_target():
            return False
        if isinstance(action, SetDeviceLimits):
            return self.limits_refused(action)
        if r is None:
            return False
        if isinstance(action, SetFrequency):
            before, after = (self.factor(self.prediction, r.job, option) for option in (r.option, action.option))
            return after > before * (1 + 1e-9) and not self.agrees(r, after)
        if isinstance(action, Requeue) and math.isnan(self.checkpoint(r.job)):
            return True
        return isinstance(action, (Suspend, Requeue)) and not self.may_park(r)

    def limits_refused(self, action: SetDeviceLimits) -> bool:
        """Whether limits slow a job that does not agree; before a target, only if they lower the sum of watts."""
        running, before, after = self.under_limits(action)
        slower = [(r, b[1]) for r, a, b in zip(running, before, after, strict=True) if b[1] > a[1] * (1 + 1e-9)]
        return any(not self.agrees(r, factor) for r, factor in slower) and not self.moves_watts(action)

    def moves_watts(self, action: SetDeviceLimits) -> bool:
        """Whether no target limits yet, and limits do not lower the sum of watts."""
        _, before, after = self.under_limits(action)
        in_force = any(begin <= self.now < end for _, begin, end in self.targets)
        less = sum(uw for uw, _ in after) < sum(uw for uw, _ in before) - 1000
        return not in_force and self.limit_uw() >= self.alone_uw() and not less

    def under_limits(self, action: SetDeviceLimits) -> tuple[list[Running], list[Any], list[Any]]:
        """Running jobs, and their expected watts and time factors before and after limits."""
        running = [r for r in self.running if r.begun and not r.parked]
        before, caps = [self.throttle(self.prediction, r) for r in running], list(self.device_limit)
        for device, cap_w in zip(action.devices, action.caps_w, strict=True):
            self.device_limit[device] = cap_w * 1e6
        after, self.device_limit = [self.throttle(self.prediction, r) for r in running], caps
        return running, before, after

    def remember_limits(self, before: list[float], *, for_target: bool) -> None:
        """Remember what held before a limit was lowered for a target, until that holds again or the cap asks for it."""
        for device, (old, new) in enumerate(zip(before, self.device_limit, strict=True)):
            if new < old and for_target:
                self.before_target.setdefault(device, old)
            elif new < old or (new > old and new >= self.before_target.get(device, INF)):
                self.before_target.pop(device, None)

    def lift_limits(self) -> None:
        """After starts: limits of a target that slow a job beyond its consent go back, if the cap alone has room."""
        caps = SetDeviceLimits(list(self.before_target), [uw / 1e6 for uw in self.before_target.values()])
        running, now, without = self.under_limits(caps)
        held = [
            r
            for r, a, b in zip(running, now, without, strict=True)
            if a[1] > b[1] * (1 + 1e-9) and not self.agrees(r, a[1])
        ]
        on = {unit for r in held for unit in r.units}
        lifted = {d: uw for d, uw in self.before_target.items() if on & set(self.devices[d])}
        if not lifted:
            return
        before, limit = list(self.device_limit), (self.cap_uw, self.rise)
        for device, uw in lifted.items():
            self.device_limit[device] = uw
        self.cap_uw, self.rise = max(self.cap_uw, self.alone_uw()), None
        fits = self.change_fits()
        self.cap_uw, self.rise = limit
        if not fits:
            self.device_limit = before
            return
        self.apply_speeds()
        self.remember_limits(before, for_target=False)

    def ahead_net(self, entry: int, option: int, *, slowed: bool, best: bool) -> int:
        """What an entry counts when a limit begins that it reaches into, if it starts now."""
        job = int(self.entries.job[entry])
        option = max(option, self.reach(entry)) if slowed else option
        return self.least_net(job, option) if best else self.net(job, option)

    def next_target(self) -> float:
        """Begin of the next load target that the pass looks ahead to."""
        return min((begin for notice, begin, *_ in self.ahead if notice <= self.now < begin), default=INF)

    def announced(self) -> list[tuple[float, float, bool]]:
        """Begin and watts of what the pass looks ahead to now, and whether it is a load target."""
        if self.ahead_all:
            return self.falls()
        known = sorted(limit[1:] for limit in self.ahead if limit[0] <= self.now < limit[1])
        return known[:1]

    def falls(self) -> list[tuple[float, float, bool]]:
        """When the limit that is announced now will be lower than before, to what, and whether for a target."""
        known = self.known_now()
        alone = known.alone.cap_w.tolist()
        rows = [*zip(known.time_s.tolist(), known.cap_w.tolist(), alone, strict=True)]
        pairs = itertools.pairwise(rows)
        return [
            (time, watts, watts < full)
            for (_, before, _), (time, watts, full) in pairs
            if time > self.now and watts < before
        ]

    def known_now(self) -> Cap:
        """The limit that is announced now; the same object at one time, since a ramp has many steps."""
        assert self.known is not None
        if self.known_at[0] != self.now:
            self.known_at = self.now, self.known(self.now)
        return self.known_at[1]

    def fits_ahead(self, entry: int, option: int, *, best: bool = False) -> bool:
        """Whether an entry that starts now fits below each announced limit beside what runs then, or has ended."""
        end = self.now + self.wall(int(self.entries.job[entry]), option)
        return all(end <= limit[0] or self.fits_then(entry, option, *limit, best=best) for limit in self.announced())

    def fits_then(self, entry: int, option: int, begin: float, watts: float, of_target: bool, *, best: bool) -> bool:
        """Whether an entry fits below a limit beside what runs when it begins, with the margin for what runs then."""
        slowed = of_target and self.ahead_slowed
        needed = self.ahead_net(entry, option, slowed=slowed, best=best)
        if needed == 0 or watts * 1e6 >= codes.NO_CAP:
            return True
        left = round(watts * 1e6) - (self.drawn() - sum(r.net for r in self.running))
        there = [r for r in self.running if r.expected > begin]
        nets = [min(r.net, self.slowed_net(r)) if slowed else r.net for r in there]
        if self.chance is not None:
            left = math.floor(left / self.chance[0]) - self.margin(there, nets, [needed], always=True)
        return needed + sum(nets) <= left

    def held_back(self, entry: int) -> bool:
        """Whether announced limits keep an entry from starting at any option, on the best units: no reservation."""
        options = self.options(entry) if self.prediction.unit_factor is None else self.all_options(entry)
        return not any(
            self.fits_ahead(entry, option, best=True) and not self.domains_hold_back(entry, option)
            for option in options
        )

    def slowed_net(self, r: Running) -> int:
        p = int(self.machine.option_partition[r.option])
        entry = next(e for e in self.rank if (self.entries.job[e], self.entries.partition[e]) == (r.job, p))
        option = max(r.option, self.reach(entry))
        return self.ledger(p, sum(self.watts_on(self.prediction, r.job, option, u) for u in r.units), r.job)

    def schedule(self) -> None:
        self.last_pass = self.now
        if self.holds_starts():
            return
        if self.code == codes.CONSERVATIVE:
            self.conservative()
        elif self.code == codes.SHORTEST:
            self.shortest()
        else:
            self.greedy()
        self.progress()

    def holds_starts(self) -> bool:
        """Whether nothing starts now: a control asks for it, and a job runs."""
        return self.held and bool(self.running)

    def progress(self) -> None:
        """Where nothing runs, the first entry starts whose units, all at their stated maximum, fit below each limit."""
        if self.running:
            return
        heads_only = self.code in (codes.NO_BACKFILL, codes.LAST_END)
        queue = self.queued_entries()
        if heads_only:
            heads = {int(self.entries.partition[e]): e for e in reversed(queue)}
            queue = [e for e in queue if e in heads.values()]
        for entry in queue[: self.depth or len(queue)]:
            for option in self.options(entry):
                if self.fits_alone(entry, option) and self.fits_target_alone(entry, option):
                    self.launch(entry, option)
                    return

    def limit_alone(self) -> float:
        """The limit in force, which is not that of the ledger: no margin, and no share of a chance ledger."""
        return self.limit_uw() if self.limit_uw() < codes.NO_CAP else INF

    def idle_base(self) -> int:
        """Idle watts that the cap covers, by what the machine file states."""
        if self.machine.cap_scope != "machine":
            return 0
        return sum(self.node_base_uw(units, self.unit_state[units[0]]) for units in self.nodes)

    def most_net(self, entry: int, option: int) -> int:
        """What an entry adds with all its units at their stated maximum."""
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        return self.maximum(job, p, self.net(job, option))

    def maximum(self, job: int, p: int, predicted: int) -> int:
        """The stated maximum of a job's units; the prediction where none is stated, or where units differ and it is
        the greater one."""
        stated = self.machine.partitions[p].max_w
        if stated is None:
            return predicted
        most = self.ledger(p, micro(stated) * int(self.jobs.nodes[job]), job)
        return max(most, predicted) if self.prediction.unit_factor is not None else most

    def fits_alone(self, entry: int, option: int, *, ahead: bool = True) -> bool:
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        if self.running or self.jobs.nodes[job] > len(self.free_units(p)):
            return False
        most = max(self.most_net(entry, option), self.net(job, option))
        until = self.now + self.wall(job, option) if ahead else -INF
        if self.supply is not None and self.under_supply(p, job, most, until, bare=True) is None:
            return False
        return self.most_net(entry, option) + self.idle_base() <= self.limit_alone()

    def never_starts(self, job: int) -> bool:
        """Whether neither the maximum nor the prediction, with the least margin of this job alone, ever fits.

        Keeps the reason of one that never does, and the margin at the option that needs least with it.
        """
        if self.supply is not None and not self.fits_some_domain(job):
            self.never[job] = codes.NO_ROOM_IN_SUPPLY
            return True
        rows = [k for k, at in enumerate(self.cap.time_s) if at <= self.now][-1:] or [0]
        limit = max(self._cap_row(k) for k in range(rows[0], len(self.cap.time_s)))
        if limit >= codes.NO_CAP:
            return False
        during = [k for k in range(rows[0], len(self.cap.time_s)) if self.in_target(float(self.cap.time_s[k]))]
        highest_target = max((self._cap_row(k) for k in during), default=-INF)
        share, own, common = (0.1, 0.0, 0.0) if self.site is not None else self.chance or (1.0, 0.0, 0.0)
        reason, kept = codes.NEVER_FITS, list[tuple[int, int]]()
        for entry in (e for e in self.rank if self.entries.job[e] == job):
            p, nodes = int(self.entries.partition[entry]), int(self.jobs.nodes[job])
            base = sum(part.units * self.idle_uw(q) for q, part in enumerate(self.machine.partitions))
            if self.script is not None or len(self.events.time_s):
                base = nodes * self.idle_uw(p)  # others may be off, or down
            base = base if self.machine.cap_scope == "machine" else 0
            for option in self.all_options(entry):
                slowed = option > self.plain(entry)  # only during a target
                room = (highest_target if slowed else limit) - base
                net = self.least_net(job, option)
                most = self.maximum(job, p, net)
                margin = math.ceil(math.sqrt(own * round((net / 1e6) ** 2) + common * (net / 1e6) ** 2) * 1e6)
                if min(most, share * (net + margin)) <= room:
                    return False
                if slowed:
                    continue
                kept.append((math.ceil(share * (net + margin)), net))
                if net <= room:
                    reason = codes.NO_ROOM_FOR_MARGIN
        self.never[job] = reason
        if reason == codes.NO_ROOM_FOR_MARGIN:
            need = min(each for each, _ in kept)
            self.margin_uw[job] = need - next(net for each, net in kept if each == need)
        return True

    def fits_some_domain(self, job: int) -> bool:
        """Whether a job fits under the domains of an idle machine, by the highest limits to come."""
        assert self.supply is not None
        room = self.supply.room(self.now, self.supply.idle(range(len(self.unit_partition))), [], highest=True)
        self.supply.later = []
        for entry in (e for e in self.rank if self.entries.job[e] == job):
            units = [u for u, q in enumerate(self.unit_partition) if q == self.entries.partition[entry]]
            for option in self.all_options(entry):
                net = self.promised_net(job, option)
                terms = (0.1, 0.0, 0.0) if self.site is not None else self.chance
                tries = [(net, terms)]
                if self.chance is not None or self.site is not None:
                    tries.append((max(self.maximum(job, int(self.entries.partition[entry]), net), net), None))
                for uw, kept in tries:
                    each = self.unit_net(job, uw)
                    if self.supply.choose(units, int(self.jobs.nodes[job]), each, room, kept) is not None:
                        return True
        return False

    def least_net(self, job: int, option: int) -> int:
        """What a job adds on the best units of its partition, free or not."""
        p = int(self.machine.option_partition[option])
        units = [u for u, q in enumerate(self.unit_partition) if q == p]
        watts = sorted(self.watts_on(self.prediction, job, option, u) for u in units)
        return self.ledger(p, sum(watts[: int(self.jobs.nodes[job])]), job)

    def fits_target_alone(self, entry: int, option: int) -> bool:
        """Whether it has ended, or fits at its maximum, when each limit begins that the pass looks ahead to."""
        end = self.now + self.wall(int(self.entries.job[entry]), option)
        most = self.most_net(entry, option) + self.idle_base()
        return all(end <= begin or most <= min(watts * 1e6 + 0.5, codes.NO_CAP) for begin, watts, _ in self.announced())

    def greedy(self) -> None:
        promised = self.promises = {}
        closed: set[int] = set()
        tried = 0
        for entry in self.queued_entries():
            job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
            if job not in self.queue or p in closed:
                continue
            if self.depth and tried >= self.depth:
                break
            tried += 1
            if self.starts(promised, entry):
                continue
            if self.code == codes.NO_BACKFILL:
                closed.add(p)
            elif self.held_back(entry):
                pass
            elif self.code == codes.EASY and p not in promised:
                promised[p] = self.reserve(entry)
            elif self.code == codes.LAST_END and p not in promised:
                ends = [r.expected for r in self.running]
                promised[p] = Reservation(job, max(ends, default=INF), -1, -1)

    def starts(self, promised: dict[int, Reservation], entry: int) -> bool:
        """Start an entry at its first option that may start, and drop its job's other reservations."""
        for option in self.options(entry):
            if self.admits(promised, entry, option):
                self.consume(promised, entry, option)
                self.launch(entry, option)
                for q in [q for q, r in promised.items() if r.job == int(self.entries.job[entry])]:
                    del promised[q]
                return True
        return False

    def shortest(self) -> None:
        """In queue order up to each partition's reservation; then everything else by planned time."""
        promised = self.promises = {}
        tried: list[int] = []
        for entry in self.queued_entries():
            if int(self.entries.partition[entry]) not in promised:
                self.attempt(promised, tried, entry)
        # What a load target holds back has no reservation, and is tried once more: a queue depth counts both.
        for entry in sorted(self.queued_entries(), key=lambda e: (self.shortest_wall(e), self.rank[e])):
            reserved = promised.get(int(self.entries.partition[entry]))
            if reserved is None or reserved.job != int(self.entries.job[entry]):
                self.attempt(promised, tried, entry)

    def shortest_wall(self, entry: int) -> float:
        return min(self.wall(int(self.entries.job[entry]), option) for option in self.all_options(entry))

    def admits(self, promised: dict[int, Reservation], entry: int, option: int) -> bool:
        return self.fits(entry, option) and self.keeps(promised, entry, option) and self.fits_ahead(entry, option)

    def attempt(self, promised: dict[int, Reservation], tried: list[int], entry: int) -> None:
        """Start an entry, or promise it a start where its partition has no reservation."""
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        if job not in self.queue or (self.depth and len(tried) >= self.depth):
            return
        tried.append(entry)
        if not self.starts(promised, entry) and p not in promised and not self.held_back(entry):
            promised[p] = self.reserve(entry)

    def keeps(self, promised: dict[int, Reservation], entry: int, option: int, *, ahead: bool = True) -> bool:
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        for q, r in promised.items():
            if r.job == job or self.now + self.wall(job, option) <= r.time:
                continue
            if self.taken(r, self.net(job, option)) > r.watts or (q == p and self.jobs.nodes[job] > r.nodes):
                return False
            until = self.now + self.wall(job, option) if ahead else -INF
            if not self.keeps_supply(q, r, p, job, self.net(job, option), until):
                return False
        return True

    def taken(self, r: Reservation, net: int) -> int:
        """What a job takes of the watts left over: its own, and what the margin of a chance ledger grows by."""
        return net + self.margin(r.beside, new=[*r.started, net]) - self.margin(r.beside, new=r.started)

    def consume(self, promised: dict[int, Reservation], entry: int, option: int) -> None:
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        for q, r in promised.items():
            if r.job != job and self.now + self.wall(job, option) > r.time:
                r.watts -= self.taken(r, self.net(job, option))
                r.started.append(self.net(job, option))
                if self.supply is not None:
                    units = self.under_supply(p, job, self.net(job, option), self.now + self.wall(job, option))
                    assert units is not None
                    r.free -= set(units)
                    r.load.append((units, self.unit_net(job, self.net(job, option)), 1.0))
                if q == p:
                    r.nodes -= int(self.jobs.nodes[job])

    def reserve(self, entry: int) -> Reservation:
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        net = self.promised_net(job, self.promised(entry))
        for time in sorted({r.expected for r in self.running}):
            ended = [r for r in self.running if r.expected <= time]
            nodes = len(self.free_units(p)) - int(self.jobs.nodes[job])
            nodes += sum(len(r.units) for r in ended if self.machine.option_partition[r.option] == p)
            beside = [r for r in self.running if r.expected > time]
            watts = self.available() + self.margin(self.running) + sum(r.net for r in ended) - net
            watts -= self.margin(beside, new=[net])
            free = {u for q in range(len(self.machine.partitions)) for u in self.free_units(q)}
            free |= {u for r in ended for u in r.units}
            found = Reservation(
                job, time, nodes, watts, beside, self.unit_net(job, net), free, [*self.load(beside)], started=[net]
            )
            if nodes >= 0 and watts >= 0 and self.reserved_fits(p, found):
                if self.promise[job] == INF:
                    self.promise[job] = time
                return found
        return Reservation(job, INF, 0, 0)

    def late(self) -> list[Running]:
        """Running jobs whose planned time can be corrected: predicted, and below the walltime."""
        if self.correction not in (codes.LIMIT_AT_OVERRUN, codes.STEPS_AT_OVERRUN):
            return []
        return [r for r in self.running if self.planned[r.job] < self.limit[r.job]]

    def correct(self) -> None:
        """Plan again for each job that runs on behind its planned time, until none does."""
        while over := [r for r in self.late() if r.expected <= self.now]:
            for r in over:
                limit, before, k = self.limit[r.job], self.planned[r.job], self.overruns[r.job]
                if self.correction == codes.LIMIT_AT_OVERRUN or k + 1 == len(STEPS_S):
                    self.planned[r.job] = limit
                else:
                    self.planned[r.job] = min(limit, before - STEPS_S[k] + STEPS_S[k + 1])
                r.expected += (self.planned[r.job] - before) * r.predicted_factor
                self.overruns[r.job] += 1

    def conservative(self) -> None:
        # A plan is a list of (begin, end, partition, nodes, net); running jobs stand in it too.
        plan: dict[Any, tuple[float, float, int, int, int]] = {}
        free = [len(self.free_units(p)) for p in range(len(self.machine.partitions))]
        watts = self.available()
        for i, r in enumerate(self.running):
            p = int(self.machine.option_partition[r.option])
            free[p] += len(r.units)
            watts += r.net
            plan["running", i] = (self.now, max(r.expected, self.now + 1e-6), p, len(r.units), r.net)
        promised = self.promises = {}
        tried = 0
        for entry in self.queued_entries():
            job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
            if job not in self.queue:
                continue
            if self.depth and tried >= self.depth:
                break
            tried += 1
            earlier = plan.pop(("job", job), None)
            begin, option = self.earliest(plan, promised, free[p], watts, entry)
            if begin is None:
                if earlier is not None:
                    plan["job", job] = earlier
                continue
            net = self.net(job, option) if begin == self.now else self.promised_net(job, option)
            place = (begin, begin + self.wall(job, option), p, int(self.jobs.nodes[job]), net)
            if begin == self.now and self.domains_admit(promised, entry, option):
                self.consume(promised, entry, option)
                self.launch(entry, option)
                plan["started", job] = place
                for q in [q for q, r in promised.items() if r.job == job]:
                    del promised[q]
                continue
            if begin == self.now and self.never_now(entry, option):
                if earlier is not None:
                    plan["job", job] = earlier
                continue
            if begin == self.now and p not in promised:
                promised[p] = self.reserve(entry)
            plan["job", job] = place if earlier is None or begin < earlier[0] else earlier

    def domains_admit(self, promised: dict[int, Reservation], entry: int, option: int) -> bool:
        """Whether power domains have room for a start, and for those that they hold back beside it."""
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        if self.supply is None:
            return True
        until = self.now + self.wall(job, option)
        fits = self.under_supply(p, job, self.net(job, option), until) is not None
        return fits and self.keeps(promised, entry, option)

    def never_now(self, entry: int, option: int) -> bool:
        """Whether announced limits of domains, or those in force on an idle machine, forbid an entry for now."""
        if self.supply is None:
            return False
        units = [u for u, q in enumerate(self.unit_partition) if q == self.entries.partition[entry]]
        room, job = (
            self.supply.room(self.now, self.supply.idle(range(len(self.unit_partition))), []),
            int(self.entries.job[entry]),
        )
        self.supply.later = []
        need, each = int(self.jobs.nodes[job]), self.unit_net(job, self.promised_net(job, option))
        if self.supply.choose(units, need, each, room, self.chance) is None:
            return True
        return all(self.domains_hold_back(entry, one) for one in self.options(entry))

    def earliest(
        self,
        plan: dict[Any, tuple[float, float, int, int, int]],
        promised: dict[int, Reservation],
        free: int,
        watts: int,
        entry: int,
    ) -> tuple[float | None, int]:
        job, p = int(self.entries.job[entry]), int(self.entries.partition[entry])
        instants = {t for begin, end, *_ in plan.values() for t in (begin, end)}
        later = self.known_now() if self.ahead_all else None
        if later is not None:
            instants |= set(later.time_s.tolist())
        instants = sorted({self.now, *(t for t in instants if t >= self.now)})  # type: ignore[assignment]
        here = self.available()
        room = {t: watts if later is None else watts + self.room_at(later, t) - here for t in instants}

        def fits(begin: float, option: int, net: int) -> bool:
            end = begin + self.wall(job, option)
            for t in instants:
                if t != begin and not begin <= t < end:
                    continue
                held = [place for place in plan.values() if place[0] <= t < place[1]]
                if free - sum(place[3] for place in held if place[2] == p) < self.jobs.nodes[job]:
                    return False
                if room[t] - sum(place[4] for place in held) < net:
                    return False
            return True

        for option in self.options(entry):
            if fits(self.now, option, self.net(job, option)) and self.domains_admit(promised, entry, option):
                return self.now, option
        last = self.promised(entry)
        net = self.promised_net(job, last)
        return next((t for t in instants if fits(t, last, net)), None), last

    def room_at(self, later: Cap, time: float) -> int:
        """Watts free under the limit that is announced for a time, with what runs now."""
        limit = later.in_force_w(time) * 1e6
        return self.room(round(limit)) if limit < codes.NO_CAP else 1 << 62

    # -- watts and speed ----------------------------------------------------------------------------

    def device_speed(self, table: Prediction, units: list[int], limit: float) -> float:
        """The speed at which the units of a device, idle ones included, draw ``limit`` microwatts together."""
        part = self.machine.partitions[self.unit_partition[units[0]]]
        idle, floor, dynamic = micro(part.idle_w), 0, 0
        owner = {u: r for r in self.running if r.begun and not r.parked for u in r.units}
        for u in units:
            r = owner.get(u)
            watt = idle if r is None else self.watts_on(table, r.job, r.option, u)
            floor, dynamic = floor + min(watt, idle), dynamic + max(watt - idle, 0)
        if dynamic == 0 or floor + dynamic <= limit:  # without dynamic watts there is nothing to slow down
            return 1.0
        return float(max(0.1, (max(limit - floor, 0) / dynamic) ** (1 / part.dvfs_alpha)))

    def throttle(self, table: Prediction, r: Running) -> tuple[int, float]:
        """Watts of the whole job and time factor under the limits."""
        watts, factor = self.throttled(table, r)
        return sum(watts), factor

    def throttled(self, table: Prediction, r: Running) -> tuple[list[int], float]:
        """Watts of each unit of a job, and its time factor.

        Kept while no limit, running job or phase changes: most instants change none of them.
        """
        jobs = tuple((x.job, x.option, x.begun, x.parked, *x.units) for x in self.running)
        state = (tuple(self.device_limit), tuple(self.place.items()), jobs)
        if state != self.settled:
            self.settled, self.speeds = state, {}
        key = (table is self.actual, r.job, r.option, *r.units)
        if key not in self.speeds:
            self.speeds[key] = self.throttled_now(table, r)
        return self.speeds[key]

    def throttled_now(self, table: Prediction, r: Running) -> tuple[list[int], float]:
        """The same anew: the slowest device slows all units of a job."""
        part = self.machine.partitions[int(self.machine.option_partition[r.option])]
        idle, factor = micro(part.idle_w), self.factor(table, r.job, r.option)
        watts = self.watts_of(table, r)
        speed = 1.0
        for device, limit in enumerate(self.device_limit):
            if limit < INF and not set(r.units).isdisjoint(self.devices[device]):
                speed = min(speed, self.device_speed(table, self.devices[device], limit))
        if speed >= 1.0:
            return watts, factor
        slowed = [round(idle + (w - idle) * speed**part.dvfs_alpha) if w > idle else w for w in watts]
        slower = part.dvfs_beta * (1 / speed - 1) + 1
        if table is self.actual and self.slower_under_limits is not None:
            slower = self.slower_under_limits(r.job, r.option, speed) or slower
        return slowed, factor * slower

    def lowest_limit(self, r: Running) -> float:
        """The lowest limit in force on a device of a job's units."""
        shared = [cap for units, cap in zip(self.devices, self.device_limit, strict=True) if set(units) & set(r.units)]
        return min(shared, default=INF)

    def drawn_uw(self) -> list[int]:
        """What each unit really draws now; a node that is not on spreads its figure evenly."""
        uw = [0] * len(self.unit_partition)
        for units in self.nodes:
            whole = self.node_state_uw(units, self.unit_state[units[0]])
            for place, unit in enumerate(reversed(units)):
                uw[unit] = (whole + place) // len(units)
        for r in [r for r in self.running if r.begun and not r.parked]:
            for unit, watt in zip(r.units, self.throttled(self.actual, r)[0], strict=True):
                uw[unit] = watt
        return uw

    def set_physics(self, r: Running) -> None:
        r.uw, r.factor = self.true_physics(r)

    def true_physics(self, r: Running) -> tuple[int, float]:
        uw, factor = self.throttle(self.actual, r)
        slow, app = self.actual.unit_time_factor, int(self.jobs.app.codes[r.job])
        if slow is not None and app >= 0:
            factor *= max(float(slow[app, u]) for u in r.units)
        return uw, factor

    def bill(self, r: Running) -> None:
        self.energy[r.job] += (self.now - r.since) * r.uw / 1e6
        r.since = self.now

    def change_truth(self, r: Running) -> None:
        self.bill(r)
        left = (r.end - self.now) / r.factor
        before = r.factor
        self.set_physics(r)
        if r.factor != before:
            r.end = max(self.now, round((self.now + left * r.factor) * 1e6) / 1e6)

    def change_expectation(self, r: Running) -> None:
        _, predicted = self.throttle(self.prediction, r)
        self.count(r)
        r.expected = round((self.now + (r.expected - self.now) / r.predicted_factor * predicted) * 1e6) / 1e6
        r.predicted_factor = predicted

    def apply_speeds(self) -> None:
        """Continue every job whose speed or watts differ from what they were."""
        for r in [r for r in self.running if r.begun and not r.parked]:
            if (self.limited_net(r), self.throttle(self.prediction, r)[1]) != (r.net, r.predicted_factor):
                self.change_expectation(r)
            if self.true_physics(r) != (r.uw, r.factor):
                self.change_truth(r)

    def begin(self) -> bool:
        """Let the jobs run that this instant started, and return whether there are any; those beside them slow down."""
        started = [r for r in self.running if not r.begun]
        for r in started:
            r.begun = True
            self.date(r, self.now)
        for r in started:
            self.set_physics(r)
            self.set_end(r)
        self.apply_speeds()
        return bool(started)

    def limited_net(self, r: Running) -> int:
        """What the ledger counts for a running job under the limits on its devices, or by what is measured."""
        if r.parked:
            return self.ledger(
                self.unit_partition[r.units[0]], len(r.units) * self.idle_uw(self.unit_partition[r.units[0]]), r.job
            )
        if self.meter is not None and self.meter.counts:
            return self.ledger(self.unit_partition[r.units[0]], sum(self.meter.counted_uw(r)), r.job)
        uw, _ = self.throttle(self.prediction, r)
        return self.ledger(self.unit_partition[r.units[0]], uw, r.job)

    def count(self, r: Running) -> None:
        """Let the ledger and the domains count a running job as it is now."""
        r.net, r.figures = self.limited_net(r), self.figures_of(r)

    def figures_of(self, r: Running) -> list[int]:
        """Net microwatts of each unit of a running job that is measured by its units; empty for all others."""
        if r.parked or self.meter is None or not self.meter.counts:
            return []
        watts = self.meter.counted_uw(r)
        idle = 0 if self.machine.cap_scope == "jobs" else self.idle_uw(self.unit_partition[r.units[0]])
        return [max(uw - idle, 0) for uw in watts] if len(watts) == len(r.units) and self.meter.by_unit else []

    def change_fits(self) -> bool:
        """Whether the ledger has room for running jobs as they are now, instead of what it counts for them."""
        jobs = [r for r in self.running if r.begun and not r.parked]
        nets = [self.limited_net(r) for r in jobs]
        more = sum(nets) - sum(r.net for r in jobs)
        if self.supply is not None:
            others = [r for r in self.running if not r.begun or r.parked]
            load = self.load(jobs, nets, [self.figures_of(r) for r in jobs])
            now = self.supply.room(self.now, self.standing(), self.load(self.running))
            if not self.domains_fit(now, self.supply.room(self.now, self.standing(), [*self.load(others), *load])):
                return False
        if more <= 0 or self.limit_uw() >= codes.NO_CAP:
            return True
        others = [r for r in self.running if not r.begun or r.parked]
        grown = self.margin([*others, *jobs], [*(r.net for r in others), *nets]) - self.margin(self.running)
        return more <= self.available() and more + grown <= self.available()

    # -- actions and node events --------------------------------------------------------------------

    def act(self, action: Any) -> None:
        by_job = {str(self.jobs.job_id[r.job]): r for r in self.running if r.begun}
        busy = {u for r in self.running for u in r.units}
        if self.refuses(action, by_job):
            return
        if isinstance(action, SetFrequency):
            r = by_job.get(action.job)
            of = self.machine.option_partition
            if r is None or r.parked or not 0 <= action.option < len(of) or of[action.option] != of[r.option]:
                return
            before, r.option = r.option, action.option
            since = [] if self.meter is None else [self.meter.since[u] for u in r.units]
            if self.unit_uw(self.prediction, r.job, r.option) > self.unit_uw(self.prediction, r.job, before):
                self.date(r, self.now)
            if not self.change_fits():
                r.option = before
                self.date(r, *since[:1])
                return
            self.change_expectation(r)
            self.change_truth(r)
            self.apply_speeds()
        elif isinstance(action, StartJob):
            self.start_checked(action)
        elif isinstance(action, SetDeviceLimits):
            limits = list(self.device_limit)
            no_cap = self.alone_uw() >= codes.NO_CAP
            for_target = self.serves_target() and (no_cap or not self.moves_watts(action))
            for device, cap_w in zip(action.devices, action.caps_w, strict=True):
                self.device_limit[device] = cap_w * 1e6
            if not self.change_fits():
                self.device_limit = limits
                return
            self.apply_speeds()
            self.remember_limits(limits, for_target=for_target)
        elif isinstance(action, Requeue):
            if action.job in by_job:
                self.keep(by_job[action.job], action.checkpointed_s)
                self.requeue(by_job[action.job])
                self.apply_speeds()
        elif isinstance(action, DelayStart):
            self.delay(action.job, action.until_s)
        elif isinstance(action, Suspend):
            if action.job in by_job and not by_job[action.job].parked:
                self.suspend(by_job[action.job])
        elif isinstance(action, Resume):
            if action.job in by_job and by_job[action.job].parked:
                self.resume(by_job[action.job])
        elif isinstance(action, DrainNode) and busy & set(self.node_units(action.node)):
            if self.unit_state[action.node] == codes.UNIT_ON:
                self.set_node(self.node_units(action.node), codes.UNIT_DRAINING)
        elif isinstance(action, WakeNode) and self.unit_state[action.node] == codes.UNIT_DRAINING:
            self.set_node(self.node_units(action.node), codes.UNIT_ON)
        elif isinstance(action, (StopNode, DrainNode)):
            units = self.node_units(action.node)
            free = self.unit_state[action.node] == codes.UNIT_ON and not busy & set(units)
            if free and self.base_fits(units, codes.UNIT_STOPPING):
                self.set_node(units, codes.UNIT_STOPPING)
                part = self.machine.partitions[self.unit_partition[action.node]]
                self.timers.append((self.now + part.shutdown_s, units[0]))
        elif isinstance(action, WakeNode) and self.unit_state[action.node] == codes.UNIT_OFF:
            units = self.node_units(action.node)
            if not self.base_fits(units, codes.UNIT_BOOTING):
                return
            self.set_node(units, codes.UNIT_BOOTING)
            part = self.machine.partitions[self.unit_partition[action.node]]
            self.timers.append((self.now + part.boot_s, units[0]))

    def start_checked(self, action: StartJob) -> None:
        """A start by a control: in its window, queued, with units and watts for it, beside what the pass promises."""
        for entry in self.queued_entries():
            job, partition = self.entries.job[entry], self.entries.partition[entry]
            if (str(self.jobs.job_id[job]), partition) == (action.job, action.partition):
                named = {"ahead": False}  # whoever names a start decides
                fits = self.fits(entry, action.option, **named) or self.fits_alone(entry, action.option, **named)
                fits = fits and not self.holds_starts()
                if action.option in self.options(entry) and fits and not self.overtakes(entry, action.option):
                    self.launch(entry, action.option, -INF)
                return

    def overtakes(self, entry: int, option: int) -> bool:
        """Whether a start by a control delays what a pass would start or promise now; only passes that reserve do."""
        if self.code in (codes.NO_BACKFILL, codes.FIRST_FIT):
            return False
        trial = copy.deepcopy(self, {id(same): same for same in (self.jobs, self.machine, self.script)})
        trial.schedule()
        job = int(self.entries.job[entry])
        if job not in trial.queue:
            return trial.option[job] != option
        named = {"ahead": False}
        fits = trial.fits(entry, option, **named) or trial.fits_alone(entry, option, **named)
        return self.code == codes.CONSERVATIVE or not (fits and trial.keeps(trial.promises, entry, option, **named))

    def date(self, r: Running, *time: float) -> None:
        """Samples of before say nothing of the units of a job from now on."""
        if self.meter is not None:
            self.meter.since.update(dict.fromkeys(r.units, *time))

    def suspend(self, r: Running) -> None:
        """Its units draw idle watts, its ends are unknown; others on its devices may draw what it drew."""
        self.bill(r)
        r.left, r.expected_left = (r.end - self.now) / r.factor, (r.expected - self.now) / r.predicted_factor
        r.end = r.expected = INF
        r.parked = True
        self.date(r, self.now)
        r.uw = len(r.units) * self.idle_uw(self.unit_partition[r.units[0]])
        self.count(r)
        self.apply_speeds()

    def resume(self, r: Running) -> None:
        if self.meter is not None:  # what idle units count, its own among them, stays counted: as at a start
            self.meter.kept_above = self.meter.idle_above()
        r.parked = False
        since = [] if self.meter is None else [self.meter.since[u] for u in r.units]
        self.date(r, self.now)
        fits = self.change_fits()
        if self.meter is not None:
            self.meter.kept_above = None
        if not fits:
            r.parked = True
            self.date(r, *since[:1])
            return
        self.bill(r)
        self.set_physics(r)
        r.end = max(self.now, round((self.now + r.left * r.factor) * 1e6) / 1e6)
        _, r.predicted_factor = self.throttle(self.prediction, r)
        r.net = self.limited_net(r)
        r.expected = round((self.now + r.expected_left * r.predicted_factor) * 1e6) / 1e6
        self.apply_speeds()

    def stop_drained(self) -> None:
        """Draining nodes stop when no job is left on them."""
        busy = {u for r in self.running for u in r.units}
        for units in self.nodes:
            if self.unit_state[units[0]] == codes.UNIT_DRAINING and not busy & set(units):
                self.set_node(units, codes.UNIT_STOPPING)
                part = self.machine.partitions[self.unit_partition[units[0]]]
                self.timers.append((self.now + part.shutdown_s, units[0]))

    def keep(self, r: Running, seconds: float) -> None:
        """Work that its next start need not do again: at most what it has done, in truth and in expectation."""
        work = self.work(r.job)
        left = r.left if r.parked else (r.end - self.now) / r.factor
        expected = r.expected_left if r.parked else (r.expected - self.now) / r.predicted_factor
        if seconds == 0.0:
            return
        kept = min(seconds, max(0.0, work - left), max(0.0, self.planned[r.job] - expected))
        kept = math.floor(kept / self.checkpoint(r.job) + 1e-9) * self.checkpoint(r.job)
        self.kept[r.job] += kept
        self.planned[r.job] = max(self.planned[r.job] - kept, min(self.planned[r.job], 1.0))
        self.limit[r.job] = max(self.limit[r.job] - kept, self.planned[r.job])

    def work(self, job: int) -> float:
        """Seconds of work at reference speed that a job has to do from its start on."""
        return min(float(self.jobs.runtime_s[job]), float(self.jobs.walltime_s[job])) - self.kept[job]

    def requeue(self, r: Running) -> None:
        self.bill(r)
        self.running.remove(r)
        if r.begun:
            self.date(r, self.now)
        self.stop_drained()
        self.queue.append(r.job)
        self.state[r.job] = codes.WAITING

    def node_event(self, unit: int, up: bool) -> None:
        units = self.node_units(unit)
        if up:
            if self.unit_state[unit] == codes.UNIT_DOWN:
                self.set_node(units, codes.UNIT_ON)
            return
        self.timers = [(t, u) for t, u in self.timers if u != units[0]]
        if self.unit_state[unit] == codes.UNIT_DRAINING:
            self.set_node(units, codes.UNIT_ON)
        for r in [r for r in self.running if set(units) & set(r.units)]:
            self.requeue(r)
        self.set_node(units, codes.UNIT_DOWN)

    # -- the clock ----------------------------------------------------------------------------------

    def run(self) -> None:
        arrivals = sorted(range(len(self.jobs)), key=lambda j: (self.jobs.submit_s[j], j))
        signals = list(range(1, len(self.cap.time_s)))
        e = self.events
        nodes = sorted(range(len(e.time_s)), key=lambda k: (e.time_s[k], e.up[k], e.unit[k]))
        tick, ticks = (float(self.jobs.submit_s.min()) if self.script else INF), 0
        deferred, sampled = INF, -INF if self.phases_s is not None else INF
        tick = tick if self.period > 0 else INF
        while True:
            coming = [r.end for r in self.running] + [deferred]
            coming += [float(self.jobs.submit_s[arrivals[0]])] if arrivals else []
            if min(coming) == INF and not self.queue and not self.running:
                break
            coming += [until for until in self.delayed.values() if until > self.now and self.queue]
            coming += [t for t, _ in self.timers] + [r.expected for r in self.late()]
            coming += [float(self.events.time_s[nodes[0]])] if nodes else []
            coming += [float(self.cap.time_s[signals[0]])] if signals else []
            coming += [self.now + self.rise_step_s()] if self.rise is not None else []
            coming += [self.site.read_at] if self.site is not None and self.queue and self.site.may_fall(self) else []
            if min(coming) == INF and (self.script is None or ticks > 500):
                break
            moving = any(not r.parked for r in self.running)
            read_at = self.meter.read_at if self.meter is not None and moving else INF
            site_at = self.site.read_at if self.site is not None else INF
            coming += [sampled, site_at] if moving else []
            self.now, ended, submitted = min([*coming, tick, read_at]), False, False
            for r in sorted((r for r in self.running if r.end <= self.now), key=lambda r: r.job):
                self.bill(r)
                self.running.remove(r)
                self.date(r, self.now)
                ended = True
                self.end[r.job] = self.now
                self.taught[r.job] = (list(r.units), r.option, self.lowest_limit(r))
                killed = self.jobs.runtime_s[r.job] > self.jobs.walltime_s[r.job]
                self.state[r.job] = codes.KILLED if killed else codes.COMPLETED
                if self.recent is not None:
                    self.recent.learn(r.job, (self.now - self.start[r.job]) / r.predicted_factor + self.kept[r.job])
            self.correct()
            self.stop_drained()
            for _, unit in sorted(timer for timer in self.timers if timer[0] <= self.now):
                stopping = self.unit_state[unit] == codes.UNIT_STOPPING
                self.set_node(self.node_units(unit), codes.UNIT_OFF if stopping else codes.UNIT_ON)
            self.timers = [timer for timer in self.timers if timer[0] > self.now]
            while nodes and self.events.time_s[nodes[0]] <= self.now:
                k = nodes.pop(0)
                self.node_event(int(self.events.unit[k]), bool(self.events.up[k]))
            self.apply_speeds()
            if self.phases_s is not None and self.now >= sampled:
                self.tick()
                sampled = next(k * self.phases_s for k in itertools.count() if k * self.phases_s > self.now)
            while arrivals and self.jobs.submit_s[arrivals[0]] <= self.now:
                job = arrivals.pop(0)
                self.state[job] = codes.REJECTED if self.reject[job] else codes.WAITING
                if not self.reject[job]:
                    if self.recent is not None:
                        self.planned[job] = self.recent.planned(job, float(self.jobs.walltime_s[job]))
                    submitted = True
                    if self.never_starts(job):
                        self.state[job] = codes.NOT_STARTED
                    else:
                        self.queue.append(job)
            while signals and self.cap.time_s[signals[0]] <= self.now:
                self.cap_uw = self._cap_row(signals.pop(0))
                self.begin_rise()
            self.end_rise()
            if self.meter is not None:
                self.meter.at_instant(submitted=submitted)
            if self.site is not None:
                self.site.at_instant(self)
            if self.script is not None and self.now >= tick:
                for action in self.script(ticks):
                    self.act(action)
                self.held = getattr(self.script, "holds", lambda _: False)(ticks)
                ticks += 1
                tick = self.now + self.period
            if self.at_completion and self.interval > 0:
                deferred = INF
                # "At a completion, and at each whole interval after the last pass": the first such moment from now on.
                at = self.last_pass if self.last_pass > -INF else self.now
                whole = itertools.count(1)
                while self.last_pass > -INF and (at := self.last_pass + next(whole) * self.interval) < self.now:
                    pass
                if at == self.now or ended:
                    self.schedule()
                elif self.queue:
                    deferred = at
            elif self.interval > 0 and self.now < self.last_pass + self.interval:
                deferred = self.last_pass + self.interval if self.queue else INF
            else:
                deferred = INF
                self.schedule()
            started = self.begin()
            if started and self.before_target:
                self.lift_limits()
            while started and self.script is not None and "start" in self.wakes:
                for action in self.script(ticks):
                    self.act(action)
                ticks += 1
                started = self.begin()
                if started and self.before_target:
                    self.lift_limits()
            if self.rise is not None and self.drawn() > self.rise[1]:
                self.rise = self.now, self.drawn(), self.rise[2]
            self.write_step()
        for r in self.running:  # suspended, and never resumed
            self.bill(r)
            self.state[r.job] = codes.WAITING
        for job, state in enumerate(self.state):
            if state == codes.WAITING:
                self.state[job] = codes.NOT_STARTED

    def begin_rise(self) -> None:
        """At the end of a target the ledger begins to rise from where it is; at the begin of one nothing does."""
        latest = max((t for t in self.ramps or () if t[0] <= self.now), default=None)
        if latest is None:
            return
        _, end, rate = latest
        if self.now < end or rate == INF or self.top_w() == INF:
            self.rise = None
        elif self.now == end:
            self.rise = self.now, self.drawn(), rate

    def end_rise(self) -> None:
        if self.rise is not None:
            since, level, rate = self.rise
            if level + math.floor(rate * 1e6 * (self.now - since)) >= micro(self.top_w()):
                self.rise = None

    def node_max_w(self) -> list[float]:
        """The stated maximum of each node in the cap's scope, inf where it is not stated."""
        found = []
        for part in self.machine.partitions:
            below = part.idle_w if self.machine.cap_scope == "dynamic" else 0.0
            most = INF if part.max_w is None else (part.max_w - below) * part.units / part.nodes
            found += [most] * part.nodes
        return found

    def top_w(self) -> float:
        """Where a rise ends: at the cap, and at what the machine draws at most."""
        assert self.full_cap is not None
        return min(self.full_cap.in_force_w(self.now), sum(self.node_max_w()))

    def rise_step_s(self) -> float:
        """After how long a limit that rises is raised again: before a hundredth of the maximum, or a node, is there."""
        assert self.rise is not None
        nodes = self.node_max_w()
        height = max(sum(nodes) / 100, *nodes) if max(nodes) < INF else self.top_w() / 100
        return min(max(height / self.rise[2], 1e-6), 60.0)

    def write_step(self) -> None:
        busy = {u for r in self.running for u in r.units}
        jobs_uw = sum(r.uw for r in self.running)
        idle = sum(self.idle_uw(self.unit_partition[u]) for u in busy)
        other = sum(self.node_state_uw(units, self.unit_state[units[0]]) for units in self.nodes) - idle
        self.steps.append((self.now, jobs_uw, other, idle, len(busy)))
        if self.site is not None:
            self.site.end_instant(self)
        if self.meter is not None:
            self.meter.history.append((self.now, self.drawn_uw()))


def integral_j(steps: Sequence[tuple[float, int, int, int, int]], column: int) -> float:
    """Energy of one column of the steps, joules."""
    return sum((b[0] - a[0]) * a[column] / 1e6 for a, b in itertools.pairwise(steps))


def arrays(simulator: Simulator) -> dict[str, Any]:
    """What a test compares."""
    return {
        "start": np.array(simulator.start),
        "end": np.array(simulator.end),
        "state": np.array(simulator.state, np.int8),
    }
