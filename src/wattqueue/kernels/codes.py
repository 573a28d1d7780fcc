"""Integer codes and array slots shared by kernels and the Python that drives them."""

from __future__ import annotations

# Passes (axis backfill).
NO_BACKFILL = 0
FIRST_FIT = 1
EASY = 2
CONSERVATIVE = 3
CUSTOM = 4

# Ledgers.
PREDICTED = 0
MEASURED = 1
CHANCE = 2

# Slots of View.num (float64).
NOW = 0
LAST_PASS = 1
CHANCE_SHARE = 2  # watts to expect for a watt of the ledger
CHANCE_OWN = 3  # margin = sqrt(own x sum of squares + common x square of the sum), both of net watts
CHANCE_COMMON = 4
NUM_SLOTS = 5

# Slots of View.counter (int64). Watts are microwatts.
CODE = 0
DEPTH = 1
STARTS = 2  # filled rows of the start buffer
INTERVALS = 3  # filled rows of the interval log
DIRTY = 4  # something other than arrivals happened since the last pass
FCFS_RANKS = 5  # later arrivals always rank behind earlier ones, so that a pass may begin at the new ones
NEGATIVE_NET = 6  # some job draws less than its idle share, so that a start can free watts
BLOCKS = 7  # running blocks in use
RUNNING = 8
QUEUED = 9  # entries queued
AVAILABLE = 10  # budget - ledger: watts that starting jobs may still take
PROFILE = 11  # filled rows of the plan's profile
PROFILE_HEAD = 12
TRIED = 13  # entries tried in this pass
DROPPED = 14  # a reservation was dropped in the last pass
FIRST_NEW = 15  # lowest rank that arrived since the last pass, or -1
BASE = 16  # idle watts that the cap covers and no job does
CAP = 17
MARGIN = 18
LEDGER = 19  # net watts of running jobs
SCOPE_JOBS = 20  # 1 where a cap covers running jobs alone
SCOPE_MACHINE = 21
PLANNED = 22  # the plan of the last conservative pass still stands
STAMP = 23  # number of the profile, so that places in older ones are not mistaken for places in this
BY_CHANCE = 24  # 1 where the ledger keeps a margin that follows from what runs
SQUARES = 25  # sum of squares of running jobs' net watts (W^2); kept where BY_CHANCE
COUNT_SLOTS = 26

NO_CAP = 1 << 61
NEVER = 1 << 30  # the need of a leaf that is not queued
ANY_NEED = NEVER - 1
ANY_WATT = 1 << 62
MICRO = 1e6

# Job states, as model.schedule.State; WAITING and RUNNING_NOW exist only inside a run.
NOT_STARTED = 0
COMPLETED = 1
KILLED = 2
REJECTED = 3
WAITING = 4
RUNNING_NOW = 5

# Slots of Truth.tally (int64) and what the loop returns.
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
STEERED = 15  # 1 where Python parts want to see completions
LIMITED_UNITS = 16  # units with a limit on their watts
TALLY_SLOTS = 17

DONE = 0
NEED_PREDICTION = 1
NEED_PASS = 2
NEED_CONTROL = 3
NEED_ROOM = 4
NEED_RERANK = 5
PROGRESS = 6

# Slots of Truth.when (float64).
CONTROL_AT = 0
PASS_AT = 1
PASS_INTERVAL = 2
PATIENCE = 3  # above 0 while a control may still move a queue that nothing else moves
WHEN_SLOTS = 4

# Slots of Truth.wish (int64): when Python wants to be asked, and what happened at this instant.
WISHES = 0
HAPPENED = 1
WISH_SLOTS = 2

# Their bits.
ASK_PREDICTION = 1
ASK_PASS = 2
ASK_RERANK = 4
ASK_ON_ARRIVAL = 8
ASK_ON_COMPLETION = 16
ASK_ON_SIGNAL = 32
ASK_ON_NODE = 64

# Unit states.
UNIT_ON = 0
UNIT_STOPPING = 1
UNIT_OFF = 2
UNIT_BOOTING = 3
UNIT_DOWN = 4

# Columns of Truth.node_figures (P, 7) float64: seconds and microwatts of a unit, and the clock's exponents.
BOOT_S = 0
BOOT_UW = 1
SHUTDOWN_S = 2
SHUTDOWN_UW = 3
OFF_UW = 4
BETA = 5
ALPHA = 6
FIGURES = 7

# Why an action was refused.
REFUSED_STATE = 1
REFUSED_BUSY = 2
REFUSED_OPTION = 3
REFUSED_POWER = 4
