"""Compare the partitions of a cluster with the machine file, in every round: a site moves nodes at any time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wattqueue.live.cluster import Node
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.world import Layout


def members_of(nodes: Iterable[Node]) -> dict[str, set[str]]:
    """Return the names of the nodes of each partition of the cluster."""
    members: dict[str, set[str]] = {}
    for node in nodes:
        for name in node.partitions:
            members.setdefault(name, set()).add(node.name)
    return members


def fits(layout: Layout, nodes: Iterable[Node]) -> bool:
    """Whether each managed partition has exactly the nodes of the layout."""
    found: dict[int, set[str]] = {row: set() for row in range(len(layout.machine.partitions))}
    for name, inside in members_of(nodes).items():
        if name in layout.partition_of:
            found[layout.partition_of[name]] |= inside
    first = layout.first
    return all(set(layout.names[first[row] : first[row + 1]]) == inside for row, inside in found.items())


def inspect_partitions(layout: Layout, nodes: Sequence[Node], shared: SharedNodes | None = None) -> list[str]:
    """Return what a person should know: partitions that the machine file lacks, and those with other nodes.

    ``shared`` are the partitions whose nodes jobs share.
    """
    found = []
    for name, inside in sorted(members_of(nodes).items()):
        row = layout.partition_of.get(name)
        managed = inside & layout.unit.keys()
        one = None if shared is None else shared.partition(name)
        if one is not None and managed:
            found.append(
                f"shared partition {name} holds {len(managed)} managed nodes, where its jobs would run without watts: "
                f"these nodes count their maximum beside what jobs hold, until they are in one of the two alone"
            )
        elif one is not None and len(inside) != one.nodes:
            found.append(
                f"shared partition {name} has {len(inside)} nodes, the machine file {one.nodes}, whose maximum counts "
                f"for each: correct the file, and install again"
            )
        elif one is None and row is None and managed:
            found.append(
                f"partition {name} holds {len(managed)} managed nodes and is not in the machine file: its jobs "
                f"count at its dearest node, and the resource manager schedules them"
            )
        elif row is not None:
            low, high = int(layout.first[row]), int(layout.first[row + 1])
            stated = layout.listed[row] if layout.listed else high - low
            if len(inside) != stated or inside != set(layout.names[low:high]):
                more = "" if len(inside) >= stated else "; the idle watts of those that are missing count until then"
                found.append(
                    f"partition {name} has {len(inside)} nodes, the machine file {stated}, whose watts count for each: "
                    f"correct the file, and install again{more}"
                )
    return found
