"""Compute how many nodes Slurm needs for a job, so that the number can be counted and pinned.

A job's watts are its nodes times the watts of a node. The bound is worthless if Slurm may give more nodes than were
counted, and the job can never start if fewer are allowed than its GPUs, memory or sockets require. So the number has
to be the one that Slurm itself would arrive at.

:func:`least_nodes` computes it from the job's requirements (:class:`Needs`) and the resources of a node
(:class:`Shape`), for whole nodes (``OverSubscribe=EXCLUSIVE``). Two quantities decide:

* the tasks that one node can hold, the minimum over CPUs, memory per CPU, sockets, cores, GPUs per task and
  ``--ntasks-per-node``. The tasks are spread over ``ceil(tasks / tasks per node)`` nodes. Dividing the sum of CPUs
  by the CPUs of a node is too low where a task does not divide a node: eight tasks of ten CPUs on nodes of sixteen
  take eight nodes, not five;
* what is stated for the job as a whole (``--gpus=8``): ``ceil(total / per node)`` nodes.

A requirement whose effect cannot be computed from here (GPUs per socket, constraints with counts per feature) gives
the upper bound instead: a job takes no more nodes than it has tasks (or GPUs), since Slurm gives no empty node.
Counting the upper bound can waste watts, never exceed the cap.

job_submit.lua carries the same rules in Lua (``nodes_needed``), since a job must be counted at its submission, with
or without a controller. The tests hold both against what a real Slurm then allocates.

:func:`needs_of` reads the requirements from a job of ``squeue --json``, :func:`with_size` puts the number into its row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from wattqueue.live.cluster import Job
from wattqueue.live.slurm.lists import count_of

_GRES = re.compile(r"(?:gres[:/])?([A-Za-z0-9_\-]+)((?:[:=][A-Za-z0-9_.\-]+)*)")


class Needs(NamedTuple):
    """What a job requires of its nodes, as far as it decides how many nodes Slurm must give. 0 means not stated.

    Read from ``squeue --json``. ``least_nodes`` turns it into a number of nodes.
    """

    tasks: int = 0
    cpus: int = 0
    """CPUs in all."""
    cpus_per_task: int = 0
    tasks_per_node: int = 0
    tasks_per_socket: int = 0
    tasks_per_core: int = 0
    threads_per_core: int = 0
    cpus_per_node: int = 0
    memory_per_node_mb: int = 0
    memory_per_cpu_mb: int = 0
    gres_per_job: tuple[tuple[str, int], ...] = ()
    """Generic resources by name (``gpu``), types summed."""
    gres_per_task: tuple[tuple[str, int], ...] = ()
    gres_per_node: tuple[tuple[str, int], ...] = ()
    cpus_per_gres: tuple[tuple[str, int], ...] = ()
    memory_per_gres_mb: tuple[tuple[str, int], ...] = ()
    most_nodes: int = 0
    """The greatest number of nodes that the user (or job_submit.lua) stated."""
    unknown: bool = False
    """Whether a requirement is stated whose effect on the number of nodes cannot be computed from here."""


class Shape(NamedTuple):
    """The resources of one node, as far as they decide how many nodes a job needs. 0 means not known."""

    cpus: int
    sockets: int = 0
    cores: int = 0
    """Cores in all, not per socket."""
    memory_mb: int = 0
    gres: tuple[tuple[str, int], ...] = ()
    """Generic resources by name, types summed."""


def parse_gres(text: str) -> tuple[tuple[str, int], ...]:
    """Counts by name of ``gres:gpu:a100:2,gpu=1`` or ``gpu:4(S:0-1)``; types of one name are summed, others left out.

    A piece without a count stands for one, as in Slurm. ``(null)`` and empty text give nothing.
    """
    found: dict[str, int] = {}
    for piece in re.sub(r"\([^)]*\)", "", text or "").split(","):
        match = _GRES.fullmatch(piece.strip())
        if match is None or match[1] in ("null", "NA"):
            continue
        last = re.split(r"[:=]", match[2])[-1] if match[2] else "1"
        number = re.fullmatch(r"([0-9]+)([kKmMgG]?)", last)
        scale = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}[number[2].lower()] if number else 1
        found[match[1]] = found.get(match[1], 0) + (int(number[1]) * scale if number else 1)
    return tuple(sorted(found.items()))


def least_nodes(needs: Needs, shape: Shape, limit: int) -> int:
    """The number of nodes of this shape that Slurm needs for a job; ``limit`` (the partition's size) at most.

    Where the number cannot be computed, or no node of this shape can hold a task, the upper bound is returned:
    as many nodes as tasks or units of a generic resource, whichever is greater.
    """
    tasks, per_task = _tasks(needs)
    units = max((count for _, count in needs.gres_per_job), default=0)
    most = max(1, min(max(tasks, units), limit))
    if needs.unknown:
        return most
    each = _tasks_on_a_node(needs, shape, per_task)
    if each <= 0:
        return most
    nodes = _ceil(tasks, each)
    for name, count in needs.gres_per_job:
        have = _gres_on_a_node(needs, shape, name)
        if have <= 0:
            return most
        nodes = max(nodes, _ceil(count, have))
    return max(1, min(nodes, limit))


def least_nodes_of(needs: Needs, shapes: Iterable[tuple[Shape, int]], limit: int) -> int:
    """The least number that suffices whichever nodes Slurm takes: the maximum over shapes that can hold a task.

    ``shapes`` are (shape, number of such nodes). Shapes that cannot hold one task are never chosen by Slurm and do
    not count, unless none can.
    """
    listed = [shape for shape, _ in shapes]
    fits = [shape for shape in listed if _fits(needs, shape)]
    return max((least_nodes(needs, shape, limit) for shape in fits or listed), default=1)


def can_hold(needs: Needs, shapes: Iterable[Shape]) -> bool:
    """Whether a node of one of these shapes can hold a task of the job."""
    return any(_fits(needs, shape) for shape in shapes)


def with_size(row: Job, needs: Needs, shapes: dict[str, list[tuple[Shape, int]]]) -> Job:
    """A waiting job's row with the number of nodes to count and to pin, and without partitions that cannot run it.

    Of several partitions the one that needs the most nodes decides: which partition the job gets is not known yet.
    A partition in which no node can hold a task (no GPUs there) is left out where another one can: started there the
    job would be held with BadConstraints. A stated maximum below the number stands; Slurm then never starts the job,
    which is what was requested.
    """
    if not row.pending:
        return row
    names = row.partition.split(",")
    able = [name for name in names if name not in shapes or can_hold(needs, (s for s, _ in shapes[name]))] or names
    known = [shapes[name] for name in able if name in shapes]
    least = max((least_nodes_of(needs, s, sum(count for _, count in s)) for s in known), default=1)
    if needs.most_nodes:
        least = min(least, needs.most_nodes)
    nodes = max(row.nodes, least)
    if nodes == row.nodes and able == names:
        return row
    return row._replace(
        nodes=nodes,
        most_nodes=max(nodes, row.most_nodes),
        partition=",".join(able),
        listed_partition=row.partition,
    )


def needs_of(job: dict[str, Any]) -> Needs:
    """Requirements that decide the number of nodes. A field that a release lacks counts as not stated."""

    def gres(*names: str) -> tuple[tuple[str, int], ...]:
        found = parse_gres(next((str(job[name]) for name in names if job.get(name)), ""))
        return tuple(one for one in found if one[0] not in ("cpu", "mem", "node", "billing", "license"))

    # "[rack1*2&rack2*3]" asks for counts per feature: a number of nodes that depends on which nodes have it
    features = str(job.get("features") or "")
    resources = (gres("tres_per_job"), gres("tres_per_task"), gres("tres_per_node"))
    # tasks of a socket together with GPUs: Slurm takes more nodes than either needs, by its release
    by_socket = (_small(job.get("tasks_per_socket")) > 0 or _small(job.get("tasks_per_core")) > 1) and any(resources)
    return Needs(
        tasks=count_of(job.get("tasks")),
        cpus=count_of(job.get("cpus")),
        cpus_per_task=count_of(job.get("cpus_per_task")),
        tasks_per_node=count_of(job.get("tasks_per_node")),
        tasks_per_socket=_small(job.get("tasks_per_socket")),
        tasks_per_core=_small(job.get("tasks_per_core")),
        threads_per_core=_small(job.get("threads_per_core")),
        cpus_per_node=count_of(job.get("minimum_cpus_per_node")),
        memory_per_node_mb=count_of(job.get("memory_per_node")),
        memory_per_cpu_mb=count_of(job.get("memory_per_cpu")),
        gres_per_job=resources[0],
        gres_per_task=resources[1],
        gres_per_node=resources[2],
        cpus_per_gres=gres("cpus_per_tres"),
        memory_per_gres_mb=gres("memory_per_tres"),
        most_nodes=count_of(job.get("max_nodes")),
        unknown=by_socket or bool(job.get("tres_per_socket")) or _small(job.get("core_spec")) > 0 or "*" in features,
    )


def _small(value: Any) -> int:
    """A 16-bit count, 0 where it is not set: Slurm prints its "no value" (65534) or infinite (65535) in some fields."""
    number = count_of(value)
    return number if number < 65534 else 0


def _fits(needs: Needs, shape: Shape) -> bool:
    """Whether a node of this shape holds a task, and has what the job names per node and per job."""
    per_node = [_gres_on_a_node(needs, shape, name) >= count for name, count in needs.gres_per_node]
    in_all = [_gres_on_a_node(needs, shape, name) > 0 for name, _ in needs.gres_per_job]
    return all(per_node) and all(in_all) and _tasks_on_a_node(needs, shape, _tasks(needs)[1]) > 0


def _gres_on_a_node(needs: Needs, shape: Shape, name: str) -> int:
    """How many units of a resource one node can give, each with the CPUs and memory stated for it."""
    bounds = [dict(shape.gres).get(name, 0)]
    cpus, memory = dict(needs.cpus_per_gres).get(name, 0), dict(needs.memory_per_gres_mb).get(name, 0)
    if cpus:
        bounds.append(shape.cpus // cpus)
    if memory and shape.memory_mb:
        bounds.append(shape.memory_mb // memory)
    return min(bounds)


def _tasks(needs: Needs) -> tuple[int, int]:
    """Tasks of the job, and CPUs of one task. A job without ``-n`` has one task; ``--mincpus`` counts per node."""
    per_task = max(1, needs.cpus_per_task)
    return max(1, needs.tasks, _ceil(needs.cpus, per_task)), per_task


def _tasks_on_a_node(needs: Needs, shape: Shape, per_task: int) -> int:
    """How many tasks one node holds; 0 where it cannot hold one. Unknown resources of the node do not bound it."""
    if needs.cpus_per_node > shape.cpus or needs.memory_per_node_mb > (shape.memory_mb or needs.memory_per_node_mb):
        return 0
    cpus = shape.cpus
    if needs.threads_per_core and shape.cores:  # --hint=nomultithread leaves one CPU a core
        cpus = min(cpus, shape.cores * needs.threads_per_core)
    bounds = [cpus // per_task]
    if needs.memory_per_cpu_mb and shape.memory_mb:
        bounds.append(shape.memory_mb // (needs.memory_per_cpu_mb * per_task))
    if needs.tasks_per_node:
        bounds.append(needs.tasks_per_node)
    if needs.tasks_per_socket and shape.sockets:
        bounds.append(needs.tasks_per_socket * shape.sockets)
    if needs.tasks_per_core and shape.cores:
        bounds.append(needs.tasks_per_core * shape.cores)
    bounds += [_gres_on_a_node(needs, shape, name) // count for name, count in needs.gres_per_task if count]
    return min(bounds)


def _ceil(amount: int, each: int) -> int:
    return -(-amount // each)
