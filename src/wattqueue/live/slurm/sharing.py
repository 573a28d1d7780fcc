"""Find what makes the power budget inexact or slow: shared nodes, a backfill without licences, jobs that grow.

The first two do not void the cap. A job counts whole nodes, so jobs that share a node count it several times, and the
budget is used less than it could be (11 jobs of one CPU on two nodes were seen to hold 1,650 W).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from wattqueue.live.cluster import Finding
from wattqueue.live.slurm.commands import Slurm, SlurmError

EXPANSION = "permit_job_expansion"
"""The option that lets running jobs grow by the nodes of others."""
PARTITIONS = ("scontrol", "-o", "show", "partition")


def find_inexact(slurm: Slurm, values: Mapping[str, str], managed: Collection[str]) -> Iterator[Finding]:
    """Return what to correct in slurm.conf; ``values`` are its settings, ``managed`` the partitions with watts."""
    shared = {name: how for name, how in shared_partitions(slurm, values).items() if name in managed}
    for name, how in sorted(shared.items()):
        text = (
            f"partition {name} shares nodes among jobs ({how}): each job counts whole nodes, "
            "so jobs on one node count it several times; set OverSubscribe=EXCLUSIVE, or name it in [slurm] shared"
        )
        yield Finding(text, fatal=False)
    parameters = values.get("SchedulerParameters", "").split(",")
    if EXPANSION in parameters:
        text = (
            f"SchedulerParameters has {EXPANSION}: a running job may take over another's nodes, and Slurm returns the "
            "watts of those; job_submit.lua refuses it to users, administrators should not do it"
        )
        yield Finding(text, fatal=False)
    if "bf_licenses" not in parameters:
        text = "SchedulerParameters lacks bf_licenses: while the controller is away, jobs that need many watts starve"
        yield Finding(text, fatal=False)


def shared_partitions(slurm: Slurm, values: Mapping[str, str]) -> dict[str, str]:
    """Return the partitions in which several jobs may run on one node, with the settings that allow it.

    Empty where jobs get whole nodes anyway (select/linear), or where Slurm does not answer. Slurm prints whole nodes
    as ``OverSubscribe=EXCLUSIVE`` (22.05, 24.11) or as ``Exclusive=NODE OverSubscribe=NO`` (26.05).
    """
    if values.get("SelectType", "").endswith("linear"):
        return {}
    try:
        answer = slurm.run(PARTITIONS)
    except SlurmError:
        return {}
    return shared_in(answer.out) if answer.code == 0 else {}


def shared_in(shown: str) -> dict[str, str]:
    """Return the partitions that share nodes among jobs, of what ``PARTITIONS`` prints."""
    found = {}
    for line in shown.splitlines():
        fields = dict(piece.split("=", 1) for piece in line.split() if "=" in piece)
        whole = fields.get("OverSubscribe", "EXCLUSIVE") == "EXCLUSIVE" or fields.get("Exclusive") == "NODE"
        if not whole and "PartitionName" in fields:
            settings = (f"{key}={fields[key]}" for key in ("Exclusive", "OverSubscribe") if key in fields)
            found[fields["PartitionName"]] = " ".join(settings)
    return found
