"""What a Slurm looks like at one moment: frozen tuples, SI units, jobs keyed by (id, submit time)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

LICENCE = "watts"


class JobKey(NamedTuple):
    """One job, for ever: ids are given out again after a crash of slurmctld, submit times are not.

    ``name`` is what commands take: ``123``, or ``123_4`` for a task of an array.
    """

    name: str
    submit_s: float


class JobRow(NamedTuple):
    """A job as squeue shows it. Times are seconds since the epoch, NaN where there is none.

    ``walltime_s`` is inf for no limit; ``eligible`` is false while a dependency or a start time set
    by the user keeps it; ``held`` means priority 0. ``watts`` is the count of our licence (-1: none),
    ``licences`` every other licence as Slurm writes them. ``start_s`` of a pending job is Slurm's own guess.
    """

    key: JobKey
    job_id: int
    state: str
    reason: str
    partition: str
    nodes: int
    cpus: int
    walltime_s: float
    watts: int
    licences: tuple[str, ...]
    priority: int
    uid: int
    start_s: float
    node_list: str
    requested: str
    eligible: bool
    held: bool

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


class Details(NamedTuple):
    """What a job brought at submission and keeps: read once a job, from JSON, since names are the user's text."""

    app: str
    user: str
    account: str
    comment: str
    mark: str
    restarts: int
    parts: int
    """Components of a heterogeneous job; 1 for a plain job."""
    throttle: int
    """Tasks of its array that may run at once; 0 for all."""


class NodeRow(NamedTuple):
    """A node as sinfo shows it. ``power`` is on, off, booting or stopping.

    ``usable`` means that a job could start, ``busy`` that one holds it: which one, the jobs' rows say.
    """

    name: str
    state: str
    power: str
    usable: bool
    busy: bool
    partitions: tuple[str, ...]
    cpus: int


class PoolRow(NamedTuple):
    """The ``watts`` licence: total in slurm.conf, used by jobs, set aside by reservations."""

    total: int
    used: int
    reserved: int

    @property
    def open_w(self) -> int:
        """What running jobs together may hold."""
        return self.total - self.reserved


@dataclass(frozen=True, slots=False, eq=False)
class Snapshot:
    """A Slurm at ``taken_s`` (seconds since the epoch). ``pool`` is None where the licence is not configured."""

    taken_s: float
    jobs: tuple[JobRow, ...]
    nodes: tuple[NodeRow, ...]
    pool: PoolRow | None
    details: dict[JobKey, Details] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    """Lines of a command that could not be read: counted and told, never guessed."""

    @cached_property
    def by_key(self) -> dict[JobKey, JobRow]:
        """Jobs by key."""
        return {job.key: job for job in self.jobs}

    @cached_property
    def by_node(self) -> dict[str, NodeRow]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}
