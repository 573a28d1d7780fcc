"""What jobs really draw and take, the events that are still to come, and the results. Only the simulator's loop and the
actions that it carries out see it."""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels._numba import Scalars, referenced
from wattqueue.kernels.state.queue import Array, Rows, UnitFactorTable


@referenced
class Heap(NamedTuple):
    """A binary heap of (time, id) with the place of each id, so that a time can be changed (``kernels/heap.py``)."""

    time: Array
    """(capacity,) float64 time of each row; row 0 is the first event."""
    item: Array
    """(capacity,) int32 id of each row."""
    place: Array
    """(ids,) int32 row of each id, -1 while it is not in the heap."""
    filled: Array
    """(1,) int64 rows in use."""


@referenced
class LimitedDevices(NamedTuple):
    """Limits on devices, and the jobs on their units (``kernels/devices.py``).

    Sums and speeds have two rows: what jobs really draw, and what is expected of them.
    """

    start: Array
    """(D + 1,) int32 first unit of each device, and U at the end."""
    of_unit: Array
    """(U,) int32 device of each unit."""
    cap_uw: Array
    """(D,) float64 limit on the microwatts of a device, inf for none."""
    owner: Array
    """(U,) int32 job on each unit, -1 for none; kept once ``loop.keeps_owners`` is 1."""
    floor_uw: Array
    """(2, D) int64 microwatts that no limit reduces."""
    dynamic_uw: Array
    """(2, D) int64 microwatts above them at full speed."""
    speed: Array
    """(2, D) float64 relative speed under the limit, at most 1."""
    stale: Array
    """(D,) int32 devices whose limit or jobs changed; ``loop.stale`` of them."""
    mark: Array
    """(D,) int8, 1 for a device in ``stale``."""
    job: Array
    """(U + 1,) int32 jobs that may have to continue at another speed; ``loop.listed`` of them."""
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


class SensorFigures(Scalars):
    """How sensors measure and are read."""

    sample_s: float
    """Period of a sensor: a sample is the mean over it."""
    poll_s: float
    """Seconds between two readings of a sensor."""
    average_s: float
    """A reading is the mean of the samples of so many seconds, at least of the latest one."""
    stale_s: float
    """Age at which a sample is stale."""
    noise: float
    """Standard deviation of a sample, relative to its watts."""
    loss: float
    """Probability that a reading is lost."""


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
    figures: SensorFigures
    normal: Array
    """float64 standard normal numbers, of which the noise of samples is drawn; empty for none."""
    uniform: Array
    """float64 uniform numbers, of which losses are drawn; empty for none."""


BASE_UW = 3
"""The slot of ``AnnouncedSteps.least`` that holds the base of the cap."""


@referenced
class AnnouncedSteps(NamedTuple):
    """What the steps of the cap say of load targets before and after them, row by row of ``Truth.signal_time``."""

    ahead_s: Array
    """float64 when the next target begins that is announced by then, inf for none."""
    ahead_row: Array
    ahead_end: Array
    """int64 the rows of ``KernelView.ahead`` that are announced: the first, and the one behind the last."""
    ramp_uw_per_s: Array
    """float64 of the rise after one: microwatts a second, 0 for no limit."""
    rise_step_s: Array
    """float64 most seconds of one of its steps."""
    rise_top_uw: Array
    """float64 microwatts at which it is over."""
    full_uw: Array
    """int64 the cap without load targets."""
    highest_uw: Array
    """int64 the highest limit from there on."""
    highest_target_uw: Array
    """int64 the highest one from there on at which a load target is in force, -1 for none."""
    least: Array
    """(4,) float64 share, own and common of the least margin; base of the cap in microwatts, -1 where it may fall."""


@referenced
class NodeFigures(NamedTuple):
    """Figures of a node and of its clock by partition. Columns of shape (P,), float64."""

    boot_s: Array
    boot_uw: Array
    shutdown_s: Array
    shutdown_uw: Array
    off_uw: Array
    beta: Array
    """Exponents of the clock: of the time, and of the power above idle."""
    alpha: Array


