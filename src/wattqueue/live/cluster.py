"""A cluster as the controller sees it: jobs, nodes and the pool of watts, and the writes that change them.

Everything in ``live`` but its drivers works on these types. A *driver* is a folder beside this module (``live/slurm``)
with one class that implements ``driver.Cluster``: ``observe`` returns a :class:`Snapshot`, ``apply`` carries one write
out. Another resource manager is another folder; docs/guide/driver.md lists what a driver has to promise.

Rules that hold for every snapshot:

* A job is identified by :class:`JobKey`, never by its number alone: resource managers give numbers out again after a
  crash.
* A job or node that did not change is the *same object* in the next snapshot. Consumers use ``is`` to skip unchanged
  rows, which makes the cost of a round proportional to the changes and not to the length of the queue.
* Everything downstream of a snapshot is pure, so a recorded snapshot reproduces a round.

Writes are values without the words of any resource manager. Each takes effect alone and at once: the controller may
die between any two, and continues from what the next snapshot shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, Protocol

from wattqueue.errors import WattQueueError

State = Literal["pending", "starting", "running", "stopped", "suspended", "busy", "completing", "ended"]
"""``stopped``: does no work, keeps its nodes, and its watts can be changed. ``suspended``: does no work, and the
resource manager may give its nodes and watts to others. ``busy``: takes no change of its watts now (it is being resized
or staged out)."""
ACTIVE = frozenset({"starting", "running", "stopped", "suspended", "busy", "completing"})
"""States in which a job holds nodes. ``completing`` is one: its nodes are not free and may still draw power."""
HeldBy = Literal["", "user", "operator", "manager", "failed"]
"""Who holds a pending job: nobody, its user, an operator (the controller is one), or the resource manager itself.
``failed``: the manager, because its launch failed on a node; it waits for a person, who looks at that node first."""
Power = Literal["on", "off", "booting", "stopping"]
USER_HELD = "wattqueue:user-held"
"""What job_submit.lua adds to the AdminComment of a job that its user submitted held (``sbatch -H``)."""
NEEDS_CONTROLLER = "wattqueue:needs-controller"
"""... of a job that fits the budget at a lower frequency only: never released without the controller."""
FOREIGN = "somebody else drained it"
"""Beginning of a driver's error for a drain that is not this controller's any more."""
POOL = "watts"
"""Target of writes of the pool, in the audit log."""
LIMIT_STEP_S = 60.0
"""Time limits are written in whole steps of this length, rounded up: resource managers keep minutes."""


UNANSWERED = "no answer"
"""Part of the error of a write that was not answered: whether it was carried out is not known."""


class ClusterError(WattQueueError):
    """The resource manager could not be observed, or did not carry out a write."""


class JobKey(NamedTuple):
    """The lasting identity of one job.

    ``name`` is what the resource manager's commands accept, ``submit_s`` the submit time in seconds since the epoch. A
    requeue may reset the submit time; the requeued job then has a new key.
    """

    name: str
    submit_s: float


class Job(NamedTuple):
    """A job, as far as it changes during its life. Times are seconds since the epoch, NaN where there is none.

    It contains no text of the user. What a job states once, at submission, is in :class:`Details`.
    """

    key: JobKey
    number: int
    """Order among jobs of one submit time; tasks of an array may share the array's."""
    state: State
    reason: str
    """Why it waits, in the resource manager's own words; reported, never compared."""
    partition: str
    """Partition of a running job; a comma-separated list for a pending job that named several."""
    nodes: int
    """Nodes allocated; for a pending job the number to count and to pin at its start."""
    cpus: int
    walltime_s: float
    """Time limit; inf for none."""
    watts: int
    """Net watts that the resource manager counts for it; -1 where it counts none."""
    priority: int
    uid: int
    start_s: float
    """Start of a running job; for a pending one the expected start, or the one that its user asked for."""
    node_names: tuple[str, ...]
    """Nodes that it holds."""
    requested: tuple[str, ...]
    """Nodes that it must get."""
    eligible: bool
    """False while a dependency or a start time set by the user keeps the job from starting."""
    held_by: HeldBy
    most_nodes: int = 0
    """The greatest number of nodes that the job may be given; at least ``nodes``."""
    listed_partition: str = ""
    """``partition`` exactly as stated, where ``partition`` leaves out those that cannot run the job."""
    range_nodes: tuple[int, int] = (0, 0)
    """The range of nodes exactly as stated, 0 for no maximum: what a change is compared with."""
    array: str = ""
    """Name of the array of which the job is a task; empty for none."""
    task: int = 0
    """Its number within the array."""
    whole: str = ""
    """Name of the job of several components of which this is one; empty for a plain job."""
    component: int = 0
    """Its number among the components."""
    blocked: bool = False
    """Whether the resource manager says that more than nodes, watts and the order keeps it from starting: a limit, a
    reservation, a node that is not there. Only a job that nobody holds has such a reason."""
    native: object = None
    """What the driver needs to write the job again; nobody else reads it."""
    domains: tuple[tuple[str, int], ...] = ()
    """Watts that the resource manager counts for it in power domains, by their licences (``live.watts.domains``)."""

    @property
    def pending(self) -> bool:
        """Not started (a requeued job waits too)."""
        return self.state == "pending"

    @property
    def held(self) -> bool:
        """Pending, and not to be started before somebody releases it."""
        return self.held_by != ""

    @property
    def active(self) -> bool:
        """Holds nodes and watts."""
        return self.state in ACTIVE

    @property
    def target(self) -> str:
        """Name under which the job is held and released: components only as a whole."""
        return self.whole or self.key.name


