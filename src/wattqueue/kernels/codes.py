"""Integer codes and array slots that kernels share with the Python code that drives them.

Kernels take no strings and no enums: choices of a policy are integer codes. The groups of slots below name the array
that each belongs to. Codes of published files (``NOT_STARTED`` .. ``REJECTED``) must keep their values.
"""

from __future__ import annotations

# Passes (axis backfill).
NO_BACKFILL = 0
FIRST_FIT = 1
EASY = 2
CONSERVATIVE = 3
CUSTOM = 4
LAST_END = 5
SHORTEST = 6  # EASY, behind the reservations the shortest first

# Ledgers.
# A ledger is "predicted" (sum over running jobs), "measured" (telemetry), "chance" (predicted, with a margin),
# "adaptive" (the same, with a margin that a meter of the whole machine corrects) or "in-flight" (predictions that
# telemetry of each job corrects, with a margin that narrows).
PREDICTED = 0
MEASURED = 1
CHANCE = 2
ADAPTIVE = 3
IN_FLIGHT = 4

# Columns of AnnouncedSteps.rise: microwatts a second, most seconds of a step, microwatts at which a rise is over.
RISE_UW_PER_S = 0
RISE_STEP_S = 1
RISE_TOP_UW = 2

# How a pass looks ahead: a job counts as it runs, or at the last option of its window.
AHEAD_AS_RUN = 1
AHEAD_SLOWED = 2

# Corrections of planned times: nothing is predicted; at its start, a job is planned at its walltime; once it outlives
# its planned time; once it does, in steps.
PLAN_IS_LIMIT = 0
LIMIT_AT_START = 1
LIMIT_AT_OVERRUN = 2
STEPS_AT_OVERRUN = 3

# Stands for an infinite cap. Budgets are differences of such figures, so it leaves two bits of room in an int64.
NO_CAP = 1 << 62
NEVER = 1 << 30  # the need of a leaf that is not queued
# Limits that let every queued entry through: more units, or watts, than any entry needs.
ANY_NEED = NEVER - 1
ANY_WATT = 1 << 62
MICRO = 1e6
CLOCK_S = 1e-6  # least planned time: a later instant in float64 than its begin (bounds.DURATION_S)


def microwatts(watts: float) -> int:
    """Return watts as kernels count them."""
    return round(watts * MICRO)


# Job states, as model.schedule.State; WAITING and RUNNING_NOW exist only inside a run.
NOT_STARTED = 0
COMPLETED = 1
KILLED = 2
REJECTED = 3
WAITING = 4
RUNNING_NOW = 5

# Why a job that was submitted can never start, as model.schedule.Reason.
NO_ROOM_FOR_MARGIN = 3
NEVER_FITS = 4

# Slots of Truth.tally (int64) and what the loop returns.
# What the loop does next (kernels/loop.py); survives a return to Python.
PHASE = 0
NEXT_ARRIVAL = 1
NEXT_SIGNAL = 2
POWER_ROWS = 3
JOBS_UW = 4
OTHER_UW = 5
BUSY_IDLE_UW = 6
BUSY_UNITS = 7
HEAP = 8
TIMERS = 9
BATCH = 10  # first job of the arrivals of this instant, in arrival order
EVENTS = 11  # events since the last return
EVENT_LIMIT = 12
FINISHED = 13  # filled rows of the finished buffer
NEXT_NODE_EVENT = 14
REPORT_COMPLETIONS = 15  # 1 where Python parts want to see completions
LIMITED = 16  # power domains with a limit on their watts
OWNERS = 17  # 1 once jobs on the units of domains are kept (kernels/domains.py)
STALE = 18  # domains whose limit or jobs changed
LISTED = 19  # jobs that may have to continue at another speed
SENSING = 20  # 1 where power sensors are followed (kernels/sensors.py)
ON_SUBMISSION = 21  # 1 where sensors are read at submissions, 0 where they are read at whole periods
AGES = 22  # 1 where a sample is stale so long after it was read, 0 where the sensor alone makes it stale
DRAINING = 23  # nodes that stop when their jobs have ended
TALLY_SLOTS = 24

