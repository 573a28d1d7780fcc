"""The machine that a controller manages: all partitions of the machine file, or those that the configuration names.

A site can begin with one partition. The others are then left alone: their jobs carry no watts and are not held,
and the cap is one of the managed partitions alone.

Partitions that share nodes (``[slurm] shared``) are not managed either, but the cap covers them: each of their nodes
counts its maximum once (``live.shared_nodes``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import load_machine
from wattqueue.live.config import LiveConfig
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.watts.counted import as_counted
from wattqueue.live.watts.shared_supply import without_shared
from wattqueue.model.machine import Machine
from wattqueue.policy.for_machine import SiteFacts


def managed_machine(config: LiveConfig) -> Machine:
    """Return the configured machine with its managed partitions: those on which the policy places jobs.

    Raises: InputError for a partition that the machine file lacks, that is named twice, or where none is left; and as
    :func:`load_machine`.
    """
    machine, only, shared = load_machine(config.machine), config.slurm.only, config.slurm.shared
    known = [partition.name for partition in machine.partitions]
    _require_known(only, known, "slurm.only")
    _require_known(shared, known, "slurm.shared")
    both = [name for name in shared if name in only]
    if both:
        hint = "a partition whose nodes are shared is not managed: take it out of one of the two"
        raise InputError(f"partition {both[0]!r} is in slurm.only as well", where="slurm.shared", hint=hint)
    names = [name for name in only or known if name not in shared]
    if not names:
        hint = "a policy needs a partition with whole nodes"
        raise InputError("every partition of the machine file is shared", where="slurm.shared", hint=hint)
    if shared and machine.supply and not only:
        machine = without_shared(machine, shared)
    managed = replace(machine, partitions=tuple(p for p in machine.partitions if p.name in names))
    return as_counted(managed) if config.slurm.hres else managed


def site_of(config: LiveConfig, machine: Machine) -> SiteFacts:
    """Return what a controller gives to rows that follow from the machine (``policy/for_machine.py``).

    Licences of running jobs follow what is measured only where something bounds what jobs draw later: limits on nodes,
    or an overshoot that the site accepts. Clocks are set through a folder or agents; only in control mode at all.
    """
    t, agents = config.telemetry, config.telemetry.broker is not None
    known = {} if machine.known is None else machine.known.options()
    if config.slurm.place_nodes == "never":
        known.pop("table", None)
    bounded = agents or bool(t.accepted_overshoot)
    clocks = agents or config.frequency_dir is not None or config.mode != "control"
    return SiteFacts(
        machine, known, t.track_running and t.any_node_source and bounded, agents, clocks, meters=t.any_node_source
    )


def shared_nodes(config: LiveConfig) -> SharedNodes:
    """Return the partitions whose nodes jobs share. Raises: as :func:`managed_machine`; MachineError without max_w."""
    if not config.slurm.shared:
        return SharedNodes()
    machine = load_machine(config.machine)
    _require_known(config.slurm.shared, [partition.name for partition in machine.partitions], "slurm.shared")
    parts = tuple(p for p in machine.partitions if p.name in config.slurm.shared)
    return SharedNodes(parts, machine.cap_scope, config.slurm.partitions)


def _require_known(names: Iterable[str], known: list[str], where: str) -> None:
    """Raise InputError for a partition that the machine file lacks."""
    for name in names:
        if name not in known:
            raise InputError(
                f"the machine file has no partition {name!r}", where=where, hint=f"it has {', '.join(known)}"
            )
