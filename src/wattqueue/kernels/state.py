"""The arrays that kernels work on, as named tuples.

Kernels cannot hold Python objects, and a tuple within a tuple is free once compiled: so the state of a run is a tree
of named tuples of arrays. Scalars that change stand in slots of three arrays (``KernelView.num`` and ``counter``,
``Truth.tally``), whose names are in ``kernels/codes.py``.

Two separate trees keep apart what must not be mixed (rule 11 of docs/semantics.md):

* ``KernelView``: what the scheduler may know. The pass gets this one only, live as in simulation.
* ``Truth``: what jobs really draw and take, and the events that are still to come. Only the simulator's loop and the
  actions that it carries out see it.

A ``Log`` collects the results of a simulation. Each structure is made beside the kernels that work on it
(``tree.new_tree`` and its like); ``policy/build.py`` fills the view from a policy's arrays, ``sim/truth.py`` the truth
from a workload.

Symbols: n jobs, m entries, P partitions, O options, U units, N nodes, D power domains, A applications, C prediction
rows, B running blocks of K rows, M rows of a plan. Watts are int64 microwatts, so that sums do not depend on their
order. *Net* watts are what a start adds to the watts in the cap's scope: predicted watts less the idle watts of the
job's units, unless the cap covers jobs alone (rule 14). S power sensors, each with a row of R samples.
"""

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
class UnitFactors(NamedTuple):
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
    """(m,) int16 last option of the window, included."""
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
class RunningBlocks(NamedTuple):
    """Running jobs sorted by expected end, in blocks with sums (``kernels/running.py``)."""

    end: Array
    """(B, K) float64 expected ends, rising within a block."""
    job: Array
    """(B, K) int32 row of the job."""
    net: Array
    """(B, K) int64 net microwatts that the ledger counts."""
    filled: Array
    """(B,) int32 rows in use."""
    last_end: Array
    """(B,) float64 expected end of the last row."""
    net_sum: Array
    """(B,) int64 sum of ``net``."""
    nodes_sum: Array
    """(B, P) int64 units of the block's jobs in each partition."""
    square_sum: Array
    """(B,) int64 what the jobs add to the sum of squares of a chance ledger (W^2); 0 under other ledgers."""
    order: Array
    """(B,) int32 blocks in use by time, then the spare ones."""


@referenced
class Units(NamedTuple):
    """Free units as bits, partition by partition, the lowest unit number first (``kernels/placement.py``).

    A set bit is a unit that is powered, up and without a job. ``filled`` lets a search skip 64 empty words (4,096
    units) at once.
    """

    word: Array
    """uint64, a bit for each free unit."""
    filled: Array
    """uint64, a bit for each word that is not 0."""
    word_start: Array
    """(P + 1,) int64 first word of each partition."""
    low: Array
    """(P,) int64 first word that may hold a free unit."""
    unit_start: Array
    """(P + 1,) int64 first unit number of each partition."""
    free: Array
    """(P,) int64 number of free units."""
    idle_uw: Array
    """(P,) int64 idle microwatts of one unit."""
    most_uw: Array
    """(P,) int64 stated maximum of one unit, -1 where none is stated."""
    option_partition: Array
    """(O,) int32 partition of each option."""
    place: Array
    """(U, R) int32 place of each unit within its partition, in each row of ``ByUnit.order``; empty where that is."""
    by_rank: Array
    """(R, words) uint64, as ``word`` with a bit for each place instead of each unit."""


@referenced
class Held(NamedTuple):
    """What running jobs hold.

    The interval log (``low``, ``high``) only grows: a job that is requeued gets new rows at its next start. So
    intervals of finished jobs stay readable to the end, and the schedule takes them over as they are.
    """

    option: Array
    """(n,) int16 option at which a job runs, -1 while it does not."""
    end: Array
    """(n,) float64 expected end."""
    factor: Array
    """(n,) float64 predicted time factor now."""
    first: Array
    """(n,) int64 first row in the interval log."""
    pieces: Array
    """(n,) int32 number of rows there."""
    low: Array
    """int32 first unit of each interval."""
    high: Array
    """int32 last unit of each interval, included."""
    parked: Array
    """(n,) int8, 1 while the job is suspended."""
    left: Array
    """(n,) float64 expected seconds at reference speed that a suspended job has left."""


