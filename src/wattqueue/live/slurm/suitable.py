"""Find the nodes that may serve a job: its features, its excluded nodes, its resources, and the site's reservations.

For most jobs every node of their partitions will do. For the others the set is computed here, so that they are started
when such a node is free, and reserve nothing before. What cannot be computed (counts of features, alternatives in
brackets) restricts nothing; Slurm then says so in the job's reason, and the controller takes the job back.

Reservations. A node in a reservation serves its jobs alone while the reservation is active, and before that no job that
would still run when it begins. Maintenance windows are reservations. A job that names a reservation gets its nodes
only, from its begin on. With the flag FLEX a job may begin before and use other nodes, so nothing is known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wattqueue.errors import InputError
from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.cluster import Node
from wattqueue.live.slurm.sizing import Needs, Shape, can_hold

RESERVATIONS = ("scontrol", "-o", "show", "reservation")
FEATURES = ("sinfo", "-h", "-a", "-e", "-o", "%N|%b")
"""Active features of nodes."""
SOFT = frozenset({"FLEX", "MAGNETIC"})


class Reservation(NamedTuple):
    """Nodes that are set aside. Licence reservations have none."""

    name: str
    start_s: float
    end_s: float
    nodes: frozenset[str]
    flags: frozenset[str]

    def active(self, now_s: float) -> bool:
        """Whether it is in force."""
        return self.start_s <= now_s < self.end_s


class NodeTraits(NamedTuple):
    """What jobs may ask of a node."""

    features: frozenset[str]
    shape: Shape


def parse_reservations(text: str) -> tuple[Reservation, ...]:
    """Reservations of nodes of ``scontrol -o show reservation``, in order of their begin."""
    found = []
    for line in text.splitlines():
        fields = dict(piece.split("=", 1) for piece in line.split() if "=" in piece)
        nodes = fields.get("Nodes", "(null)")
        if "ReservationName" not in fields or nodes in ("(null)", ""):
            continue
        try:
            start_s, end_s = float(fields["StartTime"]), float(fields["EndTime"])
            names = frozenset(expand(nodes))
        except (KeyError, ValueError, InputError):
            continue
        flags = frozenset(fields.get("Flags", "").split(","))
        found.append(Reservation(fields["ReservationName"], start_s, end_s, names, flags))
    return tuple(sorted(found, key=lambda one: (one.start_s, one.name)))


def parse_features(text: str) -> dict[str, frozenset[str]]:
    """Active features by node of sinfo with FEATURES; nodes without any are left out."""
    found = {}
    for line in text.splitlines():
        names, _, features = line.partition("|")
        if features in ("", "(null)"):
            continue
        mine = frozenset(features.split(","))
        found.update(dict.fromkeys(expand(names), mine))
    return found


def has_features(expression: str, features: frozenset[str]) -> bool:
    """Whether a node's features satisfy a job's; True for an expression that is not plain AND and OR of names.

    ``&`` binds stronger than ``|`` here. Slurm reads a mixture from left to right, so a mixture is not computed.
    """
    text = expression.replace(",", "&")
    if not re.fullmatch(r"[\w.\-:=/]+(?:[&|][\w.\-:=/]+)*", text) or ("&" in text and "|" in text):
        return True
    if "|" in text:
        return any(name in features for name in text.split("|"))
    return all(name in features for name in text.split("&"))


Groups = Mapping[str, tuple[tuple[NodeTraits, frozenset[str]], ...]]
"""Nodes of each partition, those with equal traits together."""


def group_nodes(nodes: Iterable[Node], features: Mapping[str, frozenset[str]], shapes: Mapping[str, Shape]) -> Groups:
    """Group the nodes of each partition by what jobs may ask of them."""
    found: dict[str, dict[NodeTraits, set[str]]] = {}
    for node in nodes:
        one = NodeTraits(features.get(node.name, frozenset()), shapes.get(node.name, Shape(0)))
        for name in node.partitions:
            found.setdefault(name, {}).setdefault(one, set()).add(node.name)
    return {name: tuple((one, frozenset(names)) for one, names in kinds.items()) for name, kinds in found.items()}


def able_nodes(
    groups: Groups, partitions: Iterable[str], features: str, excluded: frozenset[str], needs: Needs | None
) -> frozenset[str] | None:
    """Return the nodes of these partitions that have the features, are not excluded, and can hold a task of the job.

    None where all of them do. A node whose resources are not known (0 CPUs) can hold anything.
    """
    found, every = set[str](), True
    for name in partitions:
        for one, members in groups.get(name, ()):
            fits = not features or has_features(features, one.features)
            fits = fits and (needs is None or not one.shape.cpus or can_hold(needs, (one.shape,)))
            every = every and fits and excluded.isdisjoint(members)
            if fits:
                found |= members - excluded
    return None if every else frozenset(found)


def closed_nodes(reservations: Iterable[Reservation], now_s: float, limit_s: float, own: str) -> frozenset[str]:
    """Return the nodes that reservations keep from a job which would run for ``limit_s`` from now on.

    ``own`` is the reservation that it names, whose nodes are not kept from it.
    """
    out: set[str] = set()
    end_s = now_s + limit_s if math.isfinite(limit_s) else math.inf
    for one in reservations:
        if one.name != own and one.start_s < end_s and now_s < one.end_s:
            out |= one.nodes
    return frozenset(out)
