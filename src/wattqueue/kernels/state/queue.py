"""Jobs that wait: what they need, the order of their entries, what a pass has promised them."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from wattqueue.kernels._numba import referenced

Array = NDArray[Any]


@referenced
class Rows(NamedTuple):
    """Watts of one unit and relative run time by option, shared by jobs of one row; a single row holds for all."""

    row: Array
    """(n,) int32 row of each job; empty where job j has row j."""
    power_uw: Array
    """(C, O) int64 microwatts of one unit at each option."""
    time_factor: Array
    """(C, O) float64 run time relative to the reference speed."""


@referenced
class UnitFactorTable(NamedTuple):
    """Watts of each unit relative to what ``Rows`` says, by application (rule 12 of docs/semantics.md).

    An empty ``table`` means that all units of a partition are equal.
    """

    row: Array
    """(n,) int32 row of each job's application; the last row is that of jobs without one. Empty where ``table`` is."""
    table: Array
    """(A + 1, U) float64 factors, above 0."""


@referenced
class EntryTable(NamedTuple):
    """Job-partition entries, partition by partition, each partition's in queue order (rule 5 of docs/semantics.md)."""

    job: Array
    """(m,) int32 row of the job."""
    first: Array
    """(m,) int16 first option of the window, the highest frequency."""
    last: Array
    """(m,) int16 last option of the window, included, with those for use in load targets."""
    plain: Array
    """(m,) int16 last option outside of load targets; ``last`` where none is for their use alone."""
    rank: Array
    """(m,) int32 place in the one queue order over all partitions."""
    of_job: Array
    """(n, P) int32 entry of a job in a partition, -1 for none."""
    start: Array
    """(P + 1,) int64 first entry of each partition."""


@referenced
class ConsentReach(NamedTuple):
    """How far users let their jobs be slowed for a load target (rule 20 of docs/semantics.md)."""

    last: Array
    """(m,) int16 last option of each entry's window to which the consent reaches; its first where there is none."""
    latest_s: Array
    """(n,) float64 latest end of a slowed job, inf for none; empty where no job states one."""


@referenced
class AnnouncedLimits(NamedTuple):
    """Limits that are announced for later, for passes that look ahead (``kernels/announced.py``).

    The limit of cap and load targets together, row by row of what is announced at one time, one time after the other.
    """

    time_s: Array
    """(k,) float64 when each comes into force."""
    limit_uw: Array
    """(k,) int64 its microwatts."""
    in_target: Array
    """(k,) int8 whether a load target is in force then."""
    stamp: Array
    """(r,) int64 number of the pass that computed the next two; r: the most rows that are announced at one time."""
    ledger_uw: Array
    """(r,) int64 net microwatts of what runs then, from the first row on that is announced now."""
    squares_w2: Array
    """(r,) int64 the sum of their squares (W^2)."""


@referenced
class Tree(NamedTuple):
    """Subtree minima over queued entries, fan-out 16, level 0 = entries in queue order (``kernels/tree.py``).

    ``need``, ``wall`` and ``watt`` hold the m leaves in entry order, then the inner nodes, each level from a multiple
    of 16 behind the leaves on. The class tables hold, for 16 inner nodes side by side, the least walltime among leaves
    of at most a class.
    """

    need: Array
    """int32 units; leaves, then inner nodes."""
    wall: Array
    """float64 seconds."""
    watt: Array
    """int64 net microwatts."""
    need_class: Array
    """(m,) int8 class of a leaf by units."""
    watt_class: Array
    """(m,) int8 class of a leaf by watts."""
    by_need: Array
    """(groups, CLASSES, 16) float32 least walltime of inner nodes, by units."""
    by_watt: Array
    """(groups, CLASSES, 16) float32 the same by watts."""
    need_step: Array
    """(CLASSES - 1,) int64 upper ends of the classes by units."""
    watt_step: Array
    """(CLASSES - 1,) int64 upper ends of the classes by watts."""
    least: Array
    """(2, CLASSES) float32 working space of an update."""
    offset: Array
    """(P, L) int64 first node of each level."""
    size: Array
    """(P, L) int64 nodes of each level."""
    height: Array
    """(P,) int64 levels of each partition's tree."""
    head: Array
    """(P,) int64 leaf before which nothing is queued."""


@referenced
class PlannedTimes(NamedTuple):
    """Planned times of jobs (rule 3 of docs/semantics.md), and how often they were wrong."""

    seconds: Array
    """(n,) float64 planned seconds at reference speed; the column of walltimes itself where nothing is predicted."""
    overruns: Array
    """(n,) int16 times that a job ran on behind its planned time; empty where nothing is predicted."""
    promise: Array
    """(n,) float64 shadow time of a job's first reservation with one, else inf; empty where nothing is predicted."""
    not_before: Array
    """(n,) float64 when a job that waits may start at the earliest, by a control; empty where none delays jobs."""


@referenced
class Reservations(NamedTuple):
    """Reservations of the last greedy pass, one a partition (rule 8 of docs/semantics.md)."""

    entry: Array
    """(P,) int32 reserved entry; -1 none, -2 the partition's pass is over."""
    time: Array
    """(P,) float64 shadow time."""
    nodes: Array
    """(P,) int64 units left over at the shadow time."""
    watt: Array
    """(P,) int64 microwatts left over at the shadow time, beside the margin of a chance ledger."""
    ledger: Array
    """(P,) int64 net microwatts counted at the shadow time, with the reserved job's; kept for a chance ledger."""
    squares: Array
    """(P,) int64 the sum of their squares (W^2); kept for a chance ledger."""
    candidate: Array
    """(P,) int64 next entry to try, counted from the partition's first; -1 for none."""


@referenced
class ReservationPlan(NamedTuple):
    """The plan of conservative backfilling: free units and watts over time, and the place of each job in it (rule 9).

    A row holds from its time to the next row's, the last one for ever. Rows ``now.plan_head`` to
    ``now.plan_end - 1`` are in use. ``stamp`` spares clearing the places of an earlier plan.
    """

    time: Array
    """(M,) float64 begin of each row."""
    nodes: Array
    """(P, M) int64 free units."""
    watt: Array
    """(M,) int64 free microwatts."""
    entry: Array
    """(n,) int32 planned entry of a job, -1 for none."""
    begin: Array
    """(n,) float64 its planned start."""
    stamp: Array
    """(n,) int32 number of the plan in which that is."""