@referenced
class PlannedTimes(NamedTuple):
    """Planned times of jobs (rule 3 of docs/semantics.md), and how often they were wrong."""

    seconds: Array
    """(n,) float64 planned seconds at reference speed; the column of walltimes itself where nothing is predicted."""
    overruns: Array
    """(n,) int16 times that a job ran on behind its planned time; empty where nothing is predicted."""
    promise: Array
    """(n,) float64 shadow time of a job's first reservation with one, else inf; empty where nothing is predicted."""


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

    A row holds from its time to the next row's, the last one for ever. Rows ``counter[PROFILE_HEAD]`` to
    ``counter[PROFILE] - 1`` are in use. ``stamp`` spares clearing the places of an earlier plan.
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


@referenced
class ByUnit(NamedTuple):
    """What a pass knows of units that differ, or are taken by rank (docs/adr/0013)."""

    factors: UnitFactors
    """Predicted factors."""
    rising: Array
    """(A + 1, U) float64 the factors of each partition from the least to the greatest; empty where ``factors`` is."""
    row: Array
    """(n,) int32 row of each job in ``order``; empty where that is."""
    order: Array
    """(1 or A + 1, U) int32 units of each partition in the order of placement; empty where the lowest numbers are taken
    and units are equal. One row holds for every job."""
    worst: Array
    """(m,) int64 net microwatts of an entry on its worst units at its lowest frequency, once queued."""
    beyond: Array
    """(n,) int8, 1 for jobs that could not be promised a start because their worst units exceed the cap."""
    chosen: Array
    """(U,) int32 working space: the units that a start would take."""
    mark: Array
    """uint64 working space, a word for each of ``Units.word``; 0 between two calls."""


@referenced
class SensorSamples(NamedTuple):
    """The latest sample of each power sensor, and what a measured ledger makes of it (``kernels/measured.py``).

    All empty where nothing measures. A sensor covers neighbouring units: one unit, a socket or a node.
    """

    start: Array
    """(S + 1,) int32 first unit of each sensor, and U at the end."""
    of_unit: Array
    """(U,) int32 sensor of each unit."""
    sample_uw: Array
    """(S,) int64 microwatts of all units of the sensor together; -1 where the sample is missing or stale."""
    begin_s: Array
    """(S,) float64 begin of the time whose mean the sample is: it says nothing of what started later."""
    end_s: Array
    """(S,) float64 end of that time."""
    share_uw: Array
    """(S,) int64 microwatts of one unit that the sample covers; the greatest ones where it is missing."""
    idle_above_uw: Array
    """(S,) int64 microwatts that idle units count above their idle watts."""
    idle_uw: Array
    """(S,) int64 idle microwatts of one unit."""
    most_uw: Array
    """(S,) int64 greatest microwatts of one unit."""
    busy: Array
    """(S,) int32 units with a job."""
    has_job: Array
    """(U,) int8, 1 for a unit with a job."""
    since_s: Array
    """(U,) float64 when a job started or ended on the unit last, or was given a higher frequency."""


@referenced
class KernelEvidence(NamedTuple):
    """What is measured of each running job (``kernels/in_flight.py``); all empty under another ledger."""

    figures: Array
    """float64 settings by slot."""
    seen: Array
    """(n, 4) float64 seconds measured, joules drawn and predicted in them, end of the last reading."""
    left: Array
    """(n,) float64 relative variance of a job's watts, as a share of that at its start."""


@referenced
class KernelView(NamedTuple):
    """Everything that a pass may see, and its output.

    No more jobs can start at once than units exist, so the buffer of starts is that long; ``counter[STARTS]`` rows of
    it are filled.
    """

    nodes: Array
    """(n,) int32 units of a job."""
    walltime: Array
    """(n,) float64 seconds at reference speed."""
    planned: PlannedTimes
    """What plans use instead: the walltime, or a predicted run time."""
    predicted: Rows
    """Watts and time factors by the estimator."""
    by_unit: ByUnit
    """Units that differ, or are taken by rank."""
    entries: EntryTable
    """All entries, queued or not."""
    consent: ConsentReach
    """How far they may be slowed for a load target."""
    tree: Tree
    """Which entries are queued, and what they need at least."""
    running: RunningBlocks
    """Running jobs by expected end."""
    units: Units
    """Which units are free."""
    held: Held
    """What running jobs hold."""
    measured: SensorSamples
    """Samples of power sensors."""
    evidence: KernelEvidence
    """What they say of each job, where the ledger corrects predictions by it."""
    reserved: Reservations
    """Reservations of the last greedy pass."""
    plan: ReservationPlan
    """The plan of the last conservative pass."""
    start_entry: Array
    """int32 entries that the pass started, in order."""
    start_option: Array
    """int16 their options."""
    num: Array
    """float64 scalars by slot: the time, the last pass, terms of a chance ledger."""
    counter: Array
    """int64 scalars by slot: budget, ledger, counts, constants."""


