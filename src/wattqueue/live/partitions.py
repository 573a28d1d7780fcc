"""Compare the partitions of a cluster with the machine file, in every round: a site moves nodes at any time."""

from __future__ import annotations

from collections.abc import Iterable

from wattqueue.live.cluster import Node
from wattqueue.live.world import Layout


def inspect_partitions(layout: Layout, nodes: Iterable[Node]) -> list[str]:
    """Return what a person should know: partitions that the machine file lacks, and those with other nodes."""
    members: dict[str, set[str]] = {}
    for node in nodes:
        for name in node.partitions:
            members.setdefault(name, set()).add(node.name)
    found = []
    for name, inside in sorted(members.items()):
        row = layout.partition_of.get(name)
        managed = inside & layout.unit.keys()
        if row is None and managed:
            found.append(
                f"partition {name} holds {len(managed)} managed nodes and is not in the machine file: its jobs "
                f"count at its dearest node, and the resource manager schedules them"
            )
        elif row is not None:
            low, high = int(layout.first[row]), int(layout.first[row + 1])
            if inside != set(layout.names[low:high]):
                found.append(
                    f"partition {name} has other nodes than the machine file: correct it, install again, restart"
                )
    return found
