"""Power domains in a live controller: which nodes a start is bound to, and what Slurm counts there (rule 22).

The policy decides under the tree, as in a simulation. What it decided holds in Slurm since each start is *pinned*: it
asks for exactly the nodes that it was given, so it starts there or not at all, and each domain had room for it beside
all that ran or was pinned. That needs no licence, and no controller once the job is released.

Licences are the second line. A site gives domains licences (``[slurm] domains``); a pinned job carries the
watts of its domains, so that Slurm alone starts nothing beyond a limit that falls, or after a job was requeued. What a
job draws in a domain beside its licences is set aside there by a reservation: of jobs that nobody pinned, and what did
not fit into the text of a job's licences.

A job that is held carries a licence that nobody can get (``GATE``), and the write that pins it takes that away. So a
release whose other half was lost, by a crash of slurmctld in between, starts nothing; nor does anybody else's release.

Slurm 26.05 can count the domains by itself (``slurm.hres``): a job then carries the watts of one of its nodes, Slurm
counts them in every layer above each of its nodes, and no reservation and no licence of a domain is needed. Pins are:
26.05.5 does not test what a job was given after its submission.

Watts are whole: a job's are rounded up, a domain's room is rounded down. A job that alone fits to the microwatt takes
all of the room.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from wattqueue.live.cluster import Job
from wattqueue.live.files.supply_limits import GATE, is_pinned, of_each_node
from wattqueue.live.goal import JobGoal
from wattqueue.live.placement import NAMED, NAMED_ATTEMPTS, UW, ChosenStart, asked_of
from wattqueue.live.planner import RoundState, stage
from wattqueue.live.table import Owner, Stage
from wattqueue.live.world import Layout
from wattqueue.model.supply import SupplyDomain, counted_uw

MOST_CHARACTERS = 1024
"""Longest text of a job's licences that Slurm takes, at submission and at a change (22.05 to 26.05)."""
LONGEST_S = 60.0
"""Time between two rounds that counts at most for what pinning costs: a controller may have stood still."""
Watts = dict[int, int]
"""Whole watts by number of a domain."""