@referenced
class Heap(NamedTuple):
    """A binary heap of (time, id) with the place of each id, so that a time can be changed (``kernels/heap.py``)."""

    time: Array
    """(capacity,) float64 time of each row; row 0 is the first event."""
    item: Array
    """(capacity,) int32 id of each row."""
    place: Array
    """(ids,) int32 row of each id, -1 while it is not in the heap."""


@referenced
class Domains(NamedTuple):
    """Limits on power domains, and the jobs on their units (``kernels/domains.py``).

    Sums and speeds have two rows: what jobs really draw, and what is expected of them.
    """

    start: Array
    """(D + 1,) int32 first unit of each domain, and U at the end."""
    of_unit: Array
    """(U,) int32 domain of each unit."""
    cap_uw: Array
    """(D,) float64 limit on the microwatts of a domain, inf for none."""
    owner: Array
    """(U,) int32 job on each unit, -1 for none; kept once ``tally[OWNERS]`` is 1."""
    floor_uw: Array
    """(2, D) int64 microwatts that no limit reduces."""
    dynamic_uw: Array
    """(2, D) int64 microwatts above them at full speed."""
    speed: Array
    """(2, D) float64 relative speed under the limit, at most 1."""
    stale: Array
    """(D,) int32 domains whose limit or jobs changed; ``tally[STALE]`` of them."""
    mark: Array
    """(D,) int8, 1 for a domain in ``stale``."""
    job: Array
    """(U + 1,) int32 jobs that may have to continue at another speed; ``tally[LISTED]`` of them."""
    net: Array
    """(U + 1,) int64 net microwatts of each of them at its new speed (``speed.count_listed``)."""
    job_mark: Array
    """(n,) int8, 1 for a job in ``job``."""


@referenced
class Phases(NamedTuple):
    """Power profiles that truth follows (``kernels/phases.py``); all empty where it does not.

    Columns of ``model.profiles.PowerProfiles``, and what each job draws now.
    """

    pattern: Array
    """(n,) int32 pattern of each job, -1 for none."""
    base_w: Array
    """(n,) float64 watts of one unit at level 0."""
    scale_w: Array
    """(n,) float64 watts of one unit for a level of 1."""
    mean_uw: Array
    """(n,) int64 mean microwatts of one unit over the job's work."""
    level: Array
    """float32 levels of all patterns."""
    first: Array
    """(P + 1,) int64 first level of each pattern."""
    resume: Array
    """(P,) int64 level from which a pattern repeats."""
    place: Array
    """(n,) int64 period of its profile that a running job shows."""
    unit_uw: Array
    """(n,) int64 microwatts of one unit of a running job now."""


@referenced
class Sensors(NamedTuple):
    """What power sensors integrate (``kernels/sensors.py``); all empty where nothing measures.

    Sample k of a sensor is the mean over seconds k to k + 1 of its period; its energy stands in column k modulo R.
    """

    unit_uw: Array
    """(U,) int64 true microwatts of each unit now."""
    watt_uw: Array
    """(S,) int64 sums of these over the units of each sensor."""
    since_s: Array
    """(S,) float64 until when energy is counted."""
    sample: Array
    """(S,) int64 number of the sample under way then."""
    part_uj: Array
    """(S,) float64 microjoules of that sample up to then."""
    energy_uj: Array
    """(S, R) float64 microjoules of the last samples; R is a power of two."""
    figures: Array
    """float64 seconds and shares by slot: ``SAMPLE_S`` to ``LOSS`` of ``kernels/codes.py``."""
    normal: Array
    """float64 standard normal numbers, of which the noise of samples is drawn; empty for none."""
    uniform: Array
    """float64 uniform numbers, of which losses are drawn; empty for none."""