class Details(NamedTuple):
    """What a job states at submission and keeps.

    ``mark`` is a remark of the site's submission hook, where the controller's own hook leaves its marks.
    """

    app: str
    user: str
    account: str
    comment: str
    mark: str
    restarts: int
    """How often the job has been requeued."""
    parts: int
    """1 for a plain job, more for one of several components."""
    throttle: int
    """Tasks of its array that may run at once; 0 for all."""
    project: str = ""
    """What it is for, as its user stated it: the wckey in Slurm."""
    node_w: float = 0.0
    """Watts of one node, idle share included, as its user states them; 0 for none."""


def user_holds(row: Job, details: Details) -> bool:
    """Whether job_submit.lua marked the job as held by its user, and nobody else has held it since.

    The controller holds as an operator, so a job whose user released it and that the controller adopted is not taken
    for the user's again.
    """
    return row.held_by == "user" and USER_HELD in details.mark


class Node(NamedTuple):
    """A node. ``usable`` means that a job could start there, ``busy`` that some job holds it."""

    name: str
    state: str
    """The resource manager's own word."""
    power: Power
    usable: bool
    busy: bool
    partitions: tuple[str, ...]
    """Every partition of the node, so overlapping partitions appear here."""


class Pool(NamedTuple):
    """The pool of watts: what jobs may hold at most, what jobs hold now, and what is withheld from jobs."""

    total: int
    used: int
    reserved: int
    uncounted: int = 0
    """Watts among ``used`` that the cluster itself does not count, so that it would start as much more."""

    @property
    def open_w(self) -> int:
        """Watts that running jobs together may hold."""
        return self.total - self.reserved + self.uncounted


class LimitUse(NamedTuple):
    """What a job takes of one limit while it runs."""

    limit: str
    amount: float


@dataclass(frozen=True, eq=False)
class SiteConstraints:
    """What a site has settled beside the power budget, at the time of one snapshot.

    A driver fills it from what the resource manager states; one that knows nothing leaves it empty.
    """

    priority: Mapping[JobKey, Mapping[str, float]] = field(default_factory=dict)
    """Priority of waiting jobs by partition, as the resource manager would compute it if nobody held them. The same
    object as in the snapshot before while nothing changed."""
    barred: Mapping[JobKey, str] = field(default_factory=dict)
    """Waiting jobs that cannot start now whatever else runs, and why."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """The most that all jobs which claim a limit may take together, by the limit's name."""
    claims: Mapping[JobKey, tuple[LimitUse, ...]] = field(default_factory=dict)
    """What each job, running or waiting, takes of these limits."""
    nodes: Mapping[JobKey, frozenset[str]] = field(default_factory=dict)
    """Nodes that may serve a waiting job, where not all of its partitions' may. Equal sets are one object."""
    reserved: Mapping[JobKey, frozenset[str]] = field(default_factory=dict)
    """Nodes that are set aside for a group of jobs, for each waiting job of the group: nobody else can use them."""
    problems: tuple[str, ...] = ()
    """What could not be read, for the status."""

    @property
    def empty(self) -> bool:
        """Whether nothing restricts any job."""
        return not (self.barred or self.limits or self.nodes or self.reserved)


NO_CONSTRAINTS = SiteConstraints()
"""A site that has settled nothing."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A cluster at ``taken_s`` (seconds since the epoch). ``pool`` is None where watts are not counted.

    Jobs, nodes and pool may have been read a few milliseconds apart, in an order that the driver states, so they can
    disagree by what happened in between. ``details`` may hold jobs that are gone and may lack a job that is new.
    """

    taken_s: float
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    pool: Pool | None
    details: Mapping[JobKey, Details] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    """Rows that could not be parsed: counted and reported, never guessed."""
    frequencies: Mapping[str, int] = field(default_factory=dict)
    """Frequency in kHz that the steps of a job are told to use, by job name; of jobs that are gone, too."""
    problems: tuple[str, ...] = ()
    """What beside the lists could not be read, for the status."""
    site: SiteConstraints = NO_CONSTRAINTS
    """Priorities, limits, reservations and other constraints that the site has settled."""
    domains: Mapping[str, Pool] = field(default_factory=dict)
    """Watts of power domains by their licences, as ``pool``; those that the resource manager counts."""

    @cached_property
    def by_key(self) -> dict[JobKey, Job]:
        """Jobs by key."""
        return {job.key: job for job in self.jobs}

    @cached_property
    def by_node(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}