# Codes with which the loop returns to Python: what it needs before it can resume.
DONE = 0
NEED_PREDICTION = 1
NEED_PASS = 2
NEED_CONTROL = 3
NEED_ROOM = 4
PROGRESS = 5

# Slots of Truth.when (float64).
# When the next control is due, the next postponed pass runs, and the shortest time between passes.
CONTROL_AT = 0
PASS_AT = 1
PASS_INTERVAL = 2
CONTROL_STEPS_LEFT = 3  # above 0 while a control may still move a queue that nothing else moves
PASS_AT_COMPLETION = 4  # 1 where passes come at completions, and at whole intervals after the last one
TICK_AT = 5  # next sample of power profiles; inf where truth does not follow them
TICK_PERIOD = 6  # seconds between two samples
PROFILE_PERIOD = 7  # seconds of work that one figure of a profile stands for
SAMPLE_AT = 8  # next reading of the power sensors; inf where they are read at submissions, or not at all
STALE_AT = 9  # when the samples that were read become stale; inf where they do not by themselves
RAMP_AT = 10  # when the ramp after a load target raises the limit next; inf where there is none
WHEN_SLOTS = 11

# Calls of the controls without effect for which a queue that nothing else moves keeps a run alive.
IDLE_CONTROL_STEPS = 1_000

# Controls with a compiled step (kernels/control_step.py).
REDISTRIBUTE = 0

# Slots of Truth.request (int64): when Python wants to be asked, and what happened at this instant.
STOP_MASK = 0
HAPPENED = 1
REQUEST_SLOTS = 2

# Their bits.
STOP_FOR_PREDICTION = 1
STOP_FOR_PASS = 2
STOP_ON_ARRIVAL = 8
STOP_ON_COMPLETION = 16
STOP_ON_SIGNAL = 32
STOP_ON_NODE = 64
STOP_ON_START = 128

# Unit states.
# A stop takes UNIT_ON through UNIT_STOPPING to UNIT_OFF, a wake through UNIT_BOOTING back. Only UNIT_ON takes jobs.
# A drain takes a busy UNIT_ON through UNIT_DRAINING to UNIT_STOPPING; a wake takes it back.
# A failure leads to UNIT_DOWN from every state, a return from there to UNIT_ON.
UNIT_ON = 0
UNIT_STOPPING = 1
UNIT_OFF = 2
UNIT_BOOTING = 3
UNIT_DOWN = 4
UNIT_DRAINING = 5  # runs jobs, takes no new one, and stops when the last of them has ended

# Columns of Truth.node_figures (P, 7) float64: seconds and microwatts of a node, and the clock's exponents.
BOOT_S = 0
BOOT_UW = 1
SHUTDOWN_S = 2
SHUTDOWN_UW = 3
OFF_UW = 4
BETA = 5
ALPHA = 6
FIGURES = 7

# Slots of Sensors.figures (float64).
SAMPLE_S = 0  # period of a sensor: a sample is the mean over it
POLL_S = 1  # seconds between two readings of a sensor
AVERAGE_S = 2  # a reading is the mean of the samples of so many seconds, at least of the latest one
STALE_S = 3  # age at which a sample is stale
NOISE = 4  # standard deviation of a sample, relative to its watts
LOSS = 5  # probability that a reading is lost
SENSOR_FIGURES = 6

# Why an action was refused.
# The job or unit is not in a state for it; no free unit; no such option; the ledger has no room for the watts.
REFUSED_STATE = 1
REFUSED_BUSY = 2
REFUSED_OPTION = 3
REFUSED_POWER = 4
REFUSED_CONSENT = 5  # it would slow, for a load target, a job whose user does not consent to it
