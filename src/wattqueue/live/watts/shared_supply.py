"""Power domains beside partitions whose nodes jobs share: each of these nodes counts its maximum in its domains.

What jobs draw together on such a node is at most its maximum (``live.shared_nodes``). That is taken off the limits of
the domains above it, with the losses on the way, and the node is no unit of the tree any more: whatever Slurm starts
there, the managed nodes of a domain keep what is left. A node that is drained counts its maximum, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from wattqueue.errors import MachineError
from wattqueue.model.machine import Machine
from wattqueue.model.supply import SupplyDomain, node_ranges


def without_shared(machine: Machine, shared: Collection[str]) -> Machine:
    """Return a machine without the ``shared`` partitions, whose domains leave to jobs what these partitions leave.

    A domain of shared nodes alone is left out.

    Raises: MachineError for a limit that idle machine and shared nodes exceed, and for shared nodes without a maximum.
    """
    tree, left_w, kept = machine.supply_tree, dict[str, float](), list[SupplyDomain]()
    for k, domain in enumerate(tree.domains):
        parts = [(part, machine.partitions[part.partition]) for part in tree.below[k]]
        drawn_w = sum(part.units * _above_idle_w(machine, part.partition) * part.gain
                      for part, one in parts if one.name in shared)  # fmt: skip
        left_w[domain.name] = int(machine.supply_idle_uw[k]) / 1e6 + drawn_w
        if drawn_w and left_w[domain.name] > domain.least_limit_w:
            text = f"{left_w[domain.name]:,.0f} W with its shared nodes at their maximum, more than its limit"
            raise MachineError(text, where=f"supply {domain.name}", hint="take their partition out of slurm.shared")
        if any(one.name not in shared for _, one in parts):
            ranges = node_ranges(domain.nodes, f"supply {domain.name}")
            nodes = ",".join(f"{name}[{a}-{'' if b is None else b}]" for name, a, b in ranges if name not in shared)
            kept.append(replace(domain, nodes=nodes))
    managed = tuple(one for one in machine.partitions if one.name not in shared)
    bare = replace(machine, partitions=managed, supply=tuple(kept))
    idle_w = {one.name: int(uw) / 1e6 for one, uw in zip(bare.supply_tree.domains, bare.supply_idle_uw, strict=True)}
    less_w = {name: left_w[name] - idle_w[name] for name in idle_w}
    lowered = (
        replace(
            one, limit_w=None if one.limit_w is None else one.limit_w - less_w[one.name],
            limits_w=tuple(watts - less_w[one.name] for watts in one.limits_w),
        )
        for one in kept
    )  # fmt: skip
    return replace(bare, supply=tuple(lowered))


def _above_idle_w(machine: Machine, p: int) -> float:
    """Return the most watts of a shared node above what it counts idle, in the cap's scope."""
    partition = machine.partitions[p]
    if partition.max_w is None:
        raise MachineError("max_w is not stated", where=f"partition {partition.name}", hint="shared nodes count it")
    return partition.max_w - (0.0 if machine.cap_scope == "jobs" else partition.idle_w)
