"""GPUs that are given by node: those of one job are in one node, or make up whole nodes (rule 23 of docs/semantics.md).

In such a partition each node is a leaf (``kernels/supply.py``), whether or not it is a power domain. A job of n GPUs of
nodes of G fits where one node has n free, n <= G, or ceil(n / G) nodes are wholly free, and all domains above them have
room. Both are exact: of equal nodes, those that fit are the independent sets of a laminar matroid, as units are
elsewhere, and a job within a node is one element of it. What fits only falls with n, so that one number bounds the jobs
that fit into free units (``fits_at_once``).
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.state import KernelView, SupplyLimits, SupplyLoad
from wattqueue.kernels.supply_load import VERSION, fed_by, units_that_fit


@inlined
def holds_job(supply: SupplyLimits, p: int, need: int, unit_net: int, load: SupplyLoad) -> bool:
    """Return whether ``need`` units of ``unit_net`` microwatts of one job fit in partition p beside a load."""
    if supply.of_node[p] > 0:
        return nodes_hold(supply, p, need, unit_net, load)
    return bool(units_that_fit(supply, p, unit_net, load) >= need)


@inlined
def nodes_for(supply: SupplyLimits, p: int, need: int) -> int:
    """Return on how many nodes a job of so many units is, where they are given by node."""
    of_node = as_int64(supply.of_node[p])
    return int((need + of_node - 1) // of_node)


@kernel
def nodes_hold(supply: SupplyLimits, p: int, need: int, unit_net: int, load: SupplyLoad) -> bool:
    """Return the same where units are given by node."""
    each, nodes = min(need, as_int64(supply.of_node[p])), nodes_for(supply, p, need)
    if len(supply.room) == 0:
        return bool(nodes_with(supply, p, each, load) >= nodes)
    if nodes > 1:
        return bool(whole_nodes_that_fit(supply, p, unit_net, load) >= nodes)
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        if load.free[leaf] >= need and path_feeds(supply, as_int64(supply.leaf_domain[leaf]), need, unit_net, load):
            return True
    return False


@inlined
def nodes_with(supply: SupplyLimits, p: int, units: int, load: SupplyLoad) -> int:
    """Return how many nodes of partition p have so many free units."""
    found = as_int64(0)
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        found += load.free[leaf] >= units
    return int(found)


@kernel
def path_feeds(supply: SupplyLimits, domain: int, units: int, unit_net: int, load: SupplyLoad) -> bool:
    """Return whether a domain and all above it have room for so many units of one job; -1 stands above all domains."""
    while domain >= 0:
        if fed_by(supply, domain, unit_net, load, units) < units:
            return False
        domain = as_int64(supply.parent[domain])
    return True


@kernel
def whole_nodes_that_fit(supply: SupplyLimits, p: int, unit_net: int, load: SupplyLoad) -> int:
    """Return the most wholly free nodes of partition p for which all domains have room, of one job."""
    of_node, below, found = as_int64(supply.of_node[p]), supply.below, as_int64(0)
    for domain in range(len(below)):
        below[domain] = 0
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        if load.free[leaf] == of_node:
            domain = as_int64(supply.leaf_domain[leaf])
            if domain < 0:
                found += 1
            else:
                below[domain] += 1
    for domain in range(len(below)):
        here, up = as_int64(below[domain]), as_int64(supply.parent[domain])
        if here > 0:
            here = fed_by(supply, as_int64(domain), unit_net, load, here * of_node) // of_node
        if up < 0:
            found += here
        else:
            below[up] += here
    return int(found)


@inlined
def fits_at_once(view: KernelView, p: int) -> int:
    """Return the units of the widest job that fits into the free units of partition p, whatever it draws."""
    supply = view.supply
    if supply.of_node[p] == 0:
        return codes.ANY_NEED
    if supply.at_once[1, p] != supply.marks[VERSION]:
        supply.at_once[0, p], supply.at_once[1, p] = widest_job(view, p), supply.marks[VERSION]
    return int(supply.at_once[0, p])


@separate
def widest_job(view: KernelView, p: int) -> int:
    """Compute that: units of all wholly free nodes, or the most free ones of a node."""
    supply = view.supply
    of_node, whole, most = as_int64(supply.of_node[p]), as_int64(0), as_int64(0)
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        whole += supply.free[leaf] == of_node
        most = max(most, as_int64(supply.free[leaf]))
    return int(max(whole * of_node, most))
