"""What is safe on any node while no controller plans, under power domains: the file ``domains`` of the run folder.

``live release`` lets the resource manager start jobs wherever it likes. That keeps every domain within its limit if the
jobs draw at most u watts a node, where for each domain, over its nodes

    sum of max(u, what the job draws that runs there or is pinned there)  <=  what its limit leaves to jobs

It holds for ever: when those jobs end, their nodes count u. The controller writes what each domain leaves, the lowest
limit to come, and which nodes it has; a release depends on neither machine file nor database.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wattqueue.errors import InputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.formats.slurm.hostlist import compress, expand
from wattqueue.live.cluster import Job

SUPPLY = "domains"
GATE = "watts_gate"
"""A licence of which there is one, and that is withheld: a job that carries it cannot start, whoever releases it."""
RESOURCE = "power"
"""The hierarchical resource by which Slurm itself counts watts in power domains (``slurm.hres``): so many for each node
of a job, wherever it starts."""


def counters(licences: Iterable[str], *, hres: bool) -> tuple[str, ...]:
    """Return the names by which Slurm counts watts in power domains: their licences, and the resource."""
    return (*licences, RESOURCE) if hres else (*licences,)


def of_each_node(watts: int, nodes: int) -> tuple[tuple[str, int], ...]:
    """Return what a job of so many net watts carries of the hierarchical resource: the watts of one of its nodes."""
    return ((RESOURCE, -(-watts // max(nodes, 1))),)


class DomainLimit(NamedTuple):
    """What jobs may draw in one domain."""

    name: str
    nodes: frozenset[str]
    room_w: int
    """Whole watts above what counts without jobs, at the lowest limit to come."""
    gain: float = 1.0
    """Watts that it counts for a watt of a node."""


class FallBack(NamedTuple):
    """What a release may start."""

    domains: Sequence[DomainLimit]
    node_w: Mapping[str, int]
    """Most net watts of each node."""
    licences: tuple[str, ...] = ()
    """Licences that count watts in domains, or the resource that does."""

    def text(self) -> str:
        """Return the content of the file."""
        domains = [[d.name, compress(sorted(d.nodes)), d.room_w, d.gain] for d in self.domains]
        by_watts: dict[int, list[str]] = {}
        for name, watts in self.node_w.items():
            by_watts.setdefault(watts, []).append(name)
        nodes = [[compress(names), watts] for watts, names in sorted(by_watts.items())]
        return json.dumps({"domains": domains, "nodes": nodes, "licences": self.licences}) + "\n"

    def safe_w(self, jobs: Iterable[Job]) -> int:
        """Return the most watts a node of a job that may start on any nodes beside these jobs; -1 for none at all."""
        drawn = dict[str, float]()
        for row in jobs:
            names = row.node_names if row.active else row.requested if is_pinned(row) and not row.held else ()
            each = row.watts / len(names) if names and row.watts >= 0 else 0.0
            for name in names:
                most = each if row.watts >= 0 else float(self.node_w.get(name, 0))
                drawn[name] = max(drawn.get(name, 0.0), most)
        return min((_most(domain, drawn) for domain in self.domains), default=-1)


def is_pinned(row: Job) -> bool:
    """Whether a job that waits can start on one set of nodes alone."""
    return bool(row.requested) and len(row.requested) == row.nodes == max(row.nodes, row.most_nodes)


def _most(domain: DomainLimit, drawn: Mapping[str, float]) -> int:
    """Return the most whole watts a node that fit one domain on any of its nodes; -1 where it is above its limit."""
    there = [drawn.get(name, 0.0) for name in domain.nodes]

    def counted(u: float) -> float:
        return domain.gain * math.fsum(max(u, w) for w in there)

    low, high = -1, domain.room_w + 1
    while high - low > 1:
        middle = (low + high) // 2
        if counted(middle) <= domain.room_w:
            low = middle
        else:
            high = middle
    return low


def write_supply(folder: Path, fall_back: FallBack) -> None:
    """Write the file. Raises: OutputError."""
    atomic_text(folder / SUPPLY, fall_back.text(), mode=0o644)


def read_supply(folder: Path) -> FallBack | None:
    """Read the file; None where there is none. Raises: InputError for one that is damaged or cannot be read."""
    path = folder / SUPPLY
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        domains = [DomainLimit(str(n), frozenset(expand(h)), int(w), float(g)) for n, h, w, g in data["domains"]]
        nodes = {name: int(watts) for hosts, watts in data["nodes"] for name in expand(hosts)}
        licences = tuple(str(name) for name in data["licences"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, InputError) as error:
        raise InputError(f"cannot be read: {error}", where=path, hint="a controller writes it again") from error
    return FallBack(domains, nodes, licences)
