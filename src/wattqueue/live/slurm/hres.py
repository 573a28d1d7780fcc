"""Power domains as a hierarchical resource of Slurm (HRES, mode 3): the file ``resources.yaml``.

From 25.11.7 and 26.05.2 on Slurm can hold a tree of counts by itself, for any job and with no controller at work: a job
asks for so many of the resource for each of its nodes, and every layer above a node counts them. The resource is watts
of a node above what counts without jobs. Slurm has no losses and no limits that move: a domain's count is what its
limit leaves, over the greatest loss on the way to it, rounded down. So whatever fits Slurm's counts fits the domains.

Slurm wants one layer above all, no two layers of the same nodes, and all nodes at one depth (26.05.5 ends with a fatal
error otherwise: "duplicate layer", "isn't a perfect tree"). So domains of the same nodes become one layer, and a domain
that stands less deep than others is divided in halves that have its count each.

26.05.5 chooses nodes by what a job asked for at its submission. Each change of its licences ends that, until slurmctld
starts again: what the job then has is deducted and not tested.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError, MachineError
from wattqueue.formats.slurm.hostlist import compress, expand
from wattqueue.live.files.supply_limits import RESOURCE
from wattqueue.live.watts.counted import count_of, require_countable
from wattqueue.model.machine import Machine
from wattqueue.model.plain_numbers import is_whole

SINCE = ((25, 11, 7), (26, 5, 2))
"""The first release of each series in which arrays do not end slurmctld and requeued jobs keep what they count."""
DEEPEST = 16
"""Layers above a node at most, as Slurm has it."""
NODES, COUNT = re.compile(r'\s*- "([^"]+)"\s*$'), re.compile(r"\s*count:\s*([0-9]+)\s*$")


@dataclass(frozen=True, slots=True)
class HresLayer:
    """A layer: its nodes by Slurm's names, and how many watts above idle they may draw together."""

    name: str
    """The domain; not part of the file but for a comment."""
    nodes: tuple[str, ...]
    count: int


def layers_of(machine: Machine, names: Sequence[str]) -> list[HresLayer]:
    """Return the layers of a machine's domains from the top down; ``names`` are Slurm's, in the order of its nodes.

    Raises: MachineError for what Slurm cannot hold: a limit that moves, sockets or cores, no stated maximum where a
    domain has no limit; InputError for other nodes than the machine has.
    """
    require_countable(machine)
    tree = machine.supply_tree
    if len(set(names)) != machine.units or len(names) != machine.units:
        raise InputError(f"{len(names)} names for {machine.units} nodes", where="--nodes", hint="each node once")
    counts = [count_of(machine, k) for k in range(len(tree.domains))]
    tops = [k for k in range(len(tree.domains)) if tree.parent[k] < 0]
    found = [("all", list(range(machine.units)), sum(counts[k] for k in tops))] if len(tops) > 1 else []
    for k in reversed(range(len(tree.domains))):  # those that feed others first
        inside = np.flatnonzero(np.isin(tree.of_unit, [part.own for part in tree.below[k]]))
        found.append((tree.domains[k].name, inside.tolist(), counts[k]))
    least = dict[tuple[int, ...], tuple[str, int]]()
    for name, units, count in found:  # Slurm takes no second layer of the same nodes
        if tuple(units) not in least or count < least[tuple(units)][1]:
            least[tuple(units)] = (name, count)
    parts = [_Part(name, units, count) for units, (name, count) in sorted(least.items(), key=lambda one: -len(one[0]))]
    levels = _as_deep(parts, machine)
    return [HresLayer(part.name, tuple(names[k] for k in part.units), part.count) for part in levels]


@dataclass(frozen=True, slots=True)
class _Part:
    """A layer by numbers of nodes."""

    name: str
    units: tuple[int, ...]
    count: int

    def halves(self, times: int) -> list[_Part]:
        """Return the layers of so many further levels below it, each level with all of its nodes."""
        if times == 0:
            return []
        middle = len(self.units) // 2
        both = [_Part(self.name, units, self.count) for units in (self.units[:middle], self.units[middle:])]
        return [*both, *(part for one in both for part in one.halves(times - 1))]


