"""Power domains as a part of a controller's rounds (``live.watts.domains``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wattqueue.errors import InputError, MachineError
from wattqueue.live.cluster import POOL
from wattqueue.live.config import LiveConfig
from wattqueue.live.extension import Extension, Place, beside
from wattqueue.live.files.supply_limits import (
    GATE,
    RESOURCE,
    DomainLimit,
    FallBack,
    counters,
    read_supply,
    write_supply,
)
from wattqueue.live.planner import RoundState, StageFunction, stage
from wattqueue.live.table import Owner, Stage
from wattqueue.live.watts.domains import LiveDomains, bar_unfree, displace
from wattqueue.live.watts.fed import Fed, Limits, fed_partitions, limits_from, never_start
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine
from wattqueue.model.supply_binding import binding_as_stated

LICENCE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""A licence's name."""
NOT_COMBINED = "is not combined with power domains yet"


def binds(machine: Machine) -> bool:
    """Whether some power domain can hold jobs back that draw no more than the machine file states."""
    return bool(binding_as_stated(machine).any())


def licences_of(config: LiveConfig, machine: Machine) -> dict[str, str] | None:
    """Return the licences of a machine's power domains, none under ``slurm.hres``; None where no domain can bind.

    Raises: InputError for a domain that is not there, a licence that Slurm could not have, and for what is not combined
    with domains yet.
    """
    given, slurm = config.slurm.domains, config.slurm
    known = [domain.name for domain in machine.supply]
    for name, licence in given.items():
        if name not in known:
            raise InputError(f"no power domain {name!r}", where="slurm.domains", hint=f"it has {', '.join(known)}")
        if (
            not LICENCE.fullmatch(licence)
            or licence in (POOL, GATE, RESOURCE)
            or list(given.values()).count(licence) > 1
        ):
            hint = "letters, digits and _, each domain another name, none of them watts"
            raise InputError(f"{name} = {licence!r}", where="slurm.domains", hint=hint)
    if not binds(machine):
        return None
    if config.flux is not None:
        raise InputError(NOT_COMBINED, where="flux", hint="leave [[supply]] out, or state limits that cannot bind")
    if slurm.hres and given:
        raise InputError(
            "Slurm holds the domains by itself (hres)", where="slurm.domains", hint="leave one of them out"
        )
    if not (given or slurm.hres):
        hint = 'name them ([slurm.domains] rack1 = "w1"; live install shows counts), or let Slurm hold them (hres)'
        raise InputError("power domains can hold jobs back, and none has a licence", where="slurm.domains", hint=hint)
    lacking = (
        (config.guard is not None, "guard", "leave [guard] out"),
        (slurm.hres and bool(slurm.shared), "slurm.shared", "Slurm's resource would not count jobs on shared nodes"),
        (bool(slurm.only), "slurm.only", "manage all partitions of the machine file"),
        (slurm.power_nodes, "slurm.power_nodes", "leave nodes on"),
        (slurm.place_nodes == "never", "slurm.place_nodes", "starts are bound to nodes under power domains"),
        (slurm.pool != "reservation", "slurm.pool", 'pool = "reservation"'),
        (config.telemetry.track_running, "telemetry.track_running", "licences stay as they were at the start"),
    )
    for there, where, hint in lacking:
        if there:
            raise InputError(NOT_COMBINED, where=where, hint=hint)
    return dict(given)


def moved_nodes(old: FallBack | None, new: FallBack) -> list[str]:
    """Return the nodes that stand in other power domains than before.

    The machine file numbers the nodes of a partition in the order of their names: where one gets another name, or is
    removed and another one added, those between them take other numbers.
    """
    if old is None:
        return []
    both = {one.name for one in old.domains} & {one.name for one in new.domains}
    before, now = ({one.name: one.nodes for one in this.domains if one.name in both} for this in (old, new))
    stays = old.node_w.keys() & new.node_w.keys()
    return sorted({name for key in both for name in (before[key] ^ now[key]) & stays})


def require_same_domains(before: Layout, layout: Layout) -> None:
    """Raise MachineError where a node of the layout before would stand in another power domain now."""
    old, new = (lasting(LiveDomains(one)) for one in (before, layout))
    if moved := moved_nodes(old, new):
        text = f"{moved[0]} would stand in another power domain: the machine file numbers nodes in the order of names"
        raise MachineError(text, where=layout.machine.name, hint="correct [[supply]], and restart the controller")


