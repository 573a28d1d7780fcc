"""Integer codes that kernels share with the Python code that drives them.

Kernels take no strings and no enums: choices of a policy are integer codes. Codes of published files
(``NOT_STARTED`` to ``REJECTED``) must keep their values.
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
NO_ROOM_IN_SUPPLY = 7

# Codes with which the loop returns to Python: what it needs before it can resume.
DONE = 0
NEED_PREDICTION = 1
NEED_PASS = 2
NEED_CONTROL = 3
NEED_ROOM = 4
PROGRESS = 5

# Calls of the controls without effect for which a queue that nothing else moves keeps a run alive.
IDLE_CONTROL_STEPS = 1_000

# Controls with a compiled step (kernels/control_step.py).
REDISTRIBUTE = 0

# Bits of EventLoopState.stop_mask and happened: when Python wants to be asked, and what happened at this instant.
STOP_FOR_PREDICTION = 1
STOP_FOR_PASS = 2
STOP_FOR_START = 4  # for passes in which something may start
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

# Why an action was refused.
# The job or unit is not in a state for it; no free unit; no such option; the ledger has no room for the watts.
REFUSED_STATE = 1
REFUSED_BUSY = 2
REFUSED_OPTION = 3
REFUSED_POWER = 4
REFUSED_CONSENT = 5  # it would slow, for a load target, a job whose user does not consent to it