@referenced
class AnnouncedSteps(NamedTuple):
    """What the steps of the cap say of load targets before and after them, row by row of ``Truth.signal_time``."""

    ahead_s: Array
    """float64 when the next target begins that is announced by then, inf for none."""
    ahead_uw: Array
    """int64 its limit."""
    rise: Array
    """(k, 3) float64 of the rise after one: microwatts a second (0: no limit), seconds of a step, where it is over."""
    full_uw: Array
    """int64 the cap without load targets."""
    highest_uw: Array
    """int64 the highest limit from there on."""
    highest_target_uw: Array
    """int64 the highest one from there on at which a load target is in force, -1 for none."""
    least: Array
    """(4,) float64 share, own and common of the least margin; base of the cap in microwatts, -1 where it may fall."""


@referenced
class Truth(NamedTuple):
    """What jobs really do, and the events to come."""

    work: Array
    """(n,) float64 seconds of work at reference speed, at most the walltime."""
    actual: Rows
    """True watts and time factors by option."""
    by_unit: UnitFactors
    """True factors of units that differ."""
    time_by_unit: UnitFactors
    """True factors of run time by unit."""
    phases: Phases
    """Power profiles that the watts of jobs follow."""
    kill: Array
    """(n,) bool, outruns its walltime."""
    uw: Array
    """(n,) int64 true microwatts of the whole job now."""
    factor: Array
    """(n,) float64 true time factor now."""
    left: Array
    """(n,) float64 seconds of work that a suspended job has left."""
    reject: Array
    """(n,) int8 why a job is rejected at submission, 0 for not."""
    submit: Array
    """(n,) float64 submit times."""
    arrival: Array
    """(n,) int32 jobs in order of submission."""
    signal_time: Array
    """float64 times of steps of the cap."""
    signal_uw: Array
    """int64 the cap from there on."""
    signal_target: Array
    """int8 1 where a load target is in force from there on."""
    announced: AnnouncedSteps
    """Targets to come, and ramps after those that are over."""
    node_time: Array
    """float64 times of failures and returns."""
    node_unit: Array
    """int32 a unit of their nodes."""
    node_up: Array
    """int8, 0 fails, 1 returns."""
    ends: Heap
    """Completions to come; ids are jobs."""
    timers: Heap
    """Shut-downs and boots under way; ids are nodes."""
    unit_state: Array
    """(U,) int8 state of each unit, the same for all units of a node."""
    node_of_unit: Array
    """(U,) int32 node of each unit."""
    node_start: Array
    """(N + 1,) int32 first unit of each node, and U at the end."""
    domains: Domains
    """Power domains: limits, and the jobs on their units."""
    sensors: Sensors
    """What power sensors integrate."""
    node_figures: Array
    """(P, 7) float64 seconds, microwatts and exponents by slot."""
    when: Array
    """float64 times by slot: due controls, postponed pass."""
    tally: Array
    """int64 scalars by slot: phase, positions in the event columns, running sums of power."""
    request: Array
    """int64 scalars by slot: what the loop stops for, what happened at this instant."""


@referenced
class Log(NamedTuple):
    """What a simulation writes down: results of jobs, and a row for each instant at which power changed."""

    state: Array
    """(n,) int8 state of each job."""
    reason: Array
    """(n,) int8 why it was rejected."""
    start: Array
    """(n,) float64 last start, NaN for never."""
    end: Array
    """(n,) float64 end, NaN for never."""
    energy_j: Array
    """(n,) float64 joules of all its runs."""
    past_j: Array
    """(n,) float64 joules of its runs that a requeue or a failure ended."""
    parked_s: Array
    """(n,) float64 seconds for which it was suspended; less the time of its suspension while it is."""
    kept_s: Array
    """(n,) float64 seconds of work at reference speed that requeues kept."""
    option: Array
    """(n,) int16 option at its last start."""
    time: Array
    """float64 time of each power step."""
    jobs_uw: Array
    """int64 running jobs."""
    other_uw: Array
    """int64 idle units."""
    busy_idle_uw: Array
    """int64 idle share of units with a job."""
    busy: Array
    """int32 units with a job."""
    finished: Array
    """int32 jobs that ended since Python read them last."""