@dataclass
class DomainRooms:
    """What the power domains of a layout's machine leave to jobs, and what jobs count there."""

    layout: Layout
    hres: bool = False
    """Whether Slurm counts all domains by itself, as a hierarchical resource."""

    @property
    def domains(self) -> tuple[SupplyDomain, ...]:
        """Return the domains, those below others first."""
        return self.layout.machine.supply_tree.domains

    @cached_property
    def _path(self) -> list[tuple[int, ...]]:
        """Return the domains above each unit, the lowest first."""
        tree = self.layout.machine.supply_tree
        paths = [tuple(tree.path(k)) for k in range(len(tree.domains))]
        return [paths[k] for k in tree.of_unit.tolist()]

    def room_uw(self, now_s: float) -> list[float]:
        """Return what jobs may draw in each domain by its limit, in microwatts; inf without a limit."""
        return [self.room_under(k, domain.limit_at(now_s)) for k, domain in enumerate(self.domains)]

    def room_under(self, k: int, limit_w: float) -> float:
        """Return what jobs may draw in a domain under a limit, in microwatts; inf without one."""
        limit_uw = limit_w * UW
        if math.isinf(limit_uw):
            return limit_uw
        return max(0, round(limit_uw) - int(self.layout.machine.supply_idle_uw[k]))

    def demand(self, units: Sequence[int], net_w: int, room_uw: Sequence[float]) -> Watts:
        """Return what a job of so many net watts counts in the domains above its units, spread evenly over these."""
        if not units:
            return {}
        each_uw, found = math.ceil(net_w * UW / len(units)), Watts()
        if self.hres:  # as Slurm counts them
            each_uw = -(-net_w // len(units)) * UW
        gain = self.layout.machine.supply_tree.gain
        for k, count in Counter(k for unit in units for k in self._path[unit]).items():
            uw = count * counted_uw(each_uw, float(gain[k]))
            watts = -(-uw // UW)
            found[k] = min(watts, int(room_uw[k] // UW)) if uw <= room_uw[k] < math.inf else watts
        return found


@dataclass
class LiveDomains(DomainRooms):
    """The power domains of a controller: which nodes starts get, and what Slurm counts there."""

    licences: Mapping[str, str] = field(default_factory=dict)
    """Licence of each domain that Slurm counts, too."""
    set_aside: Mapping[str, int] = field(default_factory=dict)
    """Watts that jobs hold beside their licences, by licence, in the last round."""
    postponed: int = 0
    """Starts of the last round for which no nodes were found whose domains have room."""
    gated: bool = True
    """Whether the cluster showed in the last round that no job can get the licence of held ones."""
    loose: tuple[str, ...] = ()
    """Jobs of the last round that Slurm may start on any node: nothing starts beside them."""
    pinned_node_s: float = 0.0
    """Node seconds for which pinned jobs kept nodes that they did not run on yet."""
    node_s: float = 0.0
    """Node seconds of all nodes of the machine in that time."""
    _counted_s: float = math.inf

    @cached_property
    def by_licence(self) -> dict[str, int]:
        """Return the number of each domain with a licence, by that."""
        number = {domain.name: k for k, domain in enumerate(self.domains)}
        return {licence: number[name] for name, licence in self.licences.items()}

    @property
    def are_counted(self) -> bool:
        """Whether Slurm counts domains, too."""
        return self.hres or bool(self.licences)

    # -- watts -----------------------------------------------------------------------------------
    def units_of(self, now: RoundState, slot: int) -> list[int]:
        """Return the units on which a job runs, or to which it is pinned; else those that are kept for it."""
        row: Job = now.jobs.row[slot]
        names = row.node_names if row.active else row.requested if is_pinned(row) else ()
        return [self.layout.unit[name] for name in names if name in self.layout.unit] or list(now.jobs.units[slot])

    def held(self, now: RoundState, room_uw: Sequence[float]) -> Iterator[tuple[int, Watts]]:
        """Yield what each job counts that holds units, with its slot; without the starts of this round."""
        starting = {one.row.key for one in (*now.chosen, *now.reserved)}
        for slot in now.holding:
            if now.jobs.row[slot].key not in starting:
                yield slot, self.demand(self.units_of(now, slot), max(int(now.jobs.net_w[slot]), 0), room_uw)

    def counted_w(self, now: RoundState) -> dict[str, tuple[float, float]]:
        """Return what jobs hold in each domain with a limit, and what that leaves to them, in watts."""
        room_uw, total = self.room_uw(now.now_s), Counter[int]()
        for _, watts in self.held(now, room_uw):
            total.update(watts)
        return {
            domain.name: (float(total[k]), room_uw[k] / UW)
            for k, domain in enumerate(self.domains)
            if math.isfinite(room_uw[k])
        }

    # -- starts ----------------------------------------------------------------------------------
    def admit(self, now: RoundState, chosen: Sequence[ChosenStart]) -> list[ChosenStart]:
        """Return the starts for which all domains have room beside what runs and what is pinned, each with its nodes.

        A job that is bound to certain nodes (its user's, or those that may serve it) gets free ones of these after all
        others, as far as they and their domains have room. The rest waits for the next round.
        """
        self.postponed = 0
        self.loose = tuple(
            now.jobs.name[slot] for slot in now.under_way if self._controls(now) and _is_loose(now, slot)
        )
        gate = now.snapshot.domains.get(GATE)
        self.gated = not self._controls(now) or (gate is not None and gate.reserved >= gate.total)
        if self.loose or not self.gated or not chosen:
            return []
        room_uw = self.room_uw(now.now_s)
        left = [math.floor(uw / UW) if math.isfinite(uw) else math.inf for uw in room_uw]
        for _, watts in self.held(now, room_uw):
            _take(left, watts)
        free, found = self._free(now), dict[int, ChosenStart]()
        for k in sorted(range(len(chosen)), key=lambda k: self._is_bound(now, chosen[k])):
            one = chosen[k]
            if not self._is_gated(now, one.row):  # a release alone would start it on other nodes
                continue
            units = self._units(now, one, free, left, room_uw)
            if units is None:
                self.postponed += 1
                continue
            watts, mine = self.demand(units, one.watts, room_uw), set(units)
            _take(left, watts)
            free = [unit for unit in free if unit not in mine]
            names = tuple(self.layout.names[unit] for unit in units)
            kept = None if names_by_user(now, one.row) == set(names) else names
            start = replace(one.start, nodes=tuple(units))
            carries = of_each_node(one.watts, len(units)) if self.hres else self.carried(one.row, watts)
            found[k] = one._replace(start=start, nodes=kept, domains=carries)
        return [found[k] for k in sorted(found)]

    def _free(self, now: RoundState) -> list[int]:
        """Return the units on which a job may start and that none holds."""
        out = set(now.view.unusable.tolist()) | now.taken
        return [unit for unit in range(len(self.layout.names)) if unit not in out]

    def _is_gated(self, now: RoundState, row: Job) -> bool:
        """Whether a held job shows that it could not start as it is: it carries the gate, and no nodes of before."""
        return not self._controls(now) or ((GATE, 1) in row.domains and set(row.requested) == names_by_user(now, row))

    def _controls(self, now: RoundState) -> bool:
        """Whether Slurm holds jobs for the controller, and counts domains; in the other modes it starts them itself."""
        return self.are_counted and now.planner.rules.mode == "control"

    def gates(self, now: RoundState) -> Iterator[JobGoal]:
        """Yield goals for queued jobs that do not carry the gate: job_submit.lua gives it to those that come."""
        starting = {one.row.key for one in now.chosen}
        for slot in now.jobs.queue.tolist() if self._controls(now) else ():
            row: Job = now.jobs.row[slot]
            if row.held and (GATE, 1) not in row.domains and row.key not in starting:
                yield JobGoal(row.key, domains=((GATE, 1),), why="it is held for the controller")
        for row in now.jobs.rows(now.jobs.at([Stage.HELD], Owner.HANDED_OVER)) if self._controls(now) else []:
            if row.component == 0 and row.watts >= 0 and (GATE, 1) not in row.domains:
                yield JobGoal(row.key, domains=((GATE, 1),), why="under power domains its components never start")

    def _is_bound(self, now: RoundState, one: ChosenStart) -> bool:
        """Whether a start cannot have the nodes that the policy chose."""
        names = {self.layout.names[unit] for unit in one.start.nodes}
        able, asked = now.snapshot.site.nodes.get(one.row.key), names_by_user(now, one.row)
        refused = now.planner.memory.refused.get(one.row.key)
        return (
            not asked <= names or (able is not None and not names <= able)
            or (refused is not None and refused.times >= NAMED_ATTEMPTS)
        )  # fmt: skip

    def _units(
        self, now: RoundState, one: ChosenStart, free: Sequence[int], left: Sequence[float], room_uw: Sequence[float]
    ) -> list[int] | None:
        """Return units for a start: those of the policy, else others that may serve it; None where none fit.

        Starts that failed on chosen nodes before (their users may have asked for what they lack) begin elsewhere.
        """
        layout, bound = self.layout, self._is_bound(now, one)
        policys = list(one.start.nodes)
        kept = set(free) | (now.taken if one in now.reserved else set())
        if not bound and set(policys) <= kept and _fits(left, self.demand(policys, one.watts, room_uw)):
            return policys
        if one in now.reserved:
            return None
        asked = {layout.unit[name] for name in names_by_user(now, one.row) if name in layout.unit}
        able = now.snapshot.site.nodes.get(one.row.key)
        first, last = int(layout.first[one.start.partition]), int(layout.first[one.start.partition + 1])
        others = [
            unit for unit in free
            if first <= unit < last and unit not in asked and (able is None or layout.names[unit] in able)
        ]  # fmt: skip
        refused = now.planner.memory.refused.get(one.row.key)
        turn = (refused.times - 1) * len(policys) % max(len(others), 1) if refused is not None else 0
        if not asked <= set(free) or len(asked) < len(names_by_user(now, one.row)):
            return None
        found, each_w = list[int](), one.watts / len(policys)
        for unit in (*sorted(asked), *others[turn:], *others[:turn]):
            tried = [*found, unit]
            if len(found) < len(policys) and _fits(left, self.demand(tried, math.ceil(each_w * len(tried)), room_uw)):
                found = tried
        return sorted(found) if len(found) == len(policys) and asked <= set(found) else None

    def carried(self, row: Job, watts: Watts) -> tuple[tuple[str, int], ...]:
        """Return the licences that a job carries for its domains, as many as the text of its licences has room for."""
        native = row.native if isinstance(row.native, tuple) else ()
        length = sum(len(str(one)) + 1 for one in native) + len("watts:") + len(str(2**31))
        found = list[tuple[str, int]]()
        for licence, k in self.by_licence.items():
            if not watts.get(k):
                continue
            length += len(licence) + len(str(watts[k])) + 2
            if length < MOST_CHARACTERS:
                found.append((licence, watts[k]))
        return tuple(found)

    # -- what Slurm gets -------------------------------------------------------------------------
    def open_w(self, now: RoundState) -> tuple[tuple[str, int], ...]:
        """Return what jobs may hold of each licence: what the limit leaves, less what they hold beside licences."""
        room_uw, beside = self.room_uw(now.now_s), Counter[str]()
        counted = [(watts, dict(now.jobs.row[slot].domains)) for slot, watts in self.held(now, room_uw)]
        counted += [(self.demand(one.start.nodes, one.watts, room_uw), dict(one.domains)) for one in now.chosen]
        named = {k: licence for licence, k in self.by_licence.items()}
        for watts, shown in counted:
            for k in watts.keys() & named.keys():
                beside[named[k]] += max(0, watts[k] - shown.get(named[k], 0))
        self.set_aside = {licence: beside[licence] for licence in self.by_licence if beside[licence]}
        pools, found = now.snapshot.domains, list[tuple[str, int]]()
        for licence, k in self.by_licence.items():
            if licence in pools:
                room_w = int(min(room_uw[k] // UW, pools[licence].total))
                found.append((licence, max(0, room_w - beside[licence])))
        if GATE in pools:
            found.append((GATE, 0))
        return tuple(found)

    def note_time(self, now: RoundState) -> None:
        """Count the node seconds since the last round, and those for which pinned jobs kept idle nodes."""
        passed_s = min(max(now.now_s - self._counted_s, 0.0), LONGEST_S)
        self._counted_s = now.now_s
        kept = sum(len(row.requested) for row in now.rows_at(Stage.UNDER_WAY, Stage.LATE) if is_pinned(row))
        self.pinned_node_s += kept * passed_s
        self.node_s += len(self.layout.names) * passed_s

    def explained(self, now: RoundState) -> dict[str, object]:
        """Return what ``live why`` names a domain by: of each its parent, what it has left, and its free units."""
        room_uw, tree = self.room_uw(now.now_s), self.layout.machine.supply_tree
        left = [uw / UW for uw in room_uw]
        for _, watts in self.held(now, room_uw):
            _take(left, watts)
        free: list[Counter[int]] = [Counter() for _ in left]
        for unit in self._free(now):
            free[int(tree.of_unit[unit])][self.layout.row_of(unit)] += 1
        return {
            domain.name: [int(tree.parent[k]), None if math.isinf(left[k]) else left[k], float(tree.gain[k]),
                          {str(p): count for p, count in sorted(free[k].items())}]
            for k, domain in enumerate(self.domains)
        }  # fmt: skip

    def figures(self, now: RoundState) -> dict[str, object]:
        """Return figures for the status: watts of jobs in each domain and its room, and what pinning costs."""
        watts = {name: {"jobs_w": held, "room_w": room} for name, (held, room) in self.counted_w(now).items()}
        share = None if math.isnan(self.pinning_share) else self.pinning_share
        return {"watts": watts, "set_aside_w": dict(self.set_aside), "pinning_share": share}

    @property
    def pinning_share(self) -> float:
        """Return the share of node hours lost to pinning, NaN before there are any."""
        return self.pinned_node_s / self.node_s if self.node_s else math.nan


def names_by_user(now: RoundState, row: Job) -> set[str]:
    """Return the nodes that a job's user asked for."""
    memory = now.planner.memory
    return set(asked_of(memory.marks[row.key]) if memory.marked(row.key, NAMED) else row.requested)


@stage(reads="snapshot taken waiting jobs.row", writes="waiting jobs.stage jobs.reason")
def bar_unfree(now: RoundState) -> None:
    """Bar the jobs whose users asked for nodes that are not free now: the policy would keep others from starting."""
    jobs, nodes = now.jobs, now.snapshot.by_node
    busy = {now.planner.layout.names[unit] for unit in now.taken}
    for slot in [slot for slot in now.waiting.tolist() if jobs.row[slot].requested]:
        asked = sorted(names_by_user(now, jobs.row[slot]))
        lost = next((name for name in asked if name in busy or name not in nodes or not nodes[name].usable), "")
        if lost:
            jobs.bar(slot, f"its user asked for node {lost}, which is not free")
    now.waiting = jobs.waiting()


@stage(reads="snapshot running jobs.row jobs.stage jobs.owner", writes="displaced jobs.owner jobs.stage")
def displace(now: RoundState) -> None:
    """Find the pinned jobs whose nodes are lost, or held by another job: they are held again, and placed again.

    That needs no back-off: the job did nothing wrong. In the second pass of the same round it gets other nodes.
    """
    jobs, memory = now.jobs, now.planner.memory
    under_way = [
        slot for slot in jobs.at([Stage.UNDER_WAY, Stage.LATE])
        if is_pinned(jobs.row[slot]) and memory.marked(jobs.row[slot].key, NAMED)
    ]  # fmt: skip
    if not under_way:
        return
    nodes = now.snapshot.by_node
    holder = {name: row.key.name for row in jobs.rows(now.running) for name in row.node_names}
    for slot in under_way:
        row: Job = jobs.row[slot]
        lost = next((name for name in row.requested if name not in nodes or not nodes[name].usable), "")
        taken = next((name for name in row.requested if name in holder), "")
        if lost or taken:
            text = f"its node {lost} is lost" if lost else f"its node {taken} is held by job {holder[taken]}"
            now.displaced[row.key] = text
            jobs.put(slot, jobs.owner[slot], Stage.LATE)


def _is_loose(now: RoundState, slot: int) -> bool:
    """Whether a job with watts may start at any moment on nodes that nobody knows."""
    row: Job = now.jobs.row[slot]
    waits = now.jobs.stage[slot] in (Stage.STRAY, Stage.UNDER_WAY, Stage.LATE)
    return waits and not is_pinned(row) and (GATE, 1) not in row.domains


def _fits(left: Sequence[float], watts: Watts) -> bool:
    return all(w <= left[k] for k, w in watts.items())


def _take(left: list[float], watts: Watts) -> None:
    for k, w in watts.items():
        left[k] -= w