@dataclass
class SupplyLines:
    """What the status says about power domains."""

    domains: LiveDomains
    components: int = 0
    """Heterogeneous jobs that are held."""
    written_uw: Sequence[float] = ()
    """What limits leave by the file for releases, as last written."""
    moved: Sequence[str] = ()
    """Nodes that stood in other domains when a controller was last at work."""
    never: Sequence[str] = ()
    """Queued jobs that need more nodes than any limit from now on feeds."""
    limits: Limits | None = None
    fed: Sequence[Fed | None] = ()
    """How many nodes of each partition of the machine these limits feed."""

    def lines(self) -> Iterator[str]:
        """Yield what a person should know."""
        found = self.domains
        if found.loose:
            text = f"{len(found.loose)} jobs may start on any node, {found.loose[0]} is one"
            yield f"{text}: nothing starts beside them, for the power domains"
        if not found.gated:
            yield f"nothing starts: no reservation withholds the licence {GATE} (slurm.conf: Licenses=...,{GATE}:1)"
        if self.moved:
            yield f"{len(self.moved)} nodes stood in other power domains before, {self.moved[0]} is one: see [[supply]]"
        if found.postponed:
            yield f"{found.postponed} starts wait for nodes whose power domains have room"
        if self.never:
            text = f"{len(self.never)} queued jobs need more nodes than power domains ever feed, {self.never[0]} is one"
            names = ", ".join(dict.fromkeys(one.domain for one in self.fed if one is not None))
            yield f"{text}: raise a limit ({names}), or cancel them"
        if self.components:
            text = (
                f"{self.components} components of heterogeneous jobs never start: Slurm would place them in any domain"
            )
            yield f"{text}; cancel these jobs, and submit their components as jobs of their own"


def least_rooms_uw(domains: LiveDomains, now_s: float) -> list[float]:
    """Return what jobs may draw in each domain at its lowest limit from a time on, in microwatts; inf without one."""
    found = list[float]()
    for k, domain in enumerate(domains.domains):
        later_w = [w for time_s, w in zip(domain.limit_s, domain.limits_w, strict=True) if time_s > now_s]
        found.append(domains.room_under(k, min([domain.limit_at(now_s), *later_w])))
    return found


def fall_back(domains: LiveDomains, least_uw: Sequence[float]) -> FallBack:
    """Return what is safe on any node, where domains leave so much to jobs (``least_rooms_uw``)."""
    layout, tree = domains.layout, domains.layout.machine.supply_tree
    found = []
    for k, (domain, room_uw) in enumerate(zip(tree.domains, least_uw, strict=True)):
        if math.isfinite(room_uw):
            own = {part.own for part in tree.below[k]}
            nodes = frozenset(
                name for name, leaf in zip(layout.names, tree.of_unit.tolist(), strict=True) if leaf in own
            )
            gain = float(tree.gain[k])
            found.append(DomainLimit(domain.name, nodes, math.floor(room_uw / 1e6) - (gain != 1.0), gain))
    most = [layout.most_net_w(p) for p in range(len(layout.machine.partitions))]
    return FallBack(
        found,
        {name: most[layout.row_of(unit)] for unit, name in enumerate(layout.names)},
        (*counters(domains.by_licence, hres=domains.hres), GATE),
    )


def lasting(domains: LiveDomains) -> FallBack:
    """Return what is safe on any node at the lowest limits of all time."""
    return fall_back(domains, least_rooms_uw(domains, -math.inf))


def supply_extension(domains: LiveDomains, folder: Path) -> Extension:
    """Return the stages of power domains; ``folder`` is the run folder, in which a release finds what is safe."""
    told = SupplyLines(domains)
    with suppress(InputError):  # it is written again
        told.moved = moved_nodes(read_supply(folder), lasting(domains))

    @stage(reads="snapshot view taken holding chosen reserved jobs.row jobs.net_w jobs.units", writes="explained")
    def explain(now: RoundState) -> None:
        now.explained["domains"] = lambda: domains.explained(now)

    def write(now: RoundState) -> None:
        least_uw = least_rooms_uw(domains, now.now_s)  # all else in the file stays as long as these nodes do
        if least_uw != told.written_uw:
            write_supply(folder, fall_back(domains, least_uw))
            told.written_uw = least_uw

    def count(now: RoundState) -> None:
        domains.note_time(now)
        told.components = len(now.jobs.at([Stage.HELD], Owner.HANDED_OVER))
        limits = limits_from(domains.layout.machine, now.now_s)
        if limits != told.limits:
            told.limits, told.fed = limits, fed_partitions(domains.layout, limits)
        told.never = [now.jobs.name[slot] for slot in never_start(now.jobs, told.fed).tolist()]

    stages: dict[Place, StageFunction] = {
        "classified": displace,
        "decide": bar_unfree,
        "planned": explain,
        "writes": beside("what a release may start", write),
        "report": count,
    }
    return Extension(stages, told.lines, keeps=domains)
