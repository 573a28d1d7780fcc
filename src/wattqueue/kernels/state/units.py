"""Jobs that run and the units that they hold, with what power sensors say of them."""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels._numba import referenced
from wattqueue.kernels.state.queue import Array, UnitFactorTable


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
class ByUnit(NamedTuple):
    """What a pass knows of units that differ, or are taken by rank (docs/adr/0013)."""

    factors: UnitFactorTable
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
    job: Array
    """(U,) int32 job that runs on each unit, -1 for none; a suspended one does not run."""
    since_s: Array
    """(U,) float64 when a job started or ended on the unit last, or was given a higher frequency."""
    pending: Array
    """(ceil(S / 64),) uint64 a bit for each sensor that the next reading looks at."""
    moved_s: Array
    """(S,) float64 when watts or jobs of a sensor changed last."""
    marked: Array
    """(ceil(U / 64),) uint64 working space: bits of the first units of jobs that are to be counted again."""


@referenced
class KernelEvidence(NamedTuple):
    """What is measured of each running job (``kernels/in_flight.py``); all empty under another ledger."""

    figures: Array
    """float64 settings by slot."""
    seen: Array
    """(n, 4) float64 seconds measured, joules drawn and predicted in them, end of the last reading."""
    left: Array
    """(n,) float64 relative variance of a job's watts, as a share of that at its start."""
