"""Power domains in whole watts of nodes above idle: what a hierarchical resource of Slurm counts (``slurm.hres``)."""

from __future__ import annotations

import math
from dataclasses import replace

from wattqueue.errors import MachineError
from wattqueue.model.machine import Machine


def require_countable(machine: Machine) -> None:
    """Raise MachineError for what no count of whole nodes stands for: no domains, parts of nodes, moving limits."""
    where = machine.name
    if not machine.supply:
        raise MachineError("states no power domains", where=where, hint="write [[supply]] into the machine file")
    if any(part.unit != "node" for part in machine.partitions):
        raise MachineError("counts sockets or cores", where=where, hint="Slurm's resource is of whole nodes")
    moving = next((domain.name for domain in machine.supply_tree.domains if domain.limit_s), "")
    if moving:
        hint = "Slurm reads the file at a reconfiguration: give the lowest limit, or keep the controller's licences"
        raise MachineError("its limit moves", where=f"supply {moving}", hint=hint)


def count_of(machine: Machine, k: int) -> int:
    """Return how many whole watts of nodes a domain has room for; what its nodes draw at most where it has no limit."""
    tree, domain = machine.supply_tree, machine.supply_tree.domains[k]
    units = sum(part.units for part in tree.below[k])
    if not math.isfinite(domain.least_limit_w):
        watts = 0.0
        for part in tree.below[k]:
            most = machine.partitions[part.partition].max_w
            if most is None:
                hint = f"state max_w of {machine.partitions[part.partition].name}, or a limit"
                raise MachineError("no limit, and nodes without a maximum", where=f"supply {domain.name}", hint=hint)
            watts += part.units * max(most - machine.unit_net_idle_w[part.partition], 0.0)
        return math.ceil(watts)
    room_uw, gain = round(domain.least_limit_w * 1e6) - int(machine.supply_idle_uw[k]), float(tree.gain[k])
    if gain == 1.0:
        return max(room_uw // 1_000_000, 0)
    return max(math.floor((room_uw - units) / gain / 1e6 * (1.0 - 1e-12)), 0)  # each unit is rounded up


def as_counted(machine: Machine) -> Machine:
    """Return a machine whose domains leave to jobs just what Slurm counts: whole watts, without base and losses.

    A policy that decides under it starts what Slurm starts. Its layers are those of ``machine``.

    Raises: MachineError as ``layers_of``.
    """
    require_countable(machine)
    tree = machine.supply_tree
    counts = {domain.name: count_of(machine, k) for k, domain in enumerate(tree.domains)}
    bare = replace(machine, supply=tuple(replace(one, base_w=0.0, efficiency=1.0) for one in machine.supply))
    idle_uw = dict(zip([one.name for one in bare.supply_tree.domains], bare.supply_idle_uw.tolist(), strict=True))
    supply = tuple(
        replace(one, limit_w=counts[one.name] + idle_uw[one.name] / 1e6) if math.isfinite(one.least_limit_w) else one
        for one in bare.supply
    )
    return replace(bare, supply=supply)
