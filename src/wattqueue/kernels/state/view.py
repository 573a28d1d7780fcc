"""What the scheduler may know. The pass gets a ``KernelView`` only, live as in simulation."""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels._numba import Scalars, referenced
from wattqueue.kernels.state.queue import (
    AnnouncedLimits,
    Array,
    ConsentReach,
    EntryTable,
    PlannedTimes,
    ReservationPlan,
    Reservations,
    Rows,
    Tree,
)
from wattqueue.kernels.state.supply import SupplyLimits
from wattqueue.kernels.state.units import ByUnit, Held, KernelEvidence, RunningBlocks, SensorSamples, Units


class PassState(Scalars):
    """Scalars of a view: where the pass stands, the ledger, what the policy chose. Watts are microwatts."""

    time_s: float
    last_pass_s: float
    last_rise_s: float
    """When the ledger rose last, after a load target."""
    ahead_s: float
    """When the next announced load target begins; inf for none."""
    chance_share: float
    """Watts to expect for a watt of the ledger."""
    chance_own: float
    """The margin is sqrt(own x sum of squares + common x square of the sum), both of net watts."""
    chance_common: float
    idle_tolerance: float
    """Share by which a sample may be below idle watts and still counts as idle."""
    ramp_uw_per_s: float
    """By which the ledger may rise since its last rise; 0 where nothing limits it."""

    backfill: int
    """The pass: a code of the axis backfill."""
    depth: int
    fcfs_ranks: int
    """1 where later arrivals always rank behind earlier ones, so that a pass may begin at the new ones."""
    correction: int
    """What becomes of a planned time that is wrong, by code."""
    looks_ahead: int
    """Whether, and how, the pass counts what runs when the next load target begins, by code."""
    by_target: int
    """1 where a job starts at the last option of its window during a load target, else at the first."""
    by_chance: int
    """1 where the ledger keeps a margin that follows from what runs."""
    by_sample: int
    """1 where the ledger reads power sensors."""
    share_busy: int
    """1 where idle units count idle watts, and those with a job share the rest of a sample."""
    has_ramp: int
    """1 where the ledger rises at the ramp of a load target after it."""
    scope_jobs: int
    """1 where a cap covers running jobs alone."""
    scope_machine: int
    """1 where it covers the machine."""

    starts: int
    """Rows of the buffer of starts in use."""
    intervals: int
    """Rows of the interval log in use."""
    blocks: int
    """Running blocks in use."""
    running: int
    """Jobs that run."""
    queued: int
    """Entries that wait."""
    tried: int
    """Entries tried in this pass."""
    first_new: int
    """Lowest rank that arrived since the last pass, or -1."""
    dirty: int
    """1 where something other than arrivals happened since the last pass."""
    whole_next: int
    """1 where the next pass is a whole one: a reservation was dropped, or its shadow time moved forward."""
    holds_starts: int
    """1 while nothing starts beside running jobs: a control asks for it (rule 16)."""
    in_target: int
    """1 while a load target is in force."""
    ahead_row: int
    ahead_end: int
    """Rows of ``ahead`` that are announced now: from ``ahead_row`` on and before this one."""
    ahead_stamp: int
    """Number of the pass, so that what an earlier one computed of announced limits is not mistaken for its own."""
    plan_head: int
    plan_end: int
    """Rows of the plan from ``plan_head`` on and before this one are in use."""
    plan_stands: int
    """1 while the plan of the last conservative pass still stands."""
    plan_stamp: int
    """Number of the plan, so that places in older ones are not mistaken for places in this."""

    cap_uw: int
    stated_cap_uw: int
    """The limit in force without the ramp after a load target."""
    full_cap_uw: int
    """The cap without load targets; ``cap_uw`` is below it for a target alone."""
    base_uw: int
    """Idle watts that the cap covers and no job does."""
    base_margin_uw: int
    """Part of ``base_uw`` that is a margin of a snapshot."""
    margin_uw: int
    ledger_uw: int
    """Net watts of running jobs."""
    squares_w2: int
    """Sum of squares of running jobs' net watts (W^2), less of measured ones; kept where ``by_chance``."""
    idle_above_uw: int
    """What idle units count above their idle watts."""
    available_uw: int
    """Budget less the ledger: watts that starting jobs may still take."""
    highest_ledger_uw: int
    """The highest figure of the ledger since the last target."""


@referenced
class KernelView(NamedTuple):
    """Everything that a pass may see, and its output.

    No more jobs can start at once than units exist, so the buffer of starts is that long; ``now.starts`` rows of it
    are filled.
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
    ahead: AnnouncedLimits
    """Limits that are announced for later, where the pass looks ahead."""
    tree: Tree
    """Which entries are queued, and what they need at least."""
    running: RunningBlocks
    """Running jobs by expected end."""
    units: Units
    """Which units are free."""
    supply: SupplyLimits
    """Power domains that can hold jobs back, and their room."""
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
    now: PassState
    """Scalars that change, and the policy's constants."""
