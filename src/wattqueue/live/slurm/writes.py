"""Turn the controller's writes into Slurm's commands.

Field by field, for reasons that are Slurm's own:

* One write is one ``scontrol update``, because slurmctld applies one update under one lock.
* The number of nodes is pinned as a range ``NumNodes=N-N``. With ``NumNodes=N`` Slurm 22.05 changes the minimum only
  and keeps the maximum (seen: ``2-4``), and a job with a range gets the maximum when nodes are free.
* An update of licences replaces the whole list, so those of the site are written again as they stand.
* slurmctld drops an update to the same text. Where watts are to be counted again, another count is written first: one
  more, so that the job never counts for too little, or one less where more than the whole pool would be refused.
* ``requeuehold`` and not ``requeue``: after a plain one Slurm could start the job before the next round.
* A job is parked by the signal STOP to all of its processes and not by ``scontrol suspend``. Slurm 22.05 was seen to
  start another job on the node of a suspended job, in a partition with OverSubscribe=EXCLUSIVE too, and a resume then
  has both run there; and it refuses to change the licences of a suspended job ("Job is not pending nor running"). A
  stopped job (squeue shows ``STOPPED``) keeps its nodes, its licences can be changed, its time limit runs on. Two
  commands are needed (tried on 22.05.8): without an option scancel reaches the steps on all nodes and not the batch
  script, with ``--full`` the script and its children and not the steps. ``--state=RUNNING`` (stopped jobs are running
  ones) leaves out a job that was requeued since the snapshot: for a job that waits, scancel tries again for 95 s, and a
  command about a hundred jobs had no answer.
* scancel and ``scontrol update`` take many jobs in one command: hundreds of jobs are parked in the time of a few
  commands, where each command takes 10 to 40 ms. An update of many jobs sets the same fields in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wattqueue.formats.slurm.hostlist import compress
from wattqueue.live.cluster import (
    ChangeJob,
    ContinueJob,
    HoldJob,
    JobFields,
    PowerNode,
    ReleaseJob,
    RequeueJob,
    SetDrain,
    SetPriority,
    StopJob,
    Write,
)
from wattqueue.live.slurm.commands import HOSTS, JOB, LICENCE, WORD, SlurmError

DRAIN_REASON = "wattqueue: load target"
"""Reason of a drain: what tells this controller's from others."""


def commands_of(
    write: Write, licences: Sequence[str] = (), total_w: int = 0, others: Sequence[Write] = ()
) -> list[tuple[str, ...]]:
    """Return the commands of a write, in order.

    ``licences`` are the job's other licences as Slurm writes them, ``total_w`` the watts in slurm.conf. ``others`` are
    writes that differ from this one in their target alone (``shape``): the same commands carry them out.

    Raises: SlurmError for a name that no command may take, or a write that is no command (pool, frequency).
    """
    for one in (write, *others):
        check(one)
    targets = [one.target for one in (write, *others)]
    jobs = f"JobId={','.join(targets)}"
    match write:
        case HoldJob():
            return [("scontrol", "hold", write.target)]
        case ReleaseJob():
            return [("scontrol", "release", write.target)]
        case RequeueJob():
            return [("scontrol", "requeuehold", write.target)]
        case StopJob() | ContinueJob():
            signal = "STOP" if isinstance(write, StopJob) else "CONT"
            argv = ("scancel", f"--signal={signal}", "--state=RUNNING")
            return [(*argv, *targets), (*argv, "--full", *targets)]
        case SetPriority():
            return [("scontrol", "update", f"JobId={write.target}", f"Priority={write.priority}")]
        case PowerNode():
            state = "POWER_UP" if write.on else "POWER_DOWN"
            return [("scontrol", "update", f"NodeName={write.target}", f"State={state}")]
        case SetDrain():
            change = ("State=DRAIN", f"Reason={DRAIN_REASON}") if write.on else ("State=UNDRAIN",)
            return [("scontrol", "update", f"NodeName={write.target}", *change)]
        case ChangeJob():
            update = ("scontrol", "update", jobs, *arguments(write.fields, licences))
            other = _counted_otherwise(write, total_w)
            first = [] if other is None else [("scontrol", "update", jobs, *arguments(other, licences))]
            return [*first, update]
    raise SlurmError(f"{type(write).__name__} is no command of Slurm")


def shape(write: Write, licences: Sequence[str] = ()) -> tuple[object, ...]:
    """Return all of a write's commands but its target: one command carries out writes of equal shape."""
    changes = (write.fields, write.recount) if isinstance(write, ChangeJob) else ()
    return type(write), *changes, tuple(licences)


def _counted_otherwise(write: ChangeJob, total_w: int) -> JobFields | None:
    """Return the fields of the first of the two updates that make Slurm count a job's watts again; None for none."""
    watts = write.fields.watts
    if not write.recount or watts is None:
        return None
    return JobFields(watts=watts + 1 if watts < total_w or not total_w else watts - 1)


def arguments(fields: JobFields, licences: Sequence[str]) -> list[str]:
    """Return the fields as ``scontrol update`` takes them."""
    out = []
    if fields.partition is not None:
        out.append(f"Partition={fields.partition}")
    if fields.node_count is not None:
        out.append("NumNodes={}-{}".format(*fields.node_count))
    if fields.watts is not None:
        out.append("Licenses=" + ",".join([*licences, *([f"{LICENCE}:{fields.watts}"] if fields.watts >= 0 else [])]))
    if fields.nodes is not None:
        out.append(f"ReqNodeList={compress(fields.nodes)}")
    if fields.limit_s is not None:
        out.append(f"TimeLimit={math.ceil(fields.limit_s / 60.0)}")
    if fields.comment is not None:
        out.append(f"Comment={fields.comment}")
    return out


def check(write: Write) -> None:
    """Raise SlurmError for a target, node list or partition that is no plain name.

    The values come from Slurm's own output, so this never fails in practice. It is the last point at which a text that
    a user chose could become part of a command, and it does not rely on the parser before it.
    """
    pattern = WORD if isinstance(write, PowerNode | SetDrain) else JOB
    if not pattern.fullmatch(write.target):
        raise SlurmError(f"{write.target[:40]!r} is no name that a command could take")
    if not isinstance(write, ChangeJob):
        return
    named = [(HOSTS, write.fields.partition or ""), *((WORD, name) for name in write.fields.nodes or ())]
    for pattern, text in named:
        if text and not pattern.fullmatch(text):
            raise SlurmError(f"{text[:40]!r} is no name that a command could take")
