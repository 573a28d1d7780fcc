"""The arrays that kernels work on, as named tuples. The pass gets a View and cannot reach the Truth.

Symbols: n jobs, m entries, P partitions, O options, U units, C prediction rows, B running blocks of
K rows. Watts are int64 microwatts, so that sums do not depend on their order. *Net* watts are what a
start adds to the cap's scope: predicted watts less the idle share, unless the cap covers jobs alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]


class Rows(NamedTuple):
    """Watts of one unit and relative run time by option, shared by jobs of one row.

    ``row`` (n,) int32, or empty where job j has row j; ``power_uw`` (C, O) int64;
    ``time_factor`` (C, O) float64. A table with a single row holds for every job.
    """

    row: Array
    power_uw: Array
    time_factor: Array


class Entries(NamedTuple):
    """Job-partition entries, partition by partition, each partition's in queue order.

    ``job`` (m,) int32; ``first``, ``last`` (m,) int16 option window, highest frequency first; ``rank``
    (m,) int32 in the one global order; ``of_job`` (n, P) int32, -1 for none; ``start`` (P + 1,) int64.
    """

    job: Array
    first: Array
    last: Array
    rank: Array
    of_job: Array
    start: Array


class Tree(NamedTuple):
    """Subtree minima over queued entries, fan-out 16, level 0 = entries in queue order.

    ``need`` int32, ``wall`` float64 s, ``watt`` int64: the m leaves in entry order, then the inner nodes, each
    level from a multiple of 16 on; ``need_class``, ``watt_class`` (m,) int8 of the leaves; ``by_need``,
    ``by_watt`` (inner / 16, CLASSES, 16) float32: of 16 inner nodes side by side the least walltime among leaves
    of at most a class, whose upper ends are ``need_step``, ``watt_step`` (CLASSES - 1,) int64; ``least``
    (2, CLASSES) float32 room to work in; ``offset`` (P, L) where a level begins; ``size`` (P, L) its length;
    ``height`` (P,) levels; ``head`` (P,) a leaf before which nothing is queued.
    """

    need: Array
    wall: Array
    watt: Array
    need_class: Array
    watt_class: Array
    by_need: Array
    by_watt: Array
    need_step: Array
    watt_step: Array
    least: Array
    offset: Array
    size: Array
    height: Array
    head: Array


class Running(NamedTuple):
    """Running jobs sorted by expected end, in blocks with sums.

    Rows (B, K): ``end`` float64, ``job`` int32, ``net`` int64. Blocks (B,): ``filled`` int32,
    ``last_end`` float64, ``net_sum`` int64, ``nodes_sum`` (B, P) int64. ``order`` (B,) int32: the
    blocks in use, sorted, then the spare ones.
    """

    end: Array
    job: Array
    net: Array
    filled: Array
    last_end: Array
    net_sum: Array
    nodes_sum: Array
    order: Array


class Units(NamedTuple):
    """Free units as bits, a partition's from ``word_start[p]`` on; lowest number first.

    ``word`` uint64; ``filled`` uint64, a bit for each word that is not 0; ``word_start`` (P + 1,);
    ``low`` (P,) first word that may hold a free unit;
    ``unit_start`` (P + 1,) first unit number; ``free`` (P,) free units; ``idle_uw`` (P,) of a unit;
    ``option_partition`` (O,) int32.
    """

    word: Array
    filled: Array
    word_start: Array
    low: Array
    unit_start: Array
    free: Array
    idle_uw: Array
    option_partition: Array


class Held(NamedTuple):
    """What running jobs hold. ``option`` (n,) int16, -1 while not running; ``end`` (n,) expected;
    ``factor`` (n,) predicted time factor just now;
    ``first`` (n,) int64 and ``pieces`` (n,) int32 into the interval log ``low``, ``high`` (int32 units)."""

    option: Array
    end: Array
    factor: Array
    first: Array
    pieces: Array
    low: Array
    high: Array


class Promise(NamedTuple):
    """Reservations of the last pass, one a partition. ``entry`` (P,) int32 or -1; ``time`` (P,) shadow;
    ``nodes``, ``watt`` (P,) what is left over there; ``candidate`` (P,) int64 next entry, or -1."""

    entry: Array
    time: Array
    nodes: Array
    watt: Array
    candidate: Array


class Plan(NamedTuple):
    """Conservative backfilling: free nodes and watts over time, and each job's place in it.

    ``time`` (M,), ``nodes`` (P, M), ``watt`` (M,): a row holds to the next, the last for ever;
    ``entry`` (n,) int32 and ``begin`` (n,) float64: what is planned for a job, -1 for nothing;
    ``stamp`` (n,) int32 the profile in which it is.
    """

    time: Array
    nodes: Array
    watt: Array
    entry: Array
    begin: Array
    stamp: Array


class View(NamedTuple):
    """All that a pass may see, and its buffer of starts (``start_entry``, ``start_option``)."""

    nodes: Array
    walltime: Array
    predicted: Rows
    entries: Entries
    tree: Tree
    running: Running
    units: Units
    held: Held
    promise: Promise
    plan: Plan
    start_entry: Array
    start_option: Array
    num: Array
    counter: Array


class Heap(NamedTuple):
    """A binary heap of (time, id) with the place of each id, so that a time can be changed."""

    time: Array
    item: Array
    place: Array


class Truth(NamedTuple):
    """What jobs really do. ``work`` (n,) seconds of work at reference speed; ``actual`` true watts and
    time factors; ``kill`` (n,) bool outruns its walltime; ``uw`` and ``factor`` (n,) the job's watts and
    time factor just now; ``unit_state`` (U,) int8; ``unit_cap_uw`` (U,) float64, inf for none.

    Events: ``submit`` (n,) and ``arrival`` (n,) rows in order of submission; ``signal_time``,
    ``signal_uw`` the cap; ``node_time``, ``node_unit``, ``node_up`` failures and returns;
    ``ends`` the completions, ``timers`` the shut-downs and boots under way.
    """

    work: Array
    actual: Rows
    kill: Array
    uw: Array
    factor: Array
    reject: Array
    submit: Array
    arrival: Array
    signal_time: Array
    signal_uw: Array
    node_time: Array
    node_unit: Array
    node_up: Array
    ends: Heap
    timers: Heap
    unit_state: Array
    unit_cap_uw: Array
    node_figures: Array
    when: Array
    tally: Array
    wish: Array


class Log(NamedTuple):
    """What is written down. Jobs (n,): ``state``, ``reason`` int8, ``start``, ``end``, ``energy_j``,
    ``option`` int16; power steps: ``time``, ``jobs_uw``, ``other_uw``, ``busy_idle_uw``, ``busy``;
    ``finished`` int32: rows that ended since Python looked last."""

    state: Array
    reason: Array
    start: Array
    end: Array
    energy_j: Array
    option: Array
    time: Array
    jobs_uw: Array
    other_uw: Array
    busy_idle_uw: Array
    busy: Array
    finished: Array
