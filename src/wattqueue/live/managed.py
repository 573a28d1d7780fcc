"""The machine that a controller manages: all partitions of the machine file, or those that the configuration names.

A site can begin with one partition. The others are then left alone: their jobs carry no watts and are not held,
and the cap is one of the managed partitions alone.
"""

from __future__ import annotations

from dataclasses import replace

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import load_machine
from wattqueue.live.config import LiveConfig
from wattqueue.model.machine import Machine


def managed_machine(config: LiveConfig) -> Machine:
    """Return the configured machine with its managed partitions.

    Raises: InputError for a partition that the machine file lacks, and as :func:`load_machine`.
    """
    machine = load_machine(config.machine)
    if not config.slurm.only:
        return machine
    known = [partition.name for partition in machine.partitions]
    for name in config.slurm.only:
        if name not in known:
            hint = f"it has {', '.join(known)}"
            raise InputError(f"the machine file has no partition {name!r}", where="slurm.only", hint=hint)
    return replace(machine, partitions=tuple(p for p in machine.partitions if p.name in config.slurm.only))
