"""The state of a Slurm at one moment, as frozen tuples in SI units.

This module holds data types only. ``observe`` fills them from the output of Slurm's commands, ``goal`` compares
them with what should be, and the planner builds a policy's view from them. Everything downstream of a snapshot is
pure, so a recorded snapshot reproduces a round.

Two rules hold for every type:

* A job is identified by :class:`JobKey`, never by its id alone: slurmctld restarts the numbering from what it had
  saved, so after a crash an id can name another job.
* A row that a command prints unchanged is the *same object* in the next snapshot (``Observer`` caches rows by
  their line). Consumers may therefore use ``is`` to skip unchanged rows, which makes the cost of a round
  proportional to the changes and not to the length of the queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

LICENCE = "watts"
"""Name of the Slurm licence that counts watts; one licence is one watt in the cap's scope."""


class JobKey(NamedTuple):
    """The lasting identity of one job: ids are reused after a crash of slurmctld, submit times are not.

    ``name`` is what commands accept: ``123``, ``123_4`` for a task of an array, ``123+1`` for a component of a
    heterogeneous job. ``submit_s`` is the submit time in seconds since the epoch; Slurm resets it at a requeue, so
    a requeued job has a new key.
    """

    name: str
    submit_s: float


class JobRow(NamedTuple):
    """A job as squeue prints it. Times are seconds since the epoch, NaN where there is none.

    The row holds what changes during a job's life and contains no text of the user. What a job states once, at
    submission, is in :class:`Details`.
    """

    key: JobKey
    job_id: int
    """Slurm's number; tasks of an array share the array's while they wait."""
    state: str
    reason: str
    partition: str
    """Partition of a running job; a comma-separated list for a pending job that named several."""
    nodes: int
    """Nodes allocated; for a pending job the number to count and to pin at its start (see ``sizing``)."""
    cpus: int
    walltime_s: float
    """Time limit; inf for none."""
    watts: int
    """Count of our licence; -1 where the job carries none."""
    licences: tuple[str, ...]
    """Every other licence as Slurm writes it (``matlab:1``); kept in each update of ours."""
    priority: int
    uid: int
    start_s: float
    """Start of a running job; for a pending one the start that Slurm expects, or the user's ``--begin``."""
    node_list: str
    requested: str
    """``ReqNodeList``: nodes that the job must get."""
    eligible: bool
    """False while a dependency or a start time set by the user keeps the job from starting."""
    held: bool
    """Pending with priority 0."""
    most_nodes: int = 0
    """The greatest number of nodes that Slurm may give the job; at least ``nodes``."""
    listed_partition: str = ""
    """``partition`` exactly as Slurm holds it, where ``partition`` leaves out those that cannot run the job."""
    range_nodes: tuple[int, int] = (0, 0)
    """The range of nodes exactly as Slurm holds it (``NumNodes=MIN-MAX``): what an update is compared with."""

    @property
    def pending(self) -> bool:
        """Not started (a requeued job waits too)."""
        return self.state == "PENDING"

    @property
    def active(self) -> bool:
        """Holds nodes and watts."""
        return self.state in ACTIVE


ACTIVE = frozenset(
    {"RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
)
"""States in which a job holds nodes. COMPLETING belongs here: its nodes are not free and may still draw power."""


class Needs(NamedTuple):
    """What a job requires of its nodes, as far as it decides how many nodes Slurm must give. 0 means not stated.

    Read from ``squeue --json``. ``sizing.least_nodes`` turns it into a number of nodes.
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


class Details(NamedTuple):
    """What a job states at submission and keeps. Read once per job from JSON, where the user's text is quoted safely.

    ``mark`` is the administrator's comment, where job_submit.lua leaves its mark.
    """

    app: str
    user: str
    account: str
    comment: str
    mark: str
    restarts: int
    """How often Slurm has requeued the job."""
    parts: int
    """Components of a heterogeneous job; 1 for a plain job."""
    throttle: int
    """Tasks of its array that may run at once; 0 for all."""
    needs: Needs = Needs()
    """Requirements that decide the number of nodes."""


class Shape(NamedTuple):
    """The resources of one node, as far as they decide how many nodes a job needs. 0 means not known."""

    cpus: int
    sockets: int = 0
    cores: int = 0
    """Cores in all, not per socket."""
    memory_mb: int = 0
    gres: tuple[tuple[str, int], ...] = ()
    """Generic resources by name, types summed."""


class NodeRow(NamedTuple):
    """A node as sinfo prints it. ``power`` is on, off, booting or stopping.

    ``usable`` means that a job could start, ``busy`` that some job holds the node; the jobs' rows show which.
    ``partitions`` lists every Slurm partition of the node, so overlapping partitions appear here.
    """

    name: str
    state: str
    power: str
    usable: bool
    busy: bool
    partitions: tuple[str, ...]
    cpus: int
    shape: Shape = Shape(0)


class PoolRow(NamedTuple):
    """The ``watts`` licence: total in slurm.conf, used by jobs, and withheld from jobs by reservations."""

    total: int
    used: int
    reserved: int

    @property
    def open_w(self) -> int:
        """Watts that running jobs together may hold."""
        return self.total - self.reserved


@dataclass(frozen=True, slots=False, eq=False)
class SlurmSnapshot:
    """A Slurm at ``taken_s`` (seconds since the epoch). ``pool`` is None where the licence is not configured.

    The lists come from separate commands, a few milliseconds apart, so they can disagree by what happened in
    between; ``Observer.snapshot`` states the order and why. ``details`` may hold jobs that are gone and may lack a
    job that is new.
    """

    taken_s: float
    jobs: tuple[JobRow, ...]
    nodes: tuple[NodeRow, ...]
    pool: PoolRow | None
    details: dict[JobKey, Details] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    """Lines of a command that could not be parsed: counted and reported, never guessed."""

    @cached_property
    def by_key(self) -> dict[JobKey, JobRow]:
        """Jobs by key."""
        return {job.key: job for job in self.jobs}

    @cached_property
    def by_node(self) -> dict[str, NodeRow]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}