def _as_deep(parts: Sequence[_Part], machine: Machine) -> list[_Part]:
    """Return layers, the largest first, with those added that put every node at the same depth; the largest first.

    Raises: MachineError for a domain with too few nodes to be divided so often, and too many levels.
    """
    innermost, depth, has_below = [-1] * machine.units, list[int](), set[int]()
    for k, part in enumerate(parts):
        above = innermost[part.units[0]]
        has_below.add(above)
        depth.append(depth[above] + 1 if above >= 0 else 1)
        for unit in part.units:
            innermost[unit] = k
    deepest, found = max(depth), list(parts)
    for k, part in enumerate(parts):
        own, level = part, depth[k]
        if k in has_below:
            rest = tuple(unit for unit in part.units if innermost[unit] == k)
            if not rest:
                continue
            own, level = _Part(part.name, rest, part.count), depth[k] + 1
            deepest = max(deepest, level)
            found.append(own)
        if len(own.units) < 1 << (deepest - level):
            raise MachineError(
                f"{len(own.units)} nodes {deepest - level} levels above the lowest domains, and Slurm wants all nodes "
                "at one depth, no two layers with the same nodes",
                where=f"supply {part.name}",
                hint="leave a level out of the other domains, or let domains below this one stand for parts of it",
            )
        found += own.halves(deepest - level)
    if deepest > DEEPEST:
        raise MachineError(f"{deepest} levels", where=machine.name, hint=f"Slurm has {DEEPEST} at most")
    return sorted(found, key=lambda part: -len(part.units))


def hres_text(machine: Machine, layers: Sequence[HresLayer]) -> str:
    """Return the content of resources.yaml."""
    lines = [
        f"# Power domains of {machine.name}: watts of a node above what counts without jobs. A job asks for",
        f"# --resources={RESOURCE}:WATTS, of each of its nodes. Written by wattqueue live export-hres.",
        "---",
        f"- resource: {RESOURCE}",
        "  mode: MODE_3",
        "  layers:",
    ]
    for layer in layers:
        lines += [
            f"    - nodes:  # {layer.name}",
            f'        - "{compress(layer.nodes)}"',
            f"      count: {layer.count}",
        ]
    return "\n".join([*lines, ""])


def read_hres(path: Path) -> list[HresLayer]:
    """Return the layers of a file that ``hres_text`` wrote; their names from its comments.

    Raises: InputError for a file that cannot be read, or that is not such a file.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=path, hint="give the resources.yaml of Slurm") from error
    found = list[HresLayer]()
    name, nodes = "", tuple[str, ...]()
    for line in lines:
        if line.strip().startswith("- nodes:"):
            name, nodes = line.partition("#")[2].strip(), ()
        elif match := NODES.match(line):
            nodes = (*nodes, *expand(match[1]))
        elif (match := COUNT.match(line)) and nodes:
            found.append(HresLayer(name, nodes, int(match[1])))
            nodes = ()
    if not found or not any(line.strip() == f"- resource: {RESOURCE}" for line in lines):
        raise InputError("no resource of power domains", where=path, hint="wattqueue live export-hres writes one")
    return found


def differences(stated: Sequence[HresLayer], there: Sequence[HresLayer]) -> list[str]:
    """Return how a file differs from what the machine says, layer by layer; empty where it does not."""
    want = [(frozenset(layer.nodes), layer.count) for layer in stated]
    have = [(frozenset(layer.nodes), layer.count) for layer in there]
    if sorted(map(_key, want)) == sorted(map(_key, have)):
        return []
    names = {frozenset(layer.nodes): layer.name for layer in (*there, *stated)}
    left, found = list(have), list[str]()
    for nodes, count in want:
        if (nodes, count) in left:
            left.remove((nodes, count))
        else:
            other = next((c for n, c in left if n == nodes), None)
            has = "is missing" if other is None else f"has {other:,} W"
            found.append(f"{names[nodes]} {has}, the machine file says {count:,} W")
            left = [pair for pair in left if pair != (nodes, other)]
    return found + [f"{names[nodes] or compress(nodes)} ({count:,} W) is in the file alone" for nodes, count in left]


def shown_layers(text: str) -> list[tuple[HresLayer, int]]:
    """Return the layers that ``scontrol -o show licenses`` prints, by their nodes, and what jobs use of each."""
    found = list[tuple[HresLayer, int]]()
    for line in text.splitlines():
        fields = dict(piece.split("=", 1) for piece in line.split() if "=" in piece)
        total, used = fields.get("Total", ""), fields.get("Used", "")
        if fields.get("LicenseName") == RESOURCE and "Nodes" in fields and is_whole(total) and is_whole(used):
            nodes = tuple(expand(fields["Nodes"]))
            found.append((HresLayer(fields["Nodes"], nodes, int(total)), int(used)))
    return found


def holds_trees(version: str) -> bool:
    """Whether a release of Slurm holds such a resource, with arrays and requeued jobs."""
    numbers = tuple(int(piece) for piece in version.split(".")[:3] if is_whole(piece))
    return numbers[:2] > SINCE[-1][:2] or any(numbers[:2] == since[:2] and numbers >= since for since in SINCE)


def _key(pair: tuple[frozenset[str], int]) -> tuple[list[str], int]:
    return sorted(pair[0]), pair[1]
