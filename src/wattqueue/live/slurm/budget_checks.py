"""Find what makes the power budget inexact or slow: shared nodes, what backfill lacks, growing jobs, releases.

The first two do not void the cap. A job counts whole nodes, so jobs that share a node count it several times, and the
budget is used less than it could be (11 jobs of one CPU on two nodes were seen to hold 1,650 W). Releases of Slurm
differ in what they do with licences at a requeue.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from wattqueue.live.driver import Finding
from wattqueue.live.slurm.commands import Slurm, SlurmError

EXPANSION = "permit_job_expansion"
"""The option that lets running jobs grow by the nodes of others."""
ONE_PLAN = "bf_one_resv_per_job"
"""The option by which backfill plans a job of several partitions once."""
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
    elif ONE_PLAN not in parameters:
        text = (
            f"SchedulerParameters lacks {ONE_PLAN}: backfill sets the watts of a waiting job aside once for each of "
            "its partitions; a job of several components may never start by that, nor what waits behind it"
        )
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


def loses_licences_at_requeue(version: str) -> bool:
    """Whether this release of Slurm frees a job's licences when it is requeued and does not restore them.

    25.05.x and 25.11.0 to 25.11.6; corrected in 25.11.7 and 26.05.0. On such a release a requeued job runs without
    watts, unless they are written again before it can start.
    """
    major, minor, patch = _numbers(version)
    return (major, minor) == (25, 5) or ((major, minor) == (25, 11) and patch <= 6)


def refuses_too_few_gres(version: str) -> bool:
    """Whether this release refuses a job that asks for more generic resources than its greatest number of nodes has.

    22.05 and 24.11 do (``-N1 --gpus=5`` on nodes of four); 26.05 starts it with four. False for releases between them,
    which were not tested, and where the release is not known: what Slurm might run is not refused.
    """
    return (0, 0, 0) < _numbers(version) < (25, 0, 0)


def _numbers(version: str) -> tuple[int, int, int]:
    """Return the numbers of a release; zeros where it is not known."""
    found = re.match(r"([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)


def requeue_text(version: str) -> str:
    """What a person should know about a release that loses licences at a requeue."""
    return (
        f"Slurm {version} frees a job's licences when it is requeued and does not restore them: "
        "set JobRequeue=0, or move to 25.11.7 or 26.05.0"
    )