class EventLoopState(Scalars):
    """Scalars of the loop: where it stands, what happens next, sums of true power in microwatts."""

    phase: int
    """What the loop does next (``kernels/loop.py``); survives a return to Python."""
    next_arrival: int
    next_signal: int
    next_node_event: int
    batch: int
    """First job of the arrivals of this instant, in arrival order."""
    events: int
    """Events since the last return."""
    event_limit: int
    happened: int
    """What happened at this instant, by bit."""
    stop_mask: int
    """When Python wants to be asked, by bit."""

    jobs_uw: int
    other_uw: int
    busy_idle_uw: int
    busy_units: int
    power_rows: int
    """Rows of power steps in use."""
    finished: int
    """Rows of the buffer of completions in use."""
    reports_completions: int
    """1 where Python parts want to see completions."""
    limited: int
    """Devices with a limit on their watts."""
    keeps_owners: int
    """1 once jobs on the units of devices are kept (``kernels/devices.py``)."""
    stale: int
    """LimitedDevices whose limit or jobs changed."""
    listed: int
    """Jobs that may have to continue at another speed."""
    draining: int
    """Nodes that stop when their jobs have ended."""
    sensing: int
    """1 where power sensors are followed (``kernels/sensors.py``)."""
    on_submission: int
    """1 where sensors are read at submissions, 0 where they are read at whole periods."""
    ages: int
    """1 where a sample is stale so long after it was read, 0 where the sensor alone makes it stale."""

    control_at_s: float
    """When the next control is due."""
    control_steps_left: float
    """Above 0 while a control may still move a queue that nothing else moves."""
    pass_at_s: float
    """When the next postponed pass runs."""
    pass_interval_s: float
    """Shortest time between passes."""
    pass_at_completion: float
    """1 where passes come at completions, and at whole intervals after the last one."""
    tick_at_s: float
    """Next sample of power profiles; inf where truth does not follow them."""
    delay_at_s: float
    """When the delay of a waiting job ends next; inf for none."""
    tick_period_s: float
    """Seconds between two samples."""
    profile_period_s: float
    """Seconds of work that one figure of a profile stands for."""
    sample_at_s: float
    """Next reading of the power sensors; inf where they are read at submissions, or not at all."""
    stale_at_s: float
    """When the samples that were read become stale; inf where they do not by themselves."""
    ramp_at_s: float
    """When the ramp after a load target raises the limit next; inf where there is none."""


@referenced
class LimitCurves(NamedTuple):
    """Run times under limits, by application and option (``sim/limit_curves.py``); empty columns for none."""

    row: Array
    """(n,) int32 row of each job's application, -1 for none; empty where no application has any."""
    start: Array
    """(A * O + 1,) int64 first point of each application and option; one without points follows the exponents."""
    share: Array
    """(k,) float64 shares of the watts above idle that are left, rising to 1 within a curve."""
    slow: Array
    """(k,) float64 run times over that without a limit."""


@referenced
class Truth(NamedTuple):
    """What jobs really do, and the events to come."""

    work: Array
    """(n,) float64 seconds of work at reference speed, at most the walltime."""
    actual: Rows
    """True watts and time factors by option."""
    by_unit: UnitFactorTable
    """True factors of units that differ."""
    time_by_unit: UnitFactorTable
    """True factors of run time by unit."""
    curves: LimitCurves
    """True run times under limits."""
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
    devices: LimitedDevices
    """Devices: limits, and the jobs on their units."""
    sensors: Sensors
    """What power sensors integrate."""
    node: NodeFigures
    """What a node takes to start and stop, by partition."""
    loop: EventLoopState
    """Where the loop stands."""


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
    checkpointed_s: Array
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
    end_option: Array
    """(n,) int16 option at which it ended; kept where completions are reported, as the next column."""
    limit_uw: Array
    """(n,) float64 lowest limit at its end on a device of its units, inf for none."""