class JobFields(NamedTuple):
    """Fields of a job that a write changes; None leaves one as it is."""

    partition: str | None = None
    node_count: tuple[int, int] | None = None
    """Least and greatest number of nodes."""
    watts: int | None = None
    nodes: tuple[str, ...] | None = None
    """Nodes that the job must get; empty lifts the requirement."""
    limit_s: float | None = None
    comment: str | None = None
    domains: tuple[tuple[str, int], ...] | None = None
    """Watts in power domains, by their licences, all of them."""

    def __str__(self) -> str:
        """Return the fields that are set as ``name=value``, for the audit log."""
        stated = ((name, value) for name, value in zip(self._fields, self, strict=True) if value is not None)
        return " ".join(f"{name}={_text(name, value)}" for name, value in stated)


def _text(name: str, value: object) -> str:
    """Return a field's value for the audit log."""
    if name == "node_count" and isinstance(value, tuple):
        return "-".join(map(str, value))
    if isinstance(value, tuple):
        return ",".join(one if isinstance(one, str) else ":".join(map(str, one)) for one in value)
    return str(value)


@dataclass(frozen=True)
class Write:
    """A change of the cluster. ``target``, ``before`` and ``after`` are for the audit log and the status."""

    kind: ClassVar[str]
    """Word of the audit log."""
    target: str
    """A job as commands take it (``Job.target``), a node, or the pool."""
    before: str
    after: str
    _: KW_ONLY
    why: str = ""
    key: JobKey | None = None
    """The job that it changes; a write that fails ends the other writes of its job."""
    reduces_power: bool = False
    """Whether it can only lower what running jobs may draw: such a write needs no record and no store of state."""
    batchable: ClassVar[bool] = False
    """Whether many of this kind may be carried out together: each may be repeated, and none depends on another."""

    def __init_subclass__(cls, kind: str, *, batchable: bool = False) -> None:
        cls.kind, cls.batchable = kind, batchable


@dataclass(frozen=True)
class SetPool(Write, kind="pool"):
    """Let running jobs hold ``open_w`` watts of the pool together. Running jobs keep what they hold.

    A cluster that counts less than they hold (``Pool.uncounted``) has to be given as much less.
    """

    open_w: int


@dataclass(frozen=True)
class SetDomains(Write, kind="domains"):
    """Let running jobs hold so many watts of power domains together, by their licences: all of them."""

    open_w: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class HoldJob(Write, kind="hold"):
    """Keep a pending job from starting."""


@dataclass(frozen=True)
class ChangeJob(Write, kind="update", batchable=True):
    """Change fields of a job, all in one step. Of an active job only watts, limit and comment can change.

    ``recount``: the watts are to be counted again even where they are shown already; the resource manager may
    have freed them at a requeue.
    """

    fields: JobFields
    recount: bool = False


@dataclass(frozen=True)
class SetJobFrequency(Write, kind="frequency"):
    """Tell the steps of a job, before it starts, to use a frequency; 0 kHz removes it."""

    khz: int = 0


@dataclass(frozen=True)
class ReleaseJob(Write, kind="release"):
    """Let a held job start as soon as the resource manager finds room."""


@dataclass(frozen=True)
class SetPriority(Write, kind="priority"):
    """Set the priority of a job that is not held."""

    priority: int


@dataclass(frozen=True)
class RequeueJob(Write, kind="requeue"):
    """Take an active job off its nodes, back into the queue, and hold it."""


@dataclass(frozen=True)
class StopJob(Write, kind="stop", batchable=True):
    """Stop the processes of a running job: it keeps its nodes, and does no work until it is continued."""


@dataclass(frozen=True)
class ContinueJob(Write, kind="continue", batchable=True):
    """Let a stopped job go on."""


@dataclass(frozen=True)
class PowerNode(Write, kind="power"):
    """Power a node on or off. One that holds a job is never powered off."""

    on: bool


@dataclass(frozen=True)
class SetDrain(Write, kind="drain"):
    """Have a node take no new job, or take that back. A drain of somebody else is left alone: that is an error."""

    on: bool


def only_reduces_power(write: Write, row: Job | None) -> bool:
    """Whether a write that lowers can only lower what jobs may draw; ``row`` is its job.

    The licence of a running job is not what it draws.
    """
    frees = isinstance(write, ChangeJob) and row is not None and row.active
    return not (frees or isinstance(write, SetDrain) or (isinstance(write, PowerNode) and write.on))


class WriteDriver(Protocol):
    """What carries out the writes of a cluster."""

    def apply(self, write: Write) -> None:
        """Carry one write out; it has taken effect when this returns.

        Raises: ClusterError where it was not carried out, or where that is not known. The next snapshot shows it.
        """
        ...

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """Carry out writes of one kind (``Write.batchable``) and return the error of each, empty for none.

        ``apply_each`` is a correct implementation; a driver may do better.
        """
        ...


def apply_each(writer: WriteDriver, writes: Sequence[Write]) -> list[str]:
    """Carry writes out one after the other; return the error of each, empty for none."""
    return [_error_of(writer, write) for write in writes]


def _error_of(writer: WriteDriver, write: Write) -> str:
    try:
        writer.apply(write)
    except ClusterError as error:
        return str(error)
    return ""
